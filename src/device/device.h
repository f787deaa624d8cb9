/* device.h - what runs kernels: a vtable and a table of kernels indexed by operation and element type.
 * Adding a kernel: a row in the file of its operation family. docs/adding-a-kernel.md */
#ifndef TRI_DEVICE_DEVICE_H
#define TRI_DEVICE_DEVICE_H

#include "base/status.h"
#include "device/wisdom.h"
#include "program/op.h"
#include "program/target.h"

/* A dense row-major matrix in device memory. */
typedef struct tri_tensor {
    void *data;           /* [rows, cols]; NULL when the operand is left out */
    int64_t rows, cols;
} tri_tensor;

typedef struct tri_kernel_table tri_kernel_table;

typedef struct tri_call {
    tri_tensor t[TRI_MAX_ARGS]; /* in the order of the operation's row */
    uint8_t dtype[TRI_MAX_ARGS];/* a tri_dtype each; rows of f32 need not look: theirs is the type that ops.def gives */
    tri_op op;
    const tri_kernel_table *table; /* the device's, for rows that run others */
    unsigned acc;               /* bit k: operand k is added to, not overwritten */
    const tri_attr *attr;
    uint32_t seed, step; /* of random numbers; asynchronous devices know the step by `begin_run`, too: it is the same */
    int threads;
    void *work;                 /* scratch space as the kernel row asks, aligned to 64 */
    void *context;              /* the device's own: streams, libraries; NULL on a CPU */
} tri_call;

typedef void tri_kernel(const tri_call *call);

typedef struct tri_kernel_row {
    tri_op op;
    tri_dtype dtype;     /* tri__instr_dtype: rows of 16-bit types get operands of both widths */
    tri_kernel *run;     /* NULL ends a list of rows */
    tri_workspace work;
} tri_kernel_row;

struct tri_kernel_table {
    tri_kernel *run[TRI_OP_COUNT][TRI_DTYPE_COUNT];
    tri_workspace work[TRI_OP_COUNT][TRI_DTYPE_COUNT];
};

