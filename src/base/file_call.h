/* file_call.h - which file call each thread of a rank is in, where another process can read it: so a disk that takes
 * minutes is told apart from a rank that hangs. Calls are announced by base/file.c and the few others that read or
 * write files; a thread without a board (most programs) announces nothing. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define TRI_FILE_CALLS(X) \
    X(LOOK, "stat") \
    X(OPEN, "open") \
    X(READ, "read") \
    X(WRITE, "write") \
    X(SYNC, "fsync") \
    X(RENAME, "rename") \
    X(REMOVE, "unlink") \
    X(MAKE, "mkdir") \
    X(LIST, "readdir")
typedef enum tri_file_call {
#define X(name, text) TRI_CALL_##name,
    TRI_FILE_CALLS(X)
#undef X
    TRI_CALL_HELPERS, /* no call of its own: the thread waits for the rank's other threads */
    TRI_CALL_COUNT
} tri_file_call;
const char *tri__call_text(uint32_t call); /* "an unknown call" beyond the table */

enum {
    TRI_CALL_SLOTS = 16, /* threads of a rank that can announce calls; one beyond them is not seen */
    TRI_CALL_WORDS = 20  /* of a path: its last 159 bytes */
};

/* One thread's announcement, written by that thread alone. */
typedef struct tri_call_slot {
    _Alignas(64) _Atomic uint64_t number; /* grows when a call begins and when it ends: odd inside one */
    _Atomic uint32_t taken;               /* 1: belongs to a thread */
    _Atomic uint32_t call;                /* tri_file_call */
    _Atomic uint64_t path[TRI_CALL_WORDS];
} tri_call_slot;

/* Of one rank, in shared memory, zeroed at first. */
typedef struct tri_call_board {
    tri_call_slot slot[TRI_CALL_SLOTS]; /* [0]: the rank's own thread; the others: its helpers */
} tri_call_board;

/* ---- the rank ---- */

/* A board in use. */
typedef struct tri_calls tri_calls;

/* This thread is a rank's own from now on. While it waits for its helpers, tri__helpers_poll calls `poll`; NULL: there
 * is nothing to do meanwhile. NULL when out of memory: then nothing is announced. */
tri_calls *tri__calls_open(tri_call_board *board, void (*poll)(void *), void *context);
/* No thread uses the board any more: before its memory is unmapped. Helpers have ended. Accepts NULL. */
void tri__calls_close(tri_calls *rank);

/* What a rank's thread hands to a helper that it starts; NULL: this thread has no board. */
tri_calls *tri__calls_mine(void);
void tri__calls_help(tri_calls *rank); /* at the beginning of the helper's thread; accepts NULL */
void tri__calls_leave(void);           /* at its end */

/* Around a system call that may block; errno is kept. `path` is copied. */
void tri__call_begin(tri_file_call call, const char *path);
void tri__call_end(void);
/* The value of an expression that makes the call, announced. */
#define TRI_DURING(call, path, expression)           \
    ({                                               \
        tri__call_begin(call, path);                 \
        __typeof__(expression) done_ = (expression); \
        tri__call_end();                             \
        done_;                                       \
    })

/* Around a wait for a helper: calls of helpers are then this rank's. In between, every 50 ms or so: tri__helpers_poll,
 * so that the rank still answers other machines. */
void tri__helpers_begin(void);
void tri__helpers_poll(void);
void tri__helpers_end(void);

/* ---- who watches it ---- */

typedef struct tri_call_view {
    uint32_t call;                     /* tri_file_call, not HELPERS */
    char path[8 * TRI_CALL_WORDS + 1]; /* printable; "...", and its end, if it is longer */
} tri_call_view;

/* A number that changes whenever the rank's own thread begins or ends a call, or, while it waits for helpers, one of
 * those does. */
uint64_t tri__calls_number(const tri_call_board *board);
/* Whether the rank is in a file call: its own thread, or one of the helpers that it waits for. out: may be NULL. */
int tri__calls_now(const tri_call_board *board, tri_call_view *out);
