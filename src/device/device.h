/* device.h - devices that run kernels: a small table that every device fills, and optional tables for features of some
 * devices. A table is either complete or NULL. */
#pragma once

#include "device/async.h"
#include "device/gauges.h"
#include "device/kernel.h"
#include "device/peers.h"
#include "device/timing.h"
#include "device/tuner.h"

/* Functions of the library that a plug-in device may call. */
typedef struct tri_core {
    tri_status (*fail)(tri_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
} tri_core;

typedef struct tri_device tri_device;
struct tri_device {
    const char *name;
    int granule;           /* as tri_target */
    double short_flops;    /* as tri_target */
    int is_stub;           /* 1: its kernels compute nothing */
    int lanes;             /* number of concurrent kernel queues, with `queues`; 0 means 1 */
    int64_t ahead;         /* bytes prefetched from offload memory; 0: kernels access offload memory directly */
    int mask_tokens;       /* as tri_target */
    double flops, bytes;   /* per second, for predictions; 0: unknown */
    /* Fills the kernel table for this machine: reference rows, then the fast rows that override them. */
    void (*kernels)(tri_kernel_table *table);
    /* Creates the context of one rank's calls: `local` is the rank's index on this machine, `inputs` the most input
     * bytes that a run stages. NULL if the device needs none. */
    tri_status (*open)(const tri_core *core, int local, size_t inputs, void **context);
    void (*close)(void *context);
    /* Bytes that a rank could allocate now; called before its context is opened. */
    tri_status (*room)(const tri_core *core, int local, int64_t *bytes);
    /* Number of devices of this kind on the machine; ranks take them round-robin. Asynchronous devices only. */
    int (*count)(void);
    /* One allocation of zeroed memory, aligned to 4096; and its release, which accepts NULL. */
    tri_status (*alloc)(void *context, size_t bytes, void **out);
    void (*free)(void *context, void *memory, size_t bytes);
    /* The same in offload memory, which is larger: on a CPU an unnamed file in `folder`, whose disk space is reserved
     * at once; on a GPU host memory, which its kernels can access, but slowly. */
    tri_status (*alloc_offload)(void *context, const char *folder, size_t bytes, void **out);
    /* Bytes of device memory in use, by this rank and others; NULL if the device uses host memory. */
    int64_t (*memory_used)(void *context);
    /* One line for users: "cpu: neoverse-v1, neon, blis". */
    const char *(*describe)(void *context);
    const tri_async *async;     /* NULL: kernels work in host memory and have completed when they return */
    /* Asynchronous devices only. NULL means, in this order: one lane, no offload copies, no copies beside runs, every
     * run queued kernel by kernel, no transfers among ranks, no profiles, no tuning, no gauges. */
    const tri_queues *queues;
    const tri_offload *offload;
    const tri_keeping *keeping;
    const tri_graphs *graphs;
    const tri_peers *peers;
    const tri_timing *timing;
    const tri_tuner *tuner;
    const tri_gauges *gauges;
};

/* The built-in devices: "cpu"; "reference" (plain kernels only); "null", "timed" (kernels that compute nothing). NULL
 * for other names. */
const tri_device *tri__device_find(const char *name);
/* The names of the built-in devices, for messages: "cpu, reference, null, timed". */
const char *tri__device_names(void);
/* TRI_USAGE when there is no device of that name; loads nothing. */
tri_status tri__device_check(const char *name);
/* As tri__device_find, or a plug-in's: "cuda". TRI_USAGE with a message that says what is missing. */
tri_status tri__device_get(const char *name, const tri_device **device);
/* Passed to plug-ins. */
extern const tri_core tri__core;
/* The target that describes a device to the planner. */
tri_status tri__device_target(const tri_device *device, tri_target *target);
