/* plugin.h - all that the CUDA plug-in and Trident know of each other: a table, exported as `tri_cuda_plugin_table`,
 * and what the plug-in is given when it is opened (tri_core). */
#ifndef TRI_DEVICE_PLUGIN_H
#define TRI_DEVICE_PLUGIN_H

#include "device/device.h"

enum { TRI_CUDA_PLUGIN_VERSION = 5 };
#define TRI_CUDA_PLUGIN_NAME "libtrident_cuda.so"

typedef struct tri_cuda_plugin {
    int version;
    const tri_device *device;
} tri_cuda_plugin;

/* Beside the program or the library, ../lib, and where the system looks. Never unloaded. */
tri_status tri__device_load(const tri_device **device);

#endif
