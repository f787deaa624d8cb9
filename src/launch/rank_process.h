/* rank_process.h - one rank as a fresh execution of a program: what it inherits, and that it ends when its starter
 * does. */
#ifndef TRI_LAUNCH_RANK_PROCESS_H
#define TRI_LAUNCH_RANK_PROCESS_H

#include "base/status.h"

#include <sched.h>
#include <sys/types.h>

typedef struct tri_rank_start {
    const char *program;           /* path of the executable */
    char *const *argv;             /* NULL at its end */
    char *const *environment;      /* likewise */
    int in, out, err;              /* its standard descriptors; -1: as here */
    int keep;                      /* the one further descriptor that it inherits */
    const sigset_t *signals;       /* its signal mask */
    const cpu_set_t *cores;        /* NULL: as here */
} tri_rank_start;

/* Starts it and waits until the program runs. *pidfd becomes readable at its end, which the caller collects with wait4.
 * The rank is killed when the calling thread ends. It is in a process group of its own, so that a key pressed on the
 * terminal reaches the starter alone, which passes it on. TRI_RESOURCE when a limit is reached, TRI_INTERNAL when the
 * program cannot be executed. */
tri_status tri__rank_start(const tri_rank_start *how, int rank, pid_t *pid, int *pidfd);

/* A copy of `base` with the variables of the n pairs set: name, value, name, value ...; a NULL value unsets. To be
 * freed with free(). NULL when out of memory. */
char **tri__environment_with(char *const *base, const char *const (*pairs)[2], int n);

#endif
