/* simd_half.h - bf16 as fp32 and back, rounded to nearest, ties to even, as numbers/float16.h. */
#pragma once

#include "device/cpu/fast/runtime/simd.h"
#include "numbers/float16.h"

#ifndef TRI_SIMD_OWN_CODED
/* 2 vectors of bf16. */
INLINE void get_bf16(const uint16_t *from, vf x[2]) { EACH(j, 2) x[j] = (vf)(vec_halves(from + j * VEC) << 16); }
#endif

INLINE vi chosen(vi a, vi b, vi where) { return (a & where) | (b & ~where); }

/* NaN becomes the quiet NaN. */
INLINE vf quiet(vf v) { return (vf)chosen((vi)v, all_i(0x7FC00000), v == v); }

/* The upper halves are v in bf16. */
INLINE vu rounded_half(vf v) { return (vu)quiet(v) + 0x7FFFu + ((vu)v << 15 >> 31); }

/* Two vectors, rounded. */
INLINE void put_rounded(uint16_t *to, const vf v[2]) {
#ifdef TRI_SIMD_OWN_ROUNDING
    if (put_rounded_plain(to, v)) return;
#endif
    vu bits[2];
    EACH(j, 2) bits[j] = rounded_half(v[j]);
    put_high(to, bits);
}

SIMD void simd_widen(int64_t n, const uint16_t *x, float *y) {
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC) {
        vf v[2];
        get_bf16(x + i, v);
        EACH(j, 2) store(y + i + j * VEC, v[j]);
    }
    for (; i < n; i++) y[i] = tri__from_bf16(x[i]);
}

SIMD void simd_narrow(int64_t n, const float *x, uint16_t *y) {
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC) {
        vf v[2];
        EACH(j, 2) v[j] = load(x + i + j * VEC);
        put_rounded(y + i, v);
    }
    for (; i < n; i++) y[i] = tri__to_bf16(x[i]);
}

/* y += x */
SIMD void simd_widen_add(int64_t n, const uint16_t *x, float *y) {
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC) {
        vf v[2];
        get_bf16(x + i, v);
        EACH(j, 2) store(y + i + j * VEC, load(y + i + j * VEC) + v[j]);
    }
    for (; i < n; i++) y[i] += tri__from_bf16(x[i]);
}
