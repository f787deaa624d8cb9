/* float16.h - bf16 and f16 as f32 and back, rounded to nearest, ties to even. NaNs become the quiet NaN. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline float tri__float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t tri__bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float tri__from_bf16(uint16_t half) { return tri__float_of_bits((uint32_t)half << 16); }

static inline uint16_t tri__to_bf16(float x) {
    uint32_t bits = tri__bits_of_float(x);
    if (x != x) return 0x7FC0;
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static inline float tri__from_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7FFF;
    if (magnitude >= 0x7C00) return tri__float_of_bits(sign | 0x7F800000 | (magnitude & 0x3FF) << 13);
    if (magnitude >= 0x400) return tri__float_of_bits(sign | ((magnitude << 13) + (112u << 23)));
    float small = (float)magnitude * 0x1p-24f; /* subnormal: a multiple of 2^-24 */
    return sign ? -small : small;
}

static inline uint16_t tri__to_f16(float x) {
    uint32_t bits = tri__bits_of_float(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return 0x7E00;
    if (magnitude >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* 65520 and above round to infinity */
    if (magnitude >= 0x38800000)
        return (uint16_t)(sign | (magnitude - (112u << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13);
    /* Below 2^-14 results are multiples of 2^-24: adding 0.5, whose last bit is 2^-24, rounds to such a multiple, which
     * is then in the low bits. */
    return (uint16_t)(sign | (tri__bits_of_float(tri__float_of_bits(magnitude) + 0.5f) - 0x3F000000));
}
