/* async.h - asynchronous devices: the host cannot reach their memory, and a kernel has only been queued when its row
 * returns. Everything queued is done in the order of queueing, lane by lane. A call that only queues returns nothing:
 * the next `finish` reports what failed. */
#ifndef TRI_DEVICE_ASYNC_H
#define TRI_DEVICE_ASYNC_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Makes bytes [at, at + bytes) of something, at `out`; both are multiples of 4096, but for the end. */
typedef void tri_make(void *maker, size_t at, size_t bytes, void *out);

/* Bytes that an input takes of a run's: the next begins at a multiple of 64. */
static inline size_t tri__input_bytes(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* The queue that every asynchronous device has. */
typedef struct tri_async {
    /* Between the host's memory and the device's, in either direction: after all that was queued, and done when it
     * returns. */
    tri_status (*copy)(void *context, void *to, const void *from, size_t bytes);
    /* The same to the device of bytes that are made as it goes, part by part: the host needs no memory for all of
     * them. */
    tri_status (*fill)(void *context, void *to, size_t bytes, tri_make *make, void *maker);
    /* Inputs of a run; each takes tri__input_bytes of those that `open` was told. `stage_input` takes one from the
     * host, in the order in which the run will ask for them; `from` may change when it returns. `begin_run` queues one
     * copy of all that were staged; the run's kernels draw random numbers of `step`. Then each `next_input` queues the
     * copy of the next one to its place. */
    void (*stage_input)(void *context, const void *from, size_t bytes);
    void (*begin_run)(void *context, uint32_t step);
    void (*next_input)(void *context, void *to, size_t bytes);
    /* Waits for all that was queued; says what failed. */
    tri_status (*finish)(void *context);
    /* Whether all kernels that were queued are done, or failed; never blocks. *passed grows with the progress made: it
     * counts the points reached that `mark_progress` set between queued kernels. */
    int (*is_idle)(void *context, uint64_t *passed);
    void (*mark_progress)(void *context);
} tri_async;

/* Several queues of kernels, lanes, that a device works on at once. What is queued after `use` goes to that lane, also
 * inputs; a transfer or copy begins behind it, and a wait for one holds it back. `signal` numbers the point that the
 * lane in use has come to; what is queued in the lane in use after `await` begins when the last signal of that number
 * is reached. Outside of runs lane 0 is in use, and behind all others. */
typedef struct tri_queues {
    void (*use)(void *context, int lane);
    void (*signal)(void *context, int number);
    void (*await)(void *context, int number);
} tri_queues;

/* Copies between the device's memory and its offload memory, on one queue for each direction (out 1: to offload
 * memory). `copy_post` queues one, which begins when the kernels queued so far are done; kernels queued after the
 * `copy_wait` of the same number begin when it is. Numbers are small, and used again only after their wait. */
typedef struct tri_offload {
    void (*copy_post)(void *context, void *to, const void *from, size_t bytes, int out, int number);
    void (*copy_wait)(void *context, int number);
} tri_offload;

/* How a run is queued: kernel by kernel; the same, and captured as a graph; or by replaying the graph of an earlier
 * run, which `begin` has done when it says so. */
typedef enum tri_capture { TRI_LAUNCH, TRI_CAPTURE, TRI_REPLAY } tri_capture;

/* Runs captured as graphs. `begin` is asked after `begin_run`: runs of the same key [n] queue the same, but for inputs
 * and the step. After TRI_CAPTURE all that the run queues is only captured, and `end` queues it; 0: it could not be
 * captured, and nothing was queued. */
typedef struct tri_graphs {
    tri_capture (*begin)(void *context, const int64_t *key, int n);
    int (*end)(void *context);
} tri_graphs;

#endif
