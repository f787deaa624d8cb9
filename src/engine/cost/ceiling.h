/* ceiling.h - the FLOP/s that a device's matrix products reach, the reference for model FLOPs. */
#pragma once

#include "device/device.h"

/* A product of two n x n matrices of that type, computed `warmup` times and then `timed` times, at most
 * TRI_CEILING_TIMED. shortest: 1: its rate is that of the shortest timed call, where others may use the cores; 0: of
 * the median. */
enum { TRI_CEILING_TIMED = 16 };
typedef struct tri_ceiling_product {
    tri_dtype dtype;
    int n, threads, warmup, timed, shortest;
} tri_ceiling_product;

/* FLOP/s of the device's kernel for `linear` on random numbers. 0 if the device has no such kernel. */
tri_status tri__ceiling(const tri_device *device, const tri_ceiling_product *of, double *flops);
