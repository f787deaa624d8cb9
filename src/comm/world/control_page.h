/* control_page.h - the page that all ranks of a machine share with their supervisor: liveness and position of each
 * rank, the first failure, and wake-ups. Everything in it has a fixed size and is written with atomics; a reader trusts
 * no length that it reads (copy, then check).
 *
 * A failure is recorded once, by compare-and-swap; it raises the abort word, and every wait of every rank then returns
 * it. */
#pragma once

#include "base/file_call.h"
#include "base/log.h"

#include <stdatomic.h>

enum {
    TRI_FAILURE_TEXT = 512,    /* bytes, including the 0 */
    TRI_SECOND_FAILURES = 8,   /* kept in addition to the first */
    TRI_CORE_WORDS = 16,       /* 64 cores each */
    TRI_KILLED = 128 + 9       /* code of a rank that died, where nobody knows its signal */
};

/* A rank's lifecycle. */
typedef enum tri_life {
    TRI_LIFE_NONE,    /* not started yet */
    TRI_LIFE_JOINED,
    TRI_LIFE_LEFT     /* closed its world without failure */
} tri_life;

/* One rank's line, written by that rank alone (except event and asleep), on separate cache lines. */
typedef struct tri_rank_line {
    _Alignas(128) _Atomic uint32_t life;   /* tri_life */
    _Atomic int32_t pid;
    _Atomic uint32_t pid_space;            /* number of its pid namespace: pids are comparable only within one */
    _Atomic uint32_t phase;                /* tri_doing */
    _Atomic uint32_t waiting;              /* 1 while inside a wait */
    _Atomic uint64_t beats; /* grows with progress: an instruction, a wait that moved, a phase */
    _Atomic uint64_t looks; /* grows with every poll inside a wait */
    _Atomic int64_t step;                  /* of training; -1 before the first */
    _Atomic uint64_t posted;               /* operations posted so far: the sequence number of the last */
    _Atomic uint64_t last;                 /* the last one posted: tri__describe_pack() of it */
    _Alignas(128) _Atomic uint32_t event;  /* futex: grows to wake this rank */
    _Atomic uint32_t asleep;               /* 1 from before it sleeps on event until another process wakes it */
    tri_call_board calls;                  /* the file calls that its threads are in */
    _Alignas(128) _Atomic uint64_t kept_at, kept_bytes; /* replicated state (kept.h): its offset and size; 0: none */
    _Atomic int64_t kept[2]; /* steps of the two copies in it, plus 1; 0: none, or being written */
    _Atomic uint64_t held_at;              /* the first area that it holds for a rank of another machine; 0: none */
} tri_rank_line;

/* What a rank is doing, for messages about a rank that hangs or died. */
#define TRI_DOINGS(X) \
    X(START, "starting") \
    X(LOAD, "loading data") \
    X(PLAN, "planning") X(FORWARD, "in the step's program") X(BATCH, "waiting for its next batch") \
        X(SAVE, "saving a checkpoint") X(EVALUATE, "evaluating") X(USER, "in the program that uses the library") \
            X(END, "ending")
typedef enum tri_doing {
#define X(name, text) TRI_DOING_##name,
    TRI_DOINGS(X)
#undef X
    TRI_DOING_COUNT
} tri_doing;
const char *tri__doing_text(uint32_t phase); /* "in an unknown phase" beyond the table */

typedef struct tri_failure {
    _Atomic uint32_t state;        /* 0 empty, 1 being written, 2 written */
    int32_t rank;                  /* of the world; -1: none in particular, or the supervisor */
    int32_t code;                  /* tri_status, or 128 + signal of a death */
    uint32_t phase;                /* tri_doing; TRI_DOING_COUNT: unknown (a rank of another machine) */
    int64_t step;                  /* -1: none */
    double time;                   /* tri__clock() */
    char text[TRI_FAILURE_TEXT];   /* without the rank; ends with 0 */
} tri_failure;

typedef struct tri_control {
    _Alignas(128) _Atomic uint32_t abort;    /* futex: 1 after the first failure */
    _Atomic uint32_t spin;                   /* 1: ranks do not outnumber their cores, so a waiter may spin */
    _Atomic uint32_t stop;                   /* a signal requested an orderly stop */
    _Atomic uint32_t regroup;                /* ranks wait to join: all leave after a step, and go on in a new world */
    _Atomic int64_t committed; /* step of the last checkpoint that this job committed, plus 1; 0: none yet */
    _Atomic uint32_t joined;                 /* ranks that joined so far */
    _Atomic uint32_t left;                   /* ranks that closed their world */
    int32_t n, world;                        /* ranks of this machine; of the world */
    int32_t generation;                      /* worlds that the run had before this one */
    int32_t stages, replicas;                /* of a regrouped world's mesh; 0: as the settings say */
    double progress_timeout, io_timeout;     /* seconds */
    _Alignas(128) _Atomic uint32_t asleep;   /* number of lines with asleep 1 */
    _Alignas(128) _Atomic uint64_t cores[TRI_CORE_WORDS]; /* bit k: some rank that joined may run on core k */
    int32_t rank_of[TRI_RANKS_PER_NODE];     /* world rank of each local rank */
    tri_failure failure, second[TRI_SECOND_FAILURES];
    _Atomic uint32_t n_second;
    tri_rank_line line[];                    /* [n] */
} tri_control;

