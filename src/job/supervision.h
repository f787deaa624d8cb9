/* supervision.h - the supervisor's state, shared by its loop (supervisor.c) and by the change from one world to the
 * next (regroup.c). */
#pragma once

#include "comm/world/segment.h"
#include "job/supervisor.h"

#include <poll.h>
#include <signal.h>

enum { TRI_STOP_SIGNALS = 4 };

/* One process. Its index is its rank in the first world, and orders the ranks of later ones. */
typedef struct tri_child {
    pid_t pid;
    int pidfd;        /* -1: ended, or not started */
    int asked;        /* 1: it was sent the stop signal */
    int local;        /* its rank in the current world; -1: in none (a spare, or not joined yet) */
    int socket;       /* of an elastic run: our end (comm/link/regroup.h); -1: none */
    int ready;        /* 1: it waits on its socket for a world */
    int joins;        /* 1: it was started again, and has been in no world yet */
    int told;         /* 1: users know of its death */
    double begun, killed; /* tri__clock() of its start; of our first SIGKILL, 0: none */
    tri_rank_end end;
} tri_child;

/* What fits so many ranks. */
typedef struct tri_fitting {
    int known, ranks;
    int32_t stages, replicas;
} tri_fitting;

typedef struct tri_supervisor {
    const tri_supervised *what;
    tri_verdict *verdict;
    tri_segment segment;       /* of the current world */
    tri_streams streams;
    tri_child *child;          /* [n] */
    int started, alive;
    tri_seen *seen;            /* [TRI_RANKS_PER_NODE]: the page's n is not trusted */
    struct pollfd *poll;       /* [1 + 4 n] signals; pidfds; stdout and stderr of each rank; sockets */
    int signals;               /* signalfd */
    sigset_t mask_before;
    struct sigaction before[TRI_STOP_SIGNALS], child_before;
    double watched, asked, aborted, terminated,
        killed;                /* tri__clock() of the last check; of the stages of ending; 0: not yet */
    int key;                   /* 1: the first signal came from the keyboard */
    int exit_stopped;          /* a rank left with TRI_STOPPED */
    int64_t oom_before;
    /* Of an elastic run: */
    tri_segment earlier;       /* the newest world with complete replicated state, while the current one has none */
    tri_fitting *fitting;      /* [n + 1] by ranks that are left */
    int generation;            /* worlds before the current one */
    double progress_timeout;
    int64_t restarts;
    int waits;                 /* 1: no mesh can be formed until ranks that are being started are ready */
    double regrouping;         /* tri__clock() since when the current world is over; 0: it is not */
    int over;                  /* 1: there will be no further world: whoever asks is told END */
} tri_supervisor;

/* supervisor.c. Starts rank i, in the current world (joins 0), or to join a later one (joins 1). */
tri_status tri__child_start(tri_supervisor *s, int i, int joins);
/* Sends a signal, if it runs; it ends then by us. */
void tri__child_end(tri_supervisor *s, int i, int signal);

/* regroup.c, for elastic runs. In every round of the loop: hears the ranks, and makes the next world when the current
 * one is over. */
void tri__supervisor_regroup(tri_supervisor *s);
/* Whether a failure ends only the world, not the run: the loop then leaves ranks that wait for the next one alone. */
int tri__supervisor_survives(const tri_supervisor *s);
/* Whether the first rank of the last world, which writes what a run results in, ended well: another's death after that
 * takes nothing from the run. */
int tri__supervisor_completed(const tri_supervisor *s);
