/* supervisor.h - starts the ranks of one machine as fresh executions of a program, watches them, and reports how they
 * ended.
 *
 * Ranks share one unnamed memory file that they inherit. A rank's death or hang becomes the failure of all; ranks
 * that do not leave after a failure are killed. When the supervisor itself is killed, so are they: nothing is left
 * behind. */
#pragma once

#include "comm/world/control_page.h"
#include "job/rank_streams.h"

typedef struct tri_supervised {
    const char *program;         /* NULL: this executable */
    char *const *argv;           /* of every rank; NULL at its end */
    char *const *environment;    /* inherited by ranks; RANK, WORLD_SIZE and the like are set in it */
    int n;                       /* ranks, all on this machine */
    size_t heap_bytes;           /* shared heap of each rank; 0: up to the machine's memory */
    double progress_timeout;     /* seconds without progress after which a rank counts as hung; 0: 30 */
    double io_timeout;           /* seconds that one file call may take instead; 0: 600 */
    int bind_cores;              /* 1: each rank is bound to its share of this process's cores */
    int gpus;                    /* ranks take one after the other, and cores beside them; 0: none, or unknown which */
    int out, err;                /* the console */
    tri_rank_logs logs;
    const tri_stop *stop;        /* a stop requested before ranks started counts, too; NULL */
    const tri_log *log;          /* for warnings and `stopping`; NULL: none */
    int reloads;                 /* 1: SIGHUP requests no stop: it is passed on each time it comes */
    const char *stopping;        /* message when the first signal requests a stop; NULL: none */
    const char *stopping_early;  /* the same before any rank has begun its first step */
    int elastic;                 /* 1: when ranks die, the others go on in another world (comm/link/regroup.h) */
    int64_t max_restarts;        /* of an elastic run: how often ranks that died are started again, to join */
    int min_ranks;               /* of an elastic run: with fewer it ends */
    /* How many of `alive` ranks the best mesh uses, and its stages and replicas; 0: none can go on. */
    int (*fit)(void *context, int alive, int32_t *stages, int32_t *replicas);
    void *fit_context;
} tri_supervised;

/* How one rank ended, and its last position. */
typedef struct tri_rank_end {
    int rank;                    /* in the world */
    int status;                  /* as wait4 gives it; -1: it could not be ended, or its status is unknown */
    int64_t peak_bytes;          /* peak memory */
    int by_us;                   /* the signal with which the supervisor ended it; 0: none */
    uint32_t life, phase, waiting;
    int64_t step;
    uint64_t posted, last;       /* operations posted; the last one, packed */
} tri_rank_end;

typedef struct tri_verdict {
    int code; /* exit code of the whole run: 0, the first failure's (128 + signal for a death), TRI_STOPPED */
    int failed;                  /* 1: `failure` is the cause */
    int hung;                    /* 1: the supervisor found a hung rank */
    int stopped;                 /* the signal that requested the stop; 0: none */
    int out_of_memory; /* 1: the system's out-of-memory killer was active in this control group in the meantime */
    tri_failure failure, second[TRI_SECOND_FAILURES];
    int n_second;
    double ended;                /* seconds since 1970, of the failure */
    int64_t committed;           /* step of the last checkpoint that the ranks committed; -1: none */
    int n;
    tri_rank_end *rank;          /* [n] */
    char logs[TRI_PATH_MAX];     /* folder of the ranks' logs; "" */
    char host[65];               /* machine of the first failing rank; "": there is one machine */
} tri_verdict;

/* Starts the ranks and returns when all have ended: TRI_OK however they ended. A failure to start them (TRI_RESOURCE
 * with figures when memory, descriptors or processes are short) ends those that were started. SIGINT, SIGTERM, SIGHUP
 * and SIGUSR1 are forwarded to the ranks that have joined, as a request to stop; a second one, more than a moment
 * later, kills them. Must be called from the main thread. */
tri_status tri__supervise(const tri_supervised *what, tri_verdict *verdict);
/* Failures that a restart may cure: a crash, a hang, a bug, weights that diverged. Others would recur. */
int tri__is_crash(int code, int hung);
void tri__verdict_free(tri_verdict *verdict); /* accepts a zeroed one */

/* The failure for users: several lines, the first "rank 2: killed by signal 9 (SIGKILL)", then step, operation, advice,
 * and where the other ranks were. The caller frees it; NULL when out of memory. Only for a verdict that failed. */
char *tri__verdict_text(const tri_verdict *verdict);
/* The same as a JSON object: rank, host, step, phase, code, message, cause, operation, try, time, ranks: [{rank, exit,
 * life, phase, step, waiting, last, peak_bytes}], others: [{rank, code, cause}]. */
tri_json *tri__verdict_json(const tri_verdict *verdict);
/* A rank's number, and its last position as the control page tells it. */
void tri__rank_end_take(tri_rank_end *end, int rank, const tri_rank_line *line);
/* "killed by signal 9 (SIGKILL)", "exit code 3", into `out`, which is returned. */
const char *tri__end_text(int status, char out[static 64]);