size_t tri__control_bytes(int n);
/* Lines of the page. A peer could have written anything: at most the size of the rank table, which the segment always
 * exceeds. */
int tri__control_lines(const tri_control *control);
/* On zeroed memory. world_ranks [n]; NULL: 0..n-1. */
void tri__control_init(tri_control *control, int n, const int *world_ranks, int world, double progress_timeout,
                       double io_timeout);
/* A rank joins, with its process and cores, and wakes the ranks that wait for it. */
void tri__control_join(tri_control *control, int local);
/* Cores that ranks of this machine that joined may run on. */
int tri__control_cores(const tri_control *control);

/* Records a failure of a world rank (the first one, or else a second failure), raises the abort word and wakes all
 * ranks. Safe from any process or thread that maps the page; never blocks. */
void tri__control_fail(tri_control *control, int rank, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same of a rank of another machine, which knows its phase and step. */
void tri__control_record(tri_control *control, const tri_failure *failure);
/* The first failure as a status and message: "rank 2: <text> (step 14, in the step's program)"; TRI_OK if there is
 * none. A record that was claimed but never finished (its writer died) is reported as such after 100 ms. */
tri_status tri__control_status(const tri_control *control);
/* The same of a failure on the machine `host`: "rank 2 on node7: ..."; NULL: not named. */
tri_status tri__failure_status(const tri_failure *failure, const char *host);
/* A validated copy of the first failure; 0 if there is none. */
int tri__control_failure(const tri_control *control, tri_failure *out);
/* Validated copies of up to TRI_SECOND_FAILURES later ones; returns their number. */
int tri__control_second(const tri_control *control, tri_failure *out);

/* hang.c. Looks for ranks without activity; the first one found is recorded as the failure, naming rank, phase, last
 * operation, and what its process does:
 *   - for the progress timeout while another rank waits: TRI_DISAGREE. A rank inside a wait counts as active while it
 *     polls; when all remaining ranks wait and none makes progress, it is a deadlock, listing each rank's operation;
 *   - for the I/O timeout inside one file call, whether another rank waits or not: TRI_IO with the call and its file.
 *     After the progress timeout `log` is told once. A process that is stopped there for the progress timeout hangs.
 * Time in which the watcher itself did not run is not counted. `seen` is the watcher's state, zeroed at first: sized
 * for the maximum, as the page's n is not trusted. Called every 100 ms or so. log: NULL for none; `only`: the local
 * rank whose calls it is told of, -1: all. */
typedef struct tri_seen {
    uint64_t beats, looks, ticks, calls;
    double beat, look, now; /* tri__clock() of the last change of each; of the last call (0: none yet) */
    double moved;           /* when beats or calls last changed: processor time counts for the I/O timeout after it */
    double free;            /* when its process was last not stopped, as far as that was looked at */
    uint64_t told;          /* `calls` of the last file call that the log was told of */
} tri_seen;
void tri__control_watch(tri_control *control, tri_seen seen[static TRI_RANKS_PER_NODE], const tri_log *log, int only);

/* Whether a failure is that of a rank inside a file call, which cannot say so itself. */
int tri__failure_blocked(const tri_failure *failure);

/* For waiting. Called when there is nothing to do: spins, then yields, then sleeps until tri__control_wake or for a few
 * milliseconds. tri_idle is the waiter's state, zeroed at first. The waiter must poll again after every call: the call
 * before the first sleep only announces it. Returns at once when the abort word is raised. Spinning is skipped when
 * ranks outnumber cores. */
typedef struct tri_idle {
    int round;  /* 0: the waiter's last look found something */
    int awake;  /* 1: the event comes from a device, which cannot wake this rank: only short sleeps */
    int far;    /* 1: or from another machine: looking costs system calls, and sleeps grow with the wait */
    uint32_t event;
    double since; /* tri__clock() of round 0, if far */
} tri_idle;
void tri__idle(tri_control *control, int local, tri_idle *idle);
/* After a store that others may wait for: wakes those of the n local ranks that sleep (-1 in the list: a rank of
 * another machine, skipped). Nearly free when none sleeps. local NULL: all. */
void tri__control_wake(tri_control *control, const int *local, int n);
/* FUTEX_WAIT between processes: until *word is no longer `value`, a wake, a signal, or `seconds`. */
void tri__futex_wait(const _Atomic uint32_t *word, uint32_t value, double seconds);
void tri__futex_wake(const _Atomic uint32_t *word);