/* What of the library a device that is loaded later may call. */
typedef struct tri_core {
    tri_status (*fail)(tri_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
} tri_core;

/* When an instruction ran: seconds on tri__clock. */
typedef struct tri_time {
    double begin, end;
} tri_time;

enum { TRI_GROUP_NAME = 128 }; /* bytes */

/* Bytes that an input takes of a run's: the next begins at a multiple of 64. */
static inline size_t tri__input_bytes(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* What a device asks again and again while it waits for other ranks: takes a short pause, and returns TRI_OK to go on,
 * or why to give up. */
typedef struct tri_wait_poll {
    tri_status (*ask)(void *argument);
    void *argument;
} tri_wait_poll;

/* Makes bytes [at, at + bytes) of something, at `out`; both are multiples of 4096, but for the end. */
typedef void tri_make(void *maker, size_t at, size_t bytes, void *out);

/* How a run is queued: kernel by kernel; the same, and captured as a graph; or by replaying the graph of an earlier
 * run, which `capture` has done when it says so. */
typedef enum tri_capture { TRI_LAUNCH, TRI_CAPTURE, TRI_REPLAY } tri_capture;

/* An asynchronous device: the host cannot reach its memory, and kernels have only been queued when a row returns.
 * Everything queued is done in the order of queueing, lane by lane. The next `finish` reports what failed. */
typedef struct tri_async {
    /* Between the host's memory and the device's, either way; after all that was queued, and done when it returns. */
    tri_status (*copy)(void *context, void *to, const void *from, size_t bytes);
    /* The same to the device of what is made as it goes, a part after the other: the host needs no memory for all of
     * it. */
    tri_status (*fill)(void *context, void *to, size_t bytes, tri_make *make, void *maker);
    /* Inputs of a run; each takes tri__input_bytes of those that `open` was told. `stage_input` takes one from the
     * host, in the order in which the run will ask for them; `from` may change when it returns. `begin_run` queues one
     * copy of all that were staged; the run's kernels draw random numbers of `step`. Then each `next_input` queues the
     * copy of the next one to its place. */
    void (*stage_input)(void *context, const void *from, size_t bytes);
    void (*begin_run)(void *context, uint32_t step);
    void (*next_input)(void *context, void *to, size_t bytes);
    /* Of devices that can capture what a run queues and replay it; NULL of others. Asked after `begin_run`: runs of
     * the same key [n] queue the same, but for inputs and the step. After TRI_CAPTURE all that the run queues is only
     * captured, and `end_capture` queues it; 0: it could not be captured, and nothing was queued. */
    tri_capture (*capture)(void *context, const int64_t *key, int n);
    int (*end_capture)(void *context);
    tri_status (*finish)(void *context);
    /* Of devices with several queues of kernels, lanes; NULL of others. What is queued from now on goes to this one,
     * also inputs, and a transfer or copy begins behind it, a wait for one holds it back. `signal` numbers the point
     * that the lane in use has come to; what is queued in the lane in use after `await` begins when the last signal of
     * that number is reached. Outside of runs lane 0 is in use, and behind all others. */
    void (*lane)(void *context, int lane);
    void (*signal)(void *context, int number);
    void (*await)(void *context, int number);
    /* Whether all kernels that were queued are done, or failed; never blocks. *passed grows with the progress made: it
     * counts the points reached that `mark_progress` set between queued kernels. */
    int (*is_idle)(void *context, uint64_t *passed);
    void (*mark_progress)(void *context);
    /* Queues a copy between the device's memory and its offload memory (out 1: to offload memory), on one queue for
     * each direction: it begins when the kernels queued so far are done; kernels queued after the `copy_wait` of the
     * same number begin when it is. Numbers are as those of `post`. */
    void (*copy_post)(void *context, void *to, const void *from, size_t bytes, int out, int number);
    void (*copy_wait)(void *context, int number);
    /* Transfers among ranks that have such devices, on queues of their own. One member makes a group's name and tells
     * the others; then all join at once; oneway 1: two of them, and only the first will send, the second receive. What
     * waits for other ranks asks `poll`, which outlives the group. A group's transfers are done one after another,
     * those of several groups beside one another. `leave` leaves all n groups that this rank is in, and ends what can
     * no longer end by itself, after a failure (abort 1). */
    tri_status (*name)(void *context, char *name); /* [TRI_GROUP_NAME] */
    tri_status (*join)(void *context, const char *name, int n, int me, int oneway, const tri_wait_poll *poll,
                       void **group);
    void (*leave)(void *context, void *const *groups, int n, int abort);
    /* Queues a transfer: it begins when the kernels queued so far are done; kernels queued after the `wait` of the same
     * number begin when it is. Numbers are small, and used again only after their wait. */
    void (*post)(void *context, void *group, const tri_collective *what, int number);
    void (*wait)(void *context, int number);
    /* The fatal error of a group's transfers, if any. Never blocks. */
    tri_status (*check)(void *context, void *group);
    /* Marks a point between queued kernels; after `finish`, times[i] is from mark i to mark i + 1, for i < n, where
     * both were made. */
    void (*mark)(void *context, int index);
    void (*times)(void *context, int n, tri_time *times);
    /* After `finish`, when the transfer of that number ran, where marks were made around its post. */
    void (*transfer_time)(void *context, int number, tri_time *time);
    /* Choosing algorithms by timing them, before a run's first step; NULL where there is nothing to choose. `kind` is
     * what choices are good for: the device and its library. `tune` times those of a call's products that are not in
     * the wisdom, on the call's operands, which hold nothing yet (zeros) and are left so, and adds the fastest; a call
     * without products: nothing. `row` is the call's row. `follow` copies what is known: products use it from now on.
     * What goes wrong the next `finish` tells. */
    const char *(*kind)(void *context);
    void (*tune)(void *context, const tri_call *call, tri_kernel *row, tri_wisdom *wisdom);
    void (*follow)(void *context, const tri_wisdom *wisdom);
    /* Seconds of work since the last call: each time from the first thing queued until the `finish` that waited for
     * it. */
    double (*busy_seconds)(void *context);
    /* Bytes of the device's memory that are in use now, by this rank and by others. */
    int64_t (*memory_used)(void *context);
} tri_async;

typedef struct tri_device tri_device;
struct tri_device {
    const char *name;
    int granule;           /* as tri_target */
    double short_flops;    /* as tri_target */
    int is_stub;           /* 1: its kernels compute nothing */
    int lanes;             /* queues of kernels that it works on side by side, of asynchronous devices; 0 is 1 */
    int64_t ahead;         /* bytes copied from offload memory ahead of their use; 0: kernels of programs work there */
    double flops, bytes;   /* a second, for predictions; 0 unknown */
    /* Fills the kernel table for this machine: reference rows, then the fast rows that override them. */
    void (*kernels)(tri_kernel_table *table);
    /* What one rank's calls carry as their context: `local` is its place on this machine, `inputs` the most bytes of
     * inputs that a run stages. Where a device needs none it is NULL. */
    tri_status (*open)(const tri_core *core, int local, size_t inputs, void **context);
    void (*close)(void *context);
    /* Bytes that a rank could allocate now; looked at before its context is opened. */
    tri_status (*room)(const tri_core *core, int local, int64_t *bytes);
    /* How many devices of this kind the machine has, which its ranks take in turn; of asynchronous devices. */
    int (*count)(void);
    /* One allocation of zeroed memory, aligned to 4096; and its release, which accepts NULL. */
    tri_status (*alloc)(void *context, size_t bytes, void **out);
    void (*free)(void *context, void *memory, size_t bytes);
    /* The same in offload memory, which is larger: on a CPU a file without a name in `folder`, whose space is reserved
     * now; on a GPU memory of the host, which its kernels reach, but slowly. */
    tri_status (*alloc_offload)(void *context, const char *folder, size_t bytes, void **out);
    /* A line for people: "cpu: neoverse-v1, neon, blis". */
    const char *(*describe)(void *context);
    const tri_async *async; /* NULL: kernels work in the host's memory, and are done when they return */
};

/* "cpu"; "reference" (plain kernels only); "null", "timed" (kernels that compute nothing): those that are always there.
 * NULL when there is none of that name. */
const tri_device *tri__device_find(const char *name);
/* The names there are, for messages: "cpu, reference, null, timed". */
const char *tri__device_names(void);
/* The same, or a plug-in's: "cuda". TRI_USAGE with what is missing. */
/* TRI_USAGE when there is no device of that name; does not load any. */
tri_status tri__device_check(const char *name);
tri_status tri__device_get(const char *name, const tri_device **device);
/* What plug-ins are given. */
extern const tri_core tri__core;
/* Adds rows to a table; later rows override earlier ones. */
static inline void tri__kernel_table_add(tri_kernel_table *table, const tri_kernel_row *rows) {
    for (; rows->run; rows++) {
        table->run[rows->op][rows->dtype] = rows->run;
        table->work[rows->op][rows->dtype] = rows->work;
    }
}
/* The target that describes a device to the planner. */
void tri__device_target(const tri_device *device, tri_target *target);

#endif
