/* ceiling.h - the FLOP/s that a device's matrix products reach, the reference for model FLOPs. */
#ifndef TRI_CLI_BENCH_CEILING_H
#define TRI_CLI_BENCH_CEILING_H

#include "device/device.h"

/* FLOP/s of a product of two n x n matrices of that type: the device's kernel for `linear` on random numbers, the
 * median of ten calls after three for warm-up. 0 if the device has no such kernel. */
tri_status tri__ceiling(const tri_device *device, tri_dtype dtype, int n, int threads, double *flops);

#endif
