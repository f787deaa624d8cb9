/* float8.h - e4m3 (OCP FP8, no infinities) and e5m2 as f32 and back, rounded to nearest, ties to even. Values beyond
 * the largest, 448 and 57344, become that; NaNs become NaN (0x7F). */
#pragma once

#include "numbers/float16.h"

static inline float tri__from_e4m3(uint8_t code) {
    uint32_t sign = (uint32_t)(code & 0x80) << 24, magnitude = code & 0x7F;
    if (magnitude == 0x7F) return tri__float_of_bits(sign | 0x7FC00000);
    if (magnitude >= 8) return tri__float_of_bits(sign | ((magnitude << 20) + (120u << 23)));
    float small = (float)magnitude * 0x1p-9f; /* subnormal: a multiple of 2^-9 */
    return sign ? -small : small;
}

static inline uint8_t tri__to_e4m3(float x) {
    uint32_t bits = tri__bits_of_float(x), sign = bits >> 24 & 0x80, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return 0x7F;
    if (magnitude >= 0x43E00000) return (uint8_t)(sign | 0x7E); /* 448 and above */
    if (magnitude >= 0x3C800000) { /* 2^-6 and above: normal */
        uint32_t code = (magnitude - (120u << 23) + 0x7FFFF + (magnitude >> 20 & 1)) >> 20;
        return (uint8_t)(sign | (code > 0x7E ? 0x7E : code));
    }
    /* Below 2^-6 results are multiples of 2^-9: adding 2^14, whose last bit is 2^-9, rounds to such a multiple, which
     * is then in the low bits. */
    return (uint8_t)(sign | (tri__bits_of_float(tri__float_of_bits(magnitude) + 0x1p14f) - 0x46800000));
}

/* e5m2 is the upper byte of f16. */
static inline float tri__from_e5m2(uint8_t code) { return tri__from_f16((uint16_t)(code << 8)); }

static inline uint8_t tri__to_e5m2(float x) {
    uint32_t bits = tri__bits_of_float(x), sign = bits >> 24 & 0x80, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return 0x7F;
    if (magnitude >= 0x47600000) return (uint8_t)(sign | 0x7B); /* 57344 and above */
    if (magnitude >= 0x38800000) { /* 2^-14 and above: normal */
        uint32_t code = (magnitude - (112u << 23) + 0xFFFFF + (magnitude >> 21 & 1)) >> 21;
        return (uint8_t)(sign | (code > 0x7B ? 0x7B : code));
    }
    /* Below 2^-14 results are multiples of 2^-16, the last bit of 2^7. */
    return (uint8_t)(sign | (tri__bits_of_float(tri__float_of_bits(magnitude) + 0x1p7f) - 0x43000000));
}
