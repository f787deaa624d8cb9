/* plugin.h - the interface between Trident and the CUDA plug-in: a table, exported as `tri_cuda_plugin_table`, and the
 * functions passed to the plug-in when it is opened (tri_core). */
#pragma once

#include "device/device.h"

enum { TRI_CUDA_PLUGIN_VERSION = 8 };
#define TRI_CUDA_PLUGIN_NAME "libtrident_cuda.so"

/* Counts and sizes in bytes of everything that both sides must agree on. They detect a plug-in of another build even
 * when the version is the same; a change of meaning that keeps all sizes needs a new version. */
typedef struct tri_plugin_layout {
    uint32_t ops, dtypes;
    uint32_t call, attr, workspace, wisdom, collective;
    uint32_t device, async, queues, offload, keeping, graphs, peers, timing, tuner, gauges;
} tri_plugin_layout;
#define TRI_PLUGIN_LAYOUT                                                                                    \
    {.ops = TRI_VARIANTS, .dtypes = TRI_DTYPE_COUNT, .call = sizeof(tri_call), .attr = sizeof(tri_attr),     \
     .workspace = sizeof(tri_workspace), .wisdom = sizeof(tri_wisdom), .collective = sizeof(tri_collective), \
     .device = sizeof(tri_device), .async = sizeof(tri_async), .queues = sizeof(tri_queues),                 \
     .offload = sizeof(tri_offload), .keeping = sizeof(tri_keeping), .graphs = sizeof(tri_graphs),           \
     .peers = sizeof(tri_peers), .timing = sizeof(tri_timing), .tuner = sizeof(tri_tuner),                   \
     .gauges = sizeof(tri_gauges)}

typedef struct tri_cuda_plugin {
    int version; /* first, in all versions */
    tri_plugin_layout layout;
    const tri_device *device;
} tri_cuda_plugin;

/* TRI_USAGE when the plug-in is NULL or differs in version or layout. */
tri_status tri__plugin_check(const tri_cuda_plugin *plugin);

/* Searches next to the program or library, in ../lib, and in the system's library path. Never unloaded. */
tri_status tri__device_load(const tri_device **device);
