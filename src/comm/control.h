/* control.h - the page that all ranks of a machine share with their supervisor: who is alive and where, the first failure, and how a
 * sleeper is woken. Everything in it is fixed-size and written with atomics; a reader trusts no length that it reads (copy, then check).
 *
 * A failure is recorded once, by compare-and-swap; it raises the abort word, and every wait of every rank then returns it. */
#ifndef TRI_COMM_CONTROL_H
#define TRI_COMM_CONTROL_H

#include "base/status.h"

#include <stdatomic.h>

enum {
    TRI_RANKS_PER_NODE = 256,  /* most ranks of one machine */
    TRI_FAILURE_TEXT = 512,    /* bytes, with the 0 */
    TRI_PHASE_TEXT = 32,
    TRI_SECOND_FAILURES = 8    /* kept besides the first */
};

/* Where a rank is in its life. */
typedef enum tri_life {
    TRI_LIFE_NONE,    /* not started yet */
    TRI_LIFE_JOINED,
    TRI_LIFE_LEFT     /* closed its world in good order */
} tri_life;

/* One rank's line, written by that rank alone, on cache lines of its own. */
typedef struct tri_rank_line {
    _Alignas(128) _Atomic uint32_t life;   /* tri_life */
    _Atomic int32_t pid;
    _Atomic uint64_t beats;                /* grows whenever the rank gets on: an instruction, a wait that moved, a phase */
    _Atomic int64_t step;                  /* of training; -1 before the first */
    _Atomic uint32_t phase;                /* tri_phase */
    _Atomic uint32_t waiting;              /* 1 while inside a wait */
    _Atomic uint64_t posted;               /* operations posted so far: the sequence number of the last */
    _Atomic uint64_t last;                 /* the last one posted: tri__describe_pack() of it */
    _Atomic uint64_t digest;               /* of what must be equal on all ranks at start: configuration, plan, binary */
    _Alignas(128) _Atomic uint32_t event;  /* futex: grows to wake this rank */
    _Atomic uint32_t asleep;               /* 1 while it sleeps on event */
} tri_rank_line;

/* What a rank is doing, for words about a rank that hangs or died. */
#define TRI_PHASES(X) X(START, "starting") X(LOAD, "loading data") X(PLAN, "planning") X(FORWARD, "in the step's program") \
    X(BATCH, "waiting for its next batch") X(SAVE, "saving a checkpoint") X(EVALUATE, "evaluating") X(USER, "in the program that uses the library") X(END, "ending")
typedef enum tri_phase {
#define X(name, text) TRI_PHASE_##name,
    TRI_PHASES(X)
#undef X
    TRI_PHASE_COUNT
} tri_phase;
const char *tri__phase_text(uint32_t phase); /* "in an unknown phase" beyond the table */

typedef struct tri_failure {
    _Atomic uint32_t state;        /* 0 empty, 1 being written, 2 written */
    int32_t rank;                  /* of the world; -1: the supervisor itself */
    int32_t code;                  /* tri_status, or 128 + signal of a death */
    uint32_t phase;
    int64_t step;                  /* -1: none */
    double time;                   /* tri__clock() */
    char text[TRI_FAILURE_TEXT];   /* without the rank; ends with 0 */
} tri_failure;

typedef struct tri_control {
    _Alignas(128) _Atomic uint32_t abort;    /* futex: 1 after the first failure */
    _Atomic uint32_t asleep;                 /* ranks that sleep: nobody to wake when 0 */
    _Atomic uint32_t stop;                   /* a signal asked for an orderly stop */
    _Atomic uint32_t joined;                 /* ranks that joined so far */
    int32_t n, first, world;                 /* local ranks are world ranks node_rank[0..n-1]; ranks of the world */
    double progress_timeout;                 /* seconds */
    int32_t rank_of[TRI_RANKS_PER_NODE];     /* world rank of each local one */
    tri_failure failure, second[TRI_SECOND_FAILURES];
    _Atomic uint32_t n_second;
    tri_rank_line line[];                    /* [n] */
} tri_control;

size_t tri__control_bytes(int n);
void tri__control_init(tri_control *control, int n, const int *world_ranks, int world, double progress_timeout);

/* Records a failure (the first is kept as such, later ones as second ones), raises the abort word and wakes everyone.
 * Safe from any process or thread that maps the page; never blocks. */
void tri__control_fail(tri_control *control, int rank, int code, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The first failure as a status and words: "rank 2: <text> (step 14, in the step's program)"; TRI_OK when there is none. A record that was claimed
 * but never finished (its writer died) reads as such after 100 ms. */
tri_status tri__control_status(const tri_control *control);
/* A copy of the first failure; 0 when there is none. */
int tri__control_failure(const tri_control *control, tri_failure *out);

/* Looks for ranks that have not moved for the progress timeout while another one waits for somebody; records it as the failure,
 * naming rank, phase and last operation. `seen` is the watcher's own memory: [n], zeroed at first. Called every 100 ms or so. */
typedef struct tri_seen {
    uint64_t beats;
    double since; /* tri__clock() of the last change; 0: never looked */
} tri_seen;
void tri__control_watch(tri_control *control, tri_seen *seen);

/* For waiting. A waiter that found nothing to do: spins, then yields, then sleeps until tri__control_wake or a few milliseconds passed;
 * `round` starts at 0 and is its own. Returns at once when the abort word is raised. Spinning is skipped when ranks outnumber cores. */
typedef struct tri_idle {
    int round, may_spin;
    uint32_t event;
} tri_idle;
void tri__idle(tri_control *control, int local, tri_idle *idle);
/* After a store that others may wait for: wakes those of the n local ranks that sleep. Nearly free when nobody does. */
void tri__control_wake(tri_control *control, const int *local, int n);

#endif
