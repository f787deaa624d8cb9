/* parent.h - the process that starts ranks, trainings or another launcher: what they inherit from it, how it talks to
 * the user, and how it takes signals. `cli` fills it in; nothing in this folder prints or reads the environment. */
#pragma once

#include "base/log.h"

/* The message printed immediately on the first signal. */
typedef enum tri_signal_words {
    TRI_SIGNAL_SILENT,       /* another process prints it: the one that started the ranks, or rank 0 */
    TRI_SIGNAL_EARLY,        /* nothing is trained yet */
    TRI_SIGNAL_STEP,         /* a single process finishes its step and saves */
    TRI_SIGNAL_STEP_UNSAVED, /* likewise, with checkpoints off */
    TRI_SIGNAL_RANKS,        /* ranks agree on the last step, and save */
    TRI_SIGNAL_RANKS_UNSAVED,
    TRI_SIGNAL_LAUNCHER,     /* likewise, if the launcher that sends it leaves the ranks the time */
    TRI_SIGNAL_DRAIN,        /* a server answers what it has begun */
    TRI_SIGNAL_MEASURED,     /* quantize ends after the evaluation that runs */
    TRI_SIGNAL_ROWS,         /* predict, eval and explain end after the batch of rows in progress */
    TRI_SIGNAL_SEARCHED,     /* choose shows the layouts found so far */
    TRI_SIGNAL_PASSED_ON,    /* supervise: passed on to the job */
    TRI_SIGNAL_PASSED_ON_SAVES, /* likewise, to a job that trains and saves */
    TRI_SIGNAL_PAUSED        /* supervise: between two starts */
} tri_signal_words;

typedef struct tri_parent {
    char *const *argv, *const *environment; /* of this process; each NULL at its end */
    char *(*lookup)(const char *name);      /* of the environment, for variables that launchers set */
    int out, err;                           /* the console's descriptors */
    const tri_stop *stop;                   /* NULL: it does not handle signals */
    int reloads;                            /* SIGHUP asks ranks to load their model again, not to stop */
    int *reported;                          /* 1: the failure that is returned has been printed already */
    tri_log log;                            /* to the console, of all kinds; in place of a progress line, but PLAIN */
    void (*report)(void *context, tri_status status); /* of log; prints what program.c would, before a wait */
    void (*reply)(tri_signal_words words); /* what the first signal is answered with from now on */
    void (*end)(int seconds, int code);    /* only the process has to end: in so many seconds, else by itself */
    int (*pause)(double seconds);          /* 1: a signal came; 0: the time is over */
    /* As tri_supervised has it: planning is above this folder. */
    int (*fit)(void *settings, int alive, int32_t *stages, int32_t *replicas);
} tri_parent;
#define tri__tell(parent, ...) tri__say(&(parent)->log, TRI_LOG_PLAIN, __VA_ARGS__)
