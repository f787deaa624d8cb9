/* device.h - what runs kernels: a small table that every device fills, and optional ones for what only some can do. A
 * table is there whole, or NULL. */
#ifndef TRI_DEVICE_DEVICE_H
#define TRI_DEVICE_DEVICE_H

#include "device/async.h"
#include "device/kernel.h"
#include "device/peers.h"
#include "device/timing.h"
#include "device/tuner.h"

/* What of the library a device that is loaded later may call. */
typedef struct tri_core {
    tri_status (*fail)(tri_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
} tri_core;

typedef struct tri_device tri_device;
struct tri_device {
    const char *name;
    int granule;           /* as tri_target */
    double short_flops;    /* as tri_target */
    int is_stub;           /* 1: its kernels compute nothing */
    int lanes;             /* queues of kernels that it works on at once, with `queues`; 0 is 1 */
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
    /* Bytes of the device's memory that are in use now, by this rank and by others; NULL where it is the host's. */
    int64_t (*memory_used)(void *context);
    /* A line for people: "cpu: neoverse-v1, neon, blis". */
    const char *(*describe)(void *context);
    const tri_async *async;     /* NULL: kernels work in the host's memory, and are done when they return */
    /* Of asynchronous devices; without them, in this order: one lane, no copies of offload memory, every run queued
     * kernel by kernel, no transfers among ranks, no profiles, no choices. */
    const tri_queues *queues;
    const tri_offload *offload;
    const tri_graphs *graphs;
    const tri_peers *peers;
    const tri_timing *timing;
    const tri_tuner *tuner;
};

/* "cpu"; "reference" (plain kernels only); "null", "timed" (kernels that compute nothing): those that are always there.
 * NULL when there is none of that name. */
const tri_device *tri__device_find(const char *name);
/* The names there are, for messages: "cpu, reference, null, timed". */
const char *tri__device_names(void);
/* TRI_USAGE when there is no device of that name; does not load any. */
tri_status tri__device_check(const char *name);
/* As tri__device_find, or a plug-in's: "cuda". TRI_USAGE with what is missing. */
tri_status tri__device_get(const char *name, const tri_device **device);
/* What plug-ins are given. */
extern const tri_core tri__core;
/* The target that describes a device to the planner. */
void tri__device_target(const tri_device *device, tri_target *target);

#endif
