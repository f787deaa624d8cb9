/* simd_quantized.h - numbers of 8 bits with a scale: from floats, and back from the sums of their products. Results
 * have the bits of the plain rows. */
#pragma once

#include "device/cpu/fast/runtime/simd.h"

typedef int32_t vi_any __attribute__((vector_size(4 * VEC), aligned(4), may_alias));

INLINE vi get_i(const int32_t *p, int64_t left) {
    if (__builtin_expect(left >= VEC, 1)) return *(const vi_any *)p;
    vi v = {0};
    for (int64_t i = 0; i < left; i++) v[i] = p[i];
    return v;
}

SIMD void simd_scale_sums(int64_t n, const int32_t *sum, float s, const float *scale, const float *bias, float *y) {
    BY_VECTORS(n, {
        vf factor = rounded(all(s) * get(scale + i, left));
        vf value = rounded(__builtin_convertvector(get_i(sum + i, left), vf) * factor);
        put(y + i, left, value + get(bias + i, left));
    });
}

/* Magnitudes are ordered as the integers of their bits; NaN is above infinity. */
SIMD float simd_largest(int64_t n, const float *x) {
    vi most[AHEAD] = {{0}};
    int32_t part[VEC], all_lanes = 0;
    int64_t at = 0;
    for (; at + AHEAD * VEC <= n; at += AHEAD * VEC)
        EACH(j, AHEAD) most[j] = vec_max_i(most[j], (vi)vec_abs(load(x + at + j * VEC)));
    for (; at < n; at += VEC) most[0] = vec_max_i(most[0], (vi)vec_abs(get(x + at, n - at)));
    most[0] = vec_max_i(vec_max_i(most[0], most[1]), vec_max_i(most[2], most[3]));
    memcpy(part, &most[0], sizeof part);
    for (int i = 0; i < VEC; i++) all_lanes = part[i] > all_lanes ? part[i] : all_lanes;
    float value;
    memcpy(&value, &all_lanes, sizeof value);
    return value;
}

#ifndef TRI_SIMD_OWN_INT8
/* Adding 1.5 * 2^23 rounds to an integer, which is in the low bits. */
INLINE vi nearest(vf x, float inverse) {
    vf value = vec_min(all(127.0f), vec_max(all(-127.0f), x * inverse));
    return (vi)(value + 12582912.0f) & (vi)(value == value);
}

/* 4 vectors of q = x * inverse: AHEAD. */
INLINE void quantize_some(const float *x, float inverse, int8_t *q) {
    vi v[4];
    EACH(j, 4) v[j] = nearest(load(x + j * VEC), inverse);
    put_bytes((uint8_t *)q, v);
}
#endif

SIMD void simd_to_int8(int64_t n, const float *x, float inverse, int8_t *q) {
    float part[AHEAD * VEC] = {0};
    int8_t rest[AHEAD * VEC];
    int64_t at = 0;
    for (; at + AHEAD * VEC <= n; at += AHEAD * VEC) quantize_some(x + at, inverse, q + at);
    if (at == n) return;
    memcpy(part, x + at, (size_t)(n - at) * sizeof *part);
    quantize_some(part, inverse, rest);
    memcpy(q + at, rest, (size_t)(n - at));
}
