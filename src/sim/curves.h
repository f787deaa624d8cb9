/* curves.h - seconds of a kernel from measured points: interpolated, and extrapolated along the roofline. */
#pragma once

#include "sim/hardware.h"

/* A call to be timed. */
typedef struct tri_kernel_call {
    int variant;
    tri_dtype dtype;
    int threads, adds;
    double size[TRI_SIZES];
    tri_code code;
} tri_kernel_call;

/* By the curve of the operation or, if it has none of this type, of one that does the same kind of work. -1: there is
 * none, and the roofline has to do. */
double tri__curve_seconds(const tri_hardware *hardware, const tri_kernel_call *call);
