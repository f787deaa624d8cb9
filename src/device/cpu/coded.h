/* coded.h - single elements of a block in the codes of numbers/coded.h, and its scale: the definition, which reference
 * kernels use throughout and fast ones for blocks that are not finite. Every operation on fp32 is rounded by itself, so
 * coded bytes and errors are the same on every device. */
#pragma once

#include "device/kernel.h"
#include "numbers/coded.h"
#include "numbers/float8.h"
#include "numbers/quantized.h"

#define TRI_LEAST_MOMENTUM 0x1p-100f /* a momentum that decays never becomes 0: that would mask the element for good */

/* a * b, rounded: a compiler may not contract it and a sum that it is part of to one operation. */
static inline float tri__product(float a, float b) {
    volatile float product = a * b;
    return product;
}

/* The largest integer, or e4m3 number, of a code with a scale for it. */
static inline float tri__code_most(tri_code code) {
    return code == TRI_CODE_INT8 ? TRI_INT8_MAX : code == TRI_CODE_INT4 ? 7 : TRI_E4M3_MAX;
}

/* Whether errors of a block may be kept: it is finite, and so is all that it can stand for. */
static inline int tri__code_finite(tri_code code, float largest, float scale) {
    if (code == TRI_CODE_BF16) return tri__bits_of_float(largest) < 0x7F7F8000; /* others are rounded to infinity */
    if (code == TRI_CODE_SIGNS) return isfinite(scale);
    return isfinite(scale * tri__code_most(code));
}

static inline float tri__code_scale(tri_code code, float largest) {
    float scale = tri__quantized_scale(largest, tri__code_most(code));
    return scale == scale ? scale : tri__float_of_bits(0x7FC00000);
}

/* Of signs: `sums` are those of every 16th |t|, added by halves; `count` elements are not masked. */
static inline float tri__code_mean(double sums[16], double count) {
    for (int n = 8; n > 0; n /= 2)
        for (int i = 0; i < n; i++) sums[i] += sums[i + n];
    float scale = count ? (float)(sums[0] / count) : 0;
    return scale == scale ? scale : tri__float_of_bits(0x7FC00000);
}

/* x / scale as an integer of -7 .. 7, in 4 bits. */
static inline int tri__to_int4(float x, float scale) {
    int q = tri__to_int8(x, scale);
    return (q > 7 ? 7 : q < -7 ? -7 : q) & 15;
}

/* Element i of a block, in a payload that was zeros. */
static inline void tri__encode(tri_code code, uint8_t *payload, int64_t i, float t, float scale) {
    switch (code) {
    case TRI_CODE_BF16: ((uint16_t *)(void *)payload)[i] = tri__to_bf16(t); break;
    case TRI_CODE_INT8: payload[i] = (uint8_t)tri__to_int8(t, scale); break;
    case TRI_CODE_INT4: payload[i % 128] |= (uint8_t)(tri__to_int4(t, scale) << (i < 128 ? 0 : 4)); break;
    case TRI_CODE_FP8: payload[i] = tri__to_e4m3(tri__product(t, scale ? 1 / scale : 0)); break;
    default: payload[i / 8] |= (uint8_t)((t < 0) << i % 8);
    }
}

static inline float tri__decode(tri_code code, const uint8_t *payload, int64_t i, float scale) {
    switch (code) {
    case TRI_CODE_BF16: return tri__from_bf16(((const uint16_t *)(const void *)payload)[i]);
    case TRI_CODE_INT8: return tri__product(scale, (int8_t)payload[i]);
    case TRI_CODE_INT4: return tri__product(scale, (float)(((payload[i % 128] >> (i < 128 ? 0 : 4) & 15) ^ 8) - 8));
    case TRI_CODE_FP8: return tri__product(scale, tri__from_e4m3(payload[i]));
    default: return tri__float_of_bits(tri__bits_of_float(scale) ^ (uint32_t)(payload[i / 8] >> i % 8 & 1) << 31);
    }
}

/* Row k of operand q [M,B]: blocks' payloads, and their scales (none in bf16). */
typedef struct tri_coded_row {
    tri_code code;
    uint8_t *payload;
    float *scale;
} tri_coded_row;

static inline tri_coded_row tri__coded_row_of(const tri_call *call, int q, int64_t k) {
    tri_code code = (tri_code)call->attr->code;
    uint8_t *row = (uint8_t *)call->t[q].data + k * call->t[q].cols;
    return (tri_coded_row){code, row, (float *)(void *)(row + tri__coded_scales(code, call->t[q].cols))};
}

static inline uint8_t *tri__coded_payload(const tri_coded_row *row, int64_t block) {
    return row->payload + block * tri__code_payload(row->code);
}
static inline float tri__coded_scale(const tri_coded_row *row, int64_t block) {
    return row->code == TRI_CODE_BF16 ? 1 : row->scale[block];
}
