/* rank_process.h - one rank as a fresh execution of a program: what it inherits, and that it ends with its parent. */
#pragma once

#include "base/base.h"

#include <sched.h>
#include <sys/types.h>

typedef struct tri_rank_start {
    const char *program;           /* path of the executable */
    char *const *argv;             /* NULL at its end */
    char *const *environment;      /* NULL at its end */
    int in, out, err;              /* its standard descriptors; -1: inherited */
    int keep[2];                   /* the only additional descriptors that it inherits; -1: none */
    const sigset_t *signals;       /* its signal mask; NULL: inherited */
    const cpu_set_t *cores;        /* NULL: inherited */
} tri_rank_start;

/* Starts it and waits until the program runs. *pidfd becomes readable when it ends; the caller then collects it with
 * wait4. The rank is killed when the calling thread ends. It has its own process group, so that Ctrl-C on the terminal
 * reaches only the parent, which forwards it. TRI_RESOURCE when a limit is reached, TRI_INTERNAL when the program
 * cannot be executed. */
tri_status tri__rank_start(const tri_rank_start *how, int rank, pid_t *pid, int *pidfd);

/* A copy of `base` with the variables of the n pairs (name, value) set; a NULL value unsets. Freed with free(). NULL
 * when out of memory. */
char **tri__environment_with(char *const *base, const char *const (*pairs)[2], int n);
