/* ceiling.h - what a device's matrix products reach: what model FLOPs are compared with. */
#ifndef TRI_CLI_BENCH_CEILING_H
#define TRI_CLI_BENCH_CEILING_H

#include "device/device.h"

/* FLOPs a second of a product of two n x n matrices of that type: the device's own row of `linear`, random numbers, the
 * median of ten after three. 0 where the device has no such row. */
tri_status tri__ceiling(const tri_device *device, tri_dtype dtype, int n, int threads, double *flops);

#endif
