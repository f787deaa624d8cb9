/* supervisor.h - starts the ranks of one machine as fresh executions of a program, watches over them, and says what
 * became of them.
 *
 * Ranks share one nameless memory that they inherit. A rank's death, or its standing still, becomes the failure of all;
 * ranks that do not leave after a failure are ended. When the supervisor itself is killed, so are they: nothing is left
 * behind. */
#ifndef TRI_LAUNCH_SUPERVISOR_H
#define TRI_LAUNCH_SUPERVISOR_H

#include "base/json.h"
#include "base/stop.h"
#include "comm/world/control.h"
#include "launch/rank_streams.h"

typedef struct tri_supervised {
    const char *program;         /* NULL: this executable */
    char *const *argv;           /* of every rank; NULL at its end */
    char *const *environment;    /* that ranks inherit; RANK, WORLD_SIZE and the like are set in it */
    int n;                       /* ranks, all on this machine */
    size_t heap_bytes;           /* shared heap of each rank; 0: up to the machine's memory */
    double progress_timeout;     /* seconds without progress after which a rank counts as hung; 0: 30 */
    int bind_cores;              /* 1: each rank keeps to its share of this process's cores */
    int out, err;                /* the console */
    tri_rank_logs logs;
    const tri_stop *stop;        /* an end that was asked for before ranks started counts, too; NULL */
    const tri_log *log;          /* warnings, and the next; NULL: none */
    const char *stopping;        /* what is said when the first signal asks for an end; NULL: nothing */
} tri_supervised;

/* How one rank ended, and where it was. */
typedef struct tri_rank_end {
    int status;                  /* as wait4 gives it; -1: it could not be ended, or how it ended is not known */
    int64_t peak_bytes;          /* most memory it held at once */
    int by_us;                   /* the signal that the supervisor ended it with; 0: none */
    uint32_t life, phase, waiting;
    int64_t step;
    uint64_t posted, last;       /* operations posted; the last one, packed */
} tri_rank_end;

typedef struct tri_verdict {
    int code; /* exit code of the whole: 0, the first failure's (128 + signal for a death), TRI_STOPPED */
    int failed;                  /* 1: `failure` is the cause */
    int hung;                    /* 1: the supervisor found that it stands still */
    int stopped;                 /* the signal that asked for the end; 0: none */
    int out_of_memory;           /* 1: the system's out-of-memory killer was active in this control group meanwhile */
    tri_failure failure, second[TRI_SECOND_FAILURES];
    int n_second;
    double ended;                /* seconds since 1970, of the failure */
    int64_t committed;           /* step of the last checkpoint that the ranks committed; -1: none */
    int n;
    tri_rank_end *rank;          /* [n] */
    char logs[TRI_PATH_MAX];     /* folder of the ranks' logs; "" */
} tri_verdict;

/* Starts the ranks and returns when all have ended: then TRI_OK, whatever became of them. A failure to start them
 * (TRI_RESOURCE with figures when memory, descriptors or processes are short) ends those that were started. SIGINT,
 * SIGTERM, SIGHUP and SIGUSR1 are passed on to the ranks that have joined, as a request to stop; a second one, more
 * than a moment after it, kills them. To be called from the main thread. */
tri_status tri__supervise(const tri_supervised *what, tri_verdict *verdict);
void tri__verdict_free(tri_verdict *verdict); /* accepts a zeroed one */

/* The failure for people: several lines, the first "rank 2: killed by signal 9 (SIGKILL)", then step, operation, what
 * to try, and where the other ranks were. The caller frees it; NULL when out of memory. Only for a verdict that
 * failed. */
char *tri__verdict_text(const tri_verdict *verdict);
/* The same as an object: rank, step, phase, code, message, cause, operation, try, time, ranks: [{rank, exit, life,
 * phase, step, waiting, last, peak_bytes}], others: [{rank, code, cause}]. */
tri_json *tri__verdict_json(const tri_verdict *verdict);
/* "killed by signal 9 (SIGKILL)", "exit code 3", into `out`, which is returned. */
const char *tri__end_text(int status, char out[static 64]);

#endif
