/* async.h - asynchronous devices: the host cannot access their memory, and a kernel is only queued when its row
 * returns. Queued work runs in order within each lane. Calls that only queue return no status: the next `finish`
 * reports errors. */
#pragma once

#include "base/base.h"

/* Produces bytes [at, at + bytes) of some content in `out`; both are multiples of 4096, except at the end. */
typedef void tri_make(void *maker, size_t at, size_t bytes, void *out);

/* Bytes that one input takes of a run's staging buffer: the next begins at a multiple of 64. */
static inline size_t tri__input_bytes(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* The queue that every asynchronous device has. */
typedef struct tri_async {
    /* Copies between host and device memory, in either direction; runs after all queued work and has completed on
     * return. */
    tri_status (*copy)(void *context, void *to, const void *from, size_t bytes);
    /* Fills device memory with bytes produced block by block, so that the host never buffers all of them. */
    tri_status (*fill)(void *context, void *to, size_t bytes, tri_make *make, void *maker);
    /* Inputs of a run; each takes tri__input_bytes of the total given to `open`. `stage_input` copies one from the
     * host, in the order of the run's input instructions; `from` may change when it returns. `begin_run` queues one
     * copy of all staged inputs; the run's kernels draw random numbers of `step`. Then each `next_input` queues the
     * copy of the next input to its slot. */
    void (*stage_input)(void *context, const void *from, size_t bytes);
    void (*begin_run)(void *context, uint32_t step);
    void (*next_input)(void *context, void *to, size_t bytes);
    /* Waits for all queued work; returns the first error. */
    tri_status (*finish)(void *context);
    /* Whether all queued kernels have completed or failed; never blocks. *passed grows with progress: it counts the
     * points set by `mark_progress` between queued kernels that have been reached. */
    int (*is_idle)(void *context, uint64_t *passed);
    void (*mark_progress)(void *context);
} tri_async;

/* Several concurrent queues of kernels (lanes). `use` selects the lane for all later calls, inputs included; a transfer
 * or copy is ordered after the current lane, and a wait for one blocks that lane. `signal` records the current position
 * of the lane under a number; `await` makes later work of the current lane wait for the last signal of that number.
 * Outside of runs lane 0 is current and ordered after all others. */
typedef struct tri_queues {
    void (*use)(void *context, int lane);
    void (*signal)(void *context, int number);
    void (*await)(void *context, int number);
} tri_queues;

/* Copies between the device's memory and its offload memory, on one queue per direction (out 1: to offload memory).
 * `copy_post` queues one, ordered after the kernels queued so far; kernels queued after the `copy_wait` of the same
 * number are ordered after the copy. Numbers are small, and reused only after their wait. */
typedef struct tri_offload {
    void (*copy_post)(void *context, void *to, const void *from, size_t bytes, int out, int number);
    void (*copy_wait)(void *context, int number);
} tri_offload;

/* Copies from the device's memory to the host's beside the runs, on a queue of their own. `pin` prepares host memory
 * for them, until `unpin`; 0: that is not possible, and none may be posted there. `post` queues one, ordered after the
 * kernels queued before the last `begin`; the host may have to wait in it. `finish` waits for these alone, and returns
 * their first error. */
typedef struct tri_keeping {
    int (*pin)(void *context, void *memory, size_t bytes);
    void (*unpin)(void *context, void *memory);
    void (*begin)(void *context);
    void (*post)(void *context, void *to, const void *from, size_t bytes);
    tri_status (*finish)(void *context);
} tri_keeping;

/* How a run is queued: kernel by kernel; the same, and captured as a graph; or by replaying the graph of an earlier
 * run, which `begin` has then already queued. */
typedef enum tri_capture { TRI_LAUNCH, TRI_CAPTURE, TRI_REPLAY } tri_capture;

/* Runs captured as graphs. `begin` is called after `begin_run`: runs with the same key [n] queue the same work, except
 * for inputs and the step. After TRI_CAPTURE the run's calls are only captured, and `end` queues them; it returns 0 if
 * they could not be captured and nothing was queued. */
typedef struct tri_graphs {
    tri_capture (*begin)(void *context, const int64_t *key, int n);
    int (*end)(void *context);
} tri_graphs;
