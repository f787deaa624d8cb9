/* control.h - the page that all ranks of a machine share with their supervisor: who is alive and where, the first
 * failure, and how a sleeper is woken. Everything in it is fixed-size and written with atomics; a reader trusts no
 * length that it reads (copy, then check).
 *
 * A failure is recorded once, by compare-and-swap; it raises the abort word, and every wait of every rank then returns
 * it. */
#ifndef TRI_COMM_WORLD_CONTROL_H
#define TRI_COMM_WORLD_CONTROL_H

#include "base/limits.h"
#include "base/status.h"

#include <stdatomic.h>

enum {
    TRI_FAILURE_TEXT = 512,    /* bytes, with the 0 */
    TRI_SECOND_FAILURES = 8,   /* kept besides the first */
    TRI_CORE_WORDS = 16        /* 64 cores each */
};

/* Where a rank is in its life. */
typedef enum tri_life {
    TRI_LIFE_NONE,    /* not started yet */
    TRI_LIFE_JOINED,
    TRI_LIFE_LEFT     /* closed its world in good order */
} tri_life;

/* One rank's line, written by that rank alone (but for event and asleep), on cache lines of its own. */
typedef struct tri_rank_line {
    _Alignas(128) _Atomic uint32_t life;   /* tri_life */
    _Atomic int32_t pid;
    _Atomic uint32_t pid_space;            /* number of its pid namespace: inside one, pids mean the same */
    _Atomic uint32_t phase;                /* tri_doing */
    _Atomic uint32_t waiting;              /* 1 while inside a wait */
    _Atomic uint64_t beats; /* grows whenever the rank gets on: an instruction, a wait that moved, a phase */
    _Atomic uint64_t looks; /* grows whenever it looks, inside a wait, whether there is something to do */
    _Atomic int64_t step;                  /* of training; -1 before the first */
    _Atomic uint64_t posted;               /* operations posted so far: the sequence number of the last */
    _Atomic uint64_t last;                 /* the last one posted: tri__describe_pack() of it */
    _Alignas(128) _Atomic uint32_t event;  /* futex: grows to wake this rank */
    _Atomic uint32_t asleep;               /* 1 from before it sleeps on event until somebody wakes it */
} tri_rank_line;

/* What a rank is doing, for words about a rank that hangs or died. */
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
    uint32_t phase;                /* tri_doing; TRI_DOING_COUNT: not known (a rank of another machine) */
    int64_t step;                  /* -1: none */
    double time;                   /* tri__clock() */
    char text[TRI_FAILURE_TEXT];   /* without the rank; ends with 0 */
} tri_failure;

typedef struct tri_control {
    _Alignas(128) _Atomic uint32_t abort;    /* futex: 1 after the first failure */
    _Atomic uint32_t spin;                   /* 1: ranks do not outnumber their cores, so a waiter may spin */
    _Atomic uint32_t stop;                   /* a signal asked for an orderly stop */
    _Atomic int64_t committed; /* step of the last checkpoint that this job committed, and 1; 0: none yet */
    _Atomic uint32_t joined;                 /* ranks that joined so far */
    _Atomic uint32_t left;                   /* ranks that closed their world: nobody to ask for while 0 */
    int32_t n, world;                        /* ranks of this machine; of the world */
    double progress_timeout;                 /* seconds */
    _Alignas(128) _Atomic uint32_t asleep;   /* lines whose asleep is 1: nobody to wake when 0 */
    _Alignas(128) _Atomic uint64_t cores[TRI_CORE_WORDS]; /* bit k: some rank that joined may run on core k */
    int32_t rank_of[TRI_RANKS_PER_NODE];     /* world rank of each local one */
    tri_failure failure, second[TRI_SECOND_FAILURES];
    _Atomic uint32_t n_second;
    tri_rank_line line[];                    /* [n] */
} tri_control;

size_t tri__control_bytes(int n);
/* On zeroed memory. world_ranks [n]; NULL: 0..n-1. */
void tri__control_init(tri_control *control, int n, const int *world_ranks, int world, double progress_timeout);
/* A rank joins, with its process and cores, and wakes those who wait for it. */
void tri__control_join(tri_control *control, int local);

/* Records a failure of a world rank (the first is kept as such, later ones as second ones), raises the abort word and
 * wakes everyone. Safe from any process or thread that maps the page; never blocks. */
void tri__control_fail(tri_control *control, int rank, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The first failure as a status and words: "rank 2: <text> (step 14, in the step's program)"; TRI_OK when there is
 * none. A record that was claimed but never finished (its writer died) reads as such after 100 ms. */
tri_status tri__control_status(const tri_control *control);
/* A checked copy of the first failure; 0 when there is none. */
int tri__control_failure(const tri_control *control, tri_failure *out);
/* Checked copies of up to TRI_SECOND_FAILURES later ones; returns how many. */
int tri__control_second(const tri_control *control, tri_failure *out);

/* Looks for ranks that have not moved for the progress timeout while another one waits for somebody; records it as the
 * failure, naming rank, phase and last operation. A rank inside a wait counts as moving while it looks; when all that
 * have not left wait and none gets on, that is the failure, with what each waits in. Time during which the watcher
 * itself stood still does not count. `seen` is the watcher's own memory, zeroed at first: for all that there can be, as
 * the page's n may lie. Called every 100 ms or so. */
typedef struct tri_seen {
    uint64_t beats, looks, ticks;
    double beat, look, now; /* tri__clock() of the last change of each; of the last call (0: none yet) */
} tri_seen;
void tri__control_watch(tri_control *control, tri_seen seen[static TRI_RANKS_PER_NODE]);

/* For waiting. A waiter that found nothing to do: spins, then yields, then sleeps until tri__control_wake or a few
 * milliseconds passed; zeroed at first, and the waiter's own. The waiter looks again after every call: the call before
 * the first sleep only announces it. Returns at once when the abort word is raised. Spinning is skipped when ranks
 * outnumber cores. */
typedef struct tri_idle {
    int round;
    int awake;  /* 1: what is waited for may come from another machine, which wakes nobody: only naps */
    uint32_t event;
} tri_idle;
void tri__idle(tri_control *control, int local, tri_idle *idle);
/* After a store that others may wait for: wakes those of the n local ranks that sleep (-1 in the list: somebody
 * elsewhere, passed over). Nearly free when nobody does. local NULL: all. */
void tri__control_wake(tri_control *control, const int *local, int n);
/* FUTEX_WAIT between processes: until *word is no longer `value`, a wake, a signal, or `seconds`. */
void tri__futex_wait(const _Atomic uint32_t *word, uint32_t value, double seconds);
void tri__futex_wake(const _Atomic uint32_t *word);

#endif
