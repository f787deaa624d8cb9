/* simd_update.h - the end of a step: sums of squares. */
#ifndef TRI_DEVICE_CPU_FAST_UPDATE_SIMD_UPDATE_H
#define TRI_DEVICE_CPU_FAST_UPDATE_SIMD_UPDATE_H

#include "device/cpu/fast/runtime/simd.h"

SIMD double simd_sumsq(int64_t n, const float *x) {
    vd low[2] = {{0}}, high[2] = {{0}};
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC)
#pragma GCC unroll 2
        for (int u = 0; u < 2; u++) {
            vf v = load(x + i + u * VEC);
            vd v_low = vec_low_double(v), v_high = vec_high_double(v);
            low[u] += v_low * v_low;
            high[u] += v_high * v_high;
        }
    double sum = 0, part[VEC / 2];
    store_d(part, (low[0] + low[1]) + (high[0] + high[1]));
    for (int u = 0; u < VEC / 2; u++) sum += part[u];
    for (; i < n; i++) sum += (double)x[i] * x[i];
    return sum;
}

#endif
