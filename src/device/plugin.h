/* plugin.h - all that the CUDA plug-in and Trident know of each other: a table, exported as `tri_cuda_plugin_table`,
 * and what the plug-in is given when it is opened (tri_core). */
#ifndef TRI_DEVICE_PLUGIN_H
#define TRI_DEVICE_PLUGIN_H

#include "device/device.h"

enum { TRI_CUDA_PLUGIN_VERSION = 6 };
#define TRI_CUDA_PLUGIN_NAME "libtrident_cuda.so"

/* Counts, and sizes in bytes, of all that both sides must have alike. They tell a plug-in of another build from this
 * program also where its version was not changed; what keeps its size and changes its meaning needs a new version. */
typedef struct tri_plugin_layout {
    uint32_t ops, dtypes;
    uint32_t call, attr, workspace, wisdom, collective;
    uint32_t device, async, queues, offload, graphs, peers, timing, tuner;
} tri_plugin_layout;
#define TRI_PLUGIN_LAYOUT                                                                                    \
    {.ops = TRI_OP_COUNT, .dtypes = TRI_DTYPE_COUNT, .call = sizeof(tri_call), .attr = sizeof(tri_attr),     \
     .workspace = sizeof(tri_workspace), .wisdom = sizeof(tri_wisdom), .collective = sizeof(tri_collective), \
     .device = sizeof(tri_device), .async = sizeof(tri_async), .queues = sizeof(tri_queues),                 \
     .offload = sizeof(tri_offload), .graphs = sizeof(tri_graphs), .peers = sizeof(tri_peers),               \
     .timing = sizeof(tri_timing), .tuner = sizeof(tri_tuner)}

typedef struct tri_cuda_plugin {
    int version; /* first: all versions have it here */
    tri_plugin_layout layout;
    const tri_device *device;
} tri_cuda_plugin;

/* TRI_USAGE when the plug-in, or NULL, is not of this program's version and layout. */
tri_status tri__plugin_check(const tri_cuda_plugin *plugin);

/* Beside the program or the library, ../lib, and where the system looks. Never unloaded. */
tri_status tri__device_load(const tri_device **device);

#endif
