/* quantized.h - numbers of 8 bits with a scale: what quantize_int8 and quantize_fp8 compute, and what files of
 * quantised weights hold. A scale has 16 significant bits, so that scale * q is exact in fp32, and quantising a row of
 * such products again gives the same scale and the same q. */
#pragma once

#include "layout/dtype.h"
#include "numbers/float16.h"

#include <math.h>

#define TRI_INT8_MAX 127.0f
#define TRI_E4M3_MAX 448.0f

/* largest / most, rounded to 16 significant bits, ties to even; 0 for rows that are practically 0. NaN and infinity
 * stay. */
static inline float tri__quantized_scale(float largest, float most) {
    float scale = largest / most;
    uint32_t bits = tri__bits_of_float(scale);
    if (largest < 0x1p-100f) return 0;
    if (!isfinite(scale)) return scale;
    return tri__float_of_bits((bits + 0x7F + (bits >> 8 & 1)) & ~0xFFu);
}

/* x / scale as an integer, to nearest, ties to even. */
static inline int8_t tri__to_int8(float x, float scale) {
    float inverse = scale ? 1 / scale : 0, q = rintf(x * inverse);
    if (q != q) return 0; /* the scale is not finite: products will not be either */
    return (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
}

/* x rounded to a float type. */
static inline float tri__rounded(tri_dtype dtype, float x) {
    if (dtype == TRI_BF16) return tri__from_bf16(tri__to_bf16(x));
    if (dtype == TRI_F16) return tri__from_f16(tri__to_f16(x));
    return x;
}
