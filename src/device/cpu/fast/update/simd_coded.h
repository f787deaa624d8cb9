/* simd_coded.h - blocks of 256 numbers in the codes of numbers/coded.h. Results have the bits of the plain rows
 * (device/cpu/coded.h): what is added is rounded before, unless it is exact, as scale * q is. Blocks are finite; so no
 * quotient exceeds the code's largest number by as much as half a step, and nothing is clamped. */
#pragma once

#include "device/cpu/fast/elementwise/simd_half.h"
#include "device/cpu/fast/product/simd_quantized.h"
#include "device/cpu/fast/update/simd_optimizer.h"
#include "device/cpu/coded.h"

/* e += (kept * m + fresh * g) / (sqrt(v) + eps) where m is not 0, in double. */
typedef struct tri_momentum_run {
    float *e;                    /* [n] */
    const float *m, *g, *v;      /* [n] each; v NULL: divided by 1 */
    double kept, fresh;
    float eps;
} tri_momentum_run;

/* Numbers to be coded: x or half (bf16), plus factor * e, 0 where the mask is; NULL: left out, but not all of them. */
typedef struct tri_coded_in {
    const float *x;
    const uint16_t *half;
    const float *e, *mask;
    float factor;
} tri_coded_in;

/* Some blocks of 256 of them, as coded: all numbers and scales are finite. */
typedef struct tri_coded_out {
    int64_t blocks;
    const float *t;       /* [blocks,256] */
    const uint16_t *half; /* the same in bf16, instead of t; only without e, and not for signs */
    const float *scale;   /* [blocks] */
    uint8_t *payload;
    float *e;             /* [blocks,256] (t - what the payload stands for) * after; may be NULL */
    const float *mask;    /* [blocks,256] of signs: where it is 0, e is; may be NULL */
    float after;
} tri_coded_out;

/* What becomes of expanded numbers: stored, added, stored as a momentum where that is not 0, or rounded to 16 bits. */
typedef enum tri_coded_to { TRI_TO_F32, TRI_TO_SUM, TRI_TO_MOMENTUM, TRI_TO_BF16, TRI_TO_F16 } tri_coded_to;

enum { CODED = 256 };
typedef double vdd __attribute__((vector_size(8 * VEC)));

#ifndef TRI_SIMD_OWN_CODED
#define size_of vec_abs
/* 4 vectors of signed bytes as floats; of the low and of the high halves of bytes; bytes in bits 20 .. 26, their signs
 * in bit 31. */
INLINE void get_int8(const uint8_t *from, vf q[4]) {
    EACH(j, 4) q[j] = __builtin_convertvector(vec_bytes(from + j * VEC), vf);
}
INLINE void get_int4(const uint8_t *from, vf low[4], vf high[4]) {
    EACH(j, 4) {
        vi v = vec_bytes(from + j * VEC);
        low[j] = __builtin_convertvector((vi)((vu)v << 28) >> 28, vf);
        high[j] = __builtin_convertvector(v >> 4, vf);
    }
}
INLINE void get_e4m3(const uint8_t *from, vf q[4]) {
    EACH(j, 4) q[j] = (vf)((vu)vec_bytes(from + j * VEC) << 20 & 0x87F00000u);
}
/* 8 vectors as e4m3, and what that stands for. Adding 2^20 times the power of two below |v|, for numbers below 2^-6
 * that of 2^-6, rounds |v| to 3 bits after the first, or to a multiple of 2^-9. The low byte of the sum is the count of
 * such steps. e4m3 counts steps of all sizes: 8 for each power of two, whose exponent is 121 for 2^-6. */
INLINE void put_e4m3(uint8_t *to, const vf v[8], vf value[8]) {
    vi byte[8];
    EACH_OF(j, 8) {
        vi size = (vi)vec_abs(v[j]), power = vec_max_i(size, all_i(0x3C800000)) & 0x7F800000;
        vf shift = (vf)power * 0x1p20f, shifted = (vf)size + shift;
        vi steps = (vi)shifted + (vi)((vu)power >> 20) - 8 * 121;
        byte[j] = (steps & 0x7F) | (vi)((vu)v[j] >> 24 & 0x80u);
        value[j] = (vf)((vi)(shifted - shift) | ((vi)v[j] & INT32_MIN));
    }
    put_bytes(to, byte), put_bytes(to + 4 * VEC, byte + 4);
}
/* Bit i: element i of some vectors is negative. */
enum { SIGNED = VEC == 16 ? 4 : 32 / VEC };
INLINE void put_negative(uint8_t *to, const vf v[SIGNED]) {
    uint64_t bits = 0;
    EACH_OF(j, SIGNED) bits |= (uint64_t)(uint32_t)vec_bits(v[j] < 0) << j * VEC;
    memcpy(to, &bits, SIGNED * VEC / 8);
}
/* The sign bits of elements i to i + 4 VEC - 1. */
INLINE void get_signs(const uint8_t *payload, int64_t i, vi sign[4]) {
    uint64_t bits = 0;
    memcpy(&bits, payload + i / 8, 4 * VEC / 8);
    EACH(j, 4) {
        vu place;
        for (int k = 0; k < VEC; k++) place[k] = 1u << (j * VEC + k) % 32;
        sign[j] = (vi)((all_u((uint32_t)(bits >> j * VEC / 32 * 32)) & place) != 0) & INT32_MIN;
    }
}
#endif

/* f16 as fp32, and 2 vectors back, as numbers/float16.h; a NaN must be the quiet one. */
#ifndef TRI_SIMD_OWN_F16
INLINE vf vec_f16(const uint16_t *from) {
    vi half = (vi)vec_halves(from), size = half & 0x7FFF;
    vi large = (size << 13) + (112 << 23) + ((size >= 0x7C00) & (112 << 23));
    vi small = (vi)(__builtin_convertvector(size, vf) * 0x1p-24f);
    return (vf)((vu)chosen(small, large, size < 0x400) | ((vu)half & 0x8000u) << 16);
}
INLINE void put_f16(uint16_t *to, const vf v[2]) {
    vu high[2];
    EACH(j, 2) {
        vi size = (vi)vec_abs(v[j]), large = (size - (112 << 23) + 0xFFF + (size >> 13 & 1)) >> 13;
        vi small = (vi)((vf)size + 0.5f) - 0x3F000000;
        vi half = chosen(small, large, size < 0x38800000), limit = 0x7C00 | ((size > 0x7F800000) & 0x200);
        high[j] = (vu)chosen(limit, half, size >= 0x477FF000) << 16 | ((vu)v[j] & 0x80000000u);
    }
    put_high(to, high);
}
#endif

/* The largest lane of 4 vectors of magnitudes, whose order is that of their bits. */
INLINE float top_of(const vi top[4]) {
    int32_t most = vec_top(vec_max_i(vec_max_i(top[0], top[1]), vec_max_i(top[2], top[3])));
    float value;
    memcpy(&value, &most, sizeof value);
    return value;
}

/* 4 vectors of x + factor * e, 0 where the mask is; what is NULL is left out. scaled: the factor is not 1. open: how
 * many are not masked so far, less than 0; may be NULL. */
INLINE void take_some(const tri_coded_in *in, int64_t at, int scaled, vf sum[4], vi *open) {
    EACH(j, 4) sum[j] = all(0);
    if (in->half) get_bf16(in->half + at, sum), get_bf16(in->half + at + 2 * VEC, sum + 2);
    EACH(j, 4) {
        int64_t i = at + j * VEC;
        if (in->x) sum[j] = load(in->x + i);
        if (in->e) sum[j] = sum[j] + (scaled ? rounded(load(in->e + i) * in->factor) : load(in->e + i));
        if (!in->mask) continue;
        vi is_open = load(in->mask + i) != 0;
        sum[j] = masked(sum[j], is_open);
        if (open) open[j] += is_open;
    }
}

/* take(in, scaled) for each combination of what may be NULL: loops then have no tests. */
#define FOR_EACH_KIND(of, take)                                                                                 \
    do {                                                                                                        \
        if (of.x && of.e && of.mask) KIND(of, take, of.x, NULL, of.e, of.mask);                                 \
        else if (of.x && of.e) KIND(of, take, of.x, NULL, of.e, NULL);                                          \
        else if (of.x && of.mask) KIND(of, take, of.x, NULL, NULL, of.mask);                                    \
        else if (of.x) KIND(of, take, of.x, NULL, NULL, NULL);                                                  \
        else if (of.half && of.e && of.mask) KIND(of, take, NULL, of.half, of.e, of.mask);                      \
        else if (of.half && of.e) KIND(of, take, NULL, of.half, of.e, NULL);                                    \
        else if (of.half && of.mask) KIND(of, take, NULL, of.half, NULL, of.mask);                              \
        else if (of.half) KIND(of, take, NULL, of.half, NULL, NULL);                                            \
        else if (of.mask) KIND(of, take, NULL, NULL, of.e, of.mask);                                            \
        else KIND(of, take, NULL, NULL, of.e, NULL);                                                            \
    } while (0)
#define KIND(of, take, x_, half_, e_, mask_)                                                                    \
    do {                                                                                                        \
        tri_coded_in that = {.x = x_, .half = half_, .e = e_, .mask = mask_, .factor = of.factor};              \
        if (that.e && that.factor != 1) take(that, 1);                                                          \
        else take(that, 0);                                                                                     \
    } while (0)

INLINE void take_all(tri_coded_in in, int64_t blocks, int scaled, float *t, float *most) {
    for (int64_t b = 0; b < blocks; b++) {
        vi top[4] = {{0}};
        for (int64_t i = 0; i < CODED; i += 4 * VEC) {
            vf sum[4];
            take_some(&in, b * CODED + i, scaled, sum, NULL);
            EACH(j, 4) store(t + b * CODED + i + j * VEC, sum[j]);
            EACH(j, 4) top[j] = vec_max_i(top[j], (vi)size_of(sum[j]));
        }
        most[b] = top_of(top);
    }
}
SIMD void simd_coded_take(const tri_coded_in *in, int64_t blocks, float *t, float *most) {
    tri_coded_in of = *in;
#define TAKE(that, scaled) take_all(that, blocks, scaled, t, most)
    FOR_EACH_KIND(of, TAKE);
#undef TAKE
}

/* One pass over a block: its numbers (t may be NULL), their signs, sums[k] = sum of their sizes over i = k, k + 16,
 * ...; returns how many are not masked. */
INLINE int64_t signs_of(tri_coded_in in, int scaled, float *t, uint8_t *payload, double sums[16]) {
    enum { LANES = 16 / VEC };
    vd low[LANES] = {{0}}, high[LANES] = {{0}};
    vi open[4] = {{0}};
    int32_t lane[VEC];
    int64_t count = 0;
    for (int64_t i = 0; i < CODED; i += SIGNED * VEC) {
        vf v[SIGNED];
        for (int j = 0; j < SIGNED; j += 4) take_some(&in, i + j * VEC, scaled, v + j, open);
        if (t) EACH_OF(j, SIGNED) store(t + i + j * VEC, v[j]);
        put_negative(payload + i / 8, v);
        EACH_OF(j, SIGNED) {
            vf size = size_of(v[j]);
            low[j % LANES] += vec_low_double(size);
            high[j % LANES] += vec_high_double(size);
        }
    }
    EACH(j, LANES) {
        store_d(sums + j * VEC, low[j]);
        store_d(sums + j * VEC + VEC / 2, high[j]);
    }
    open[0] += open[1] + open[2] + open[3];
    memcpy(lane, &open[0], sizeof lane);
    for (int i = 0; i < VEC; i++) count -= lane[i];
    return count;
}
SIMD int64_t simd_coded_signs(const tri_coded_in *in, float *t, uint8_t *payload, double sums[16]) {
    tri_coded_in of = *in;
#define SIGNS(that, scaled) return signs_of(that, scaled, that.e || that.mask || that.half ? t : NULL, payload, sums)
    FOR_EACH_KIND(of, SIGNS);
#undef SIGNS
}
#undef KIND
#undef FOR_EACH_KIND

SIMD void simd_coded_largest(int64_t blocks, const float *t, float *most) {
    for (int64_t b = 0; b < blocks; b++, t += CODED) {
        vi top[4] = {{0}};
        for (int64_t i = 0; i < CODED; i += 4 * VEC)
            EACH(j, 4) top[j] = vec_max_i(top[j], (vi)vec_abs(load(t + i + j * VEC)));
        most[b] = top_of(top);
    }
}

/* Magnitudes of 16-bit floats, too, are ordered as their bits. */
SIMD void simd_coded_largest_bf16(int64_t blocks, const uint16_t *t, float *most) {
    enum { LANES = sizeof(vs) / sizeof(int16_t) };
    for (int64_t b = 0; b < blocks; b++, t += CODED) {
        vs top[4] = {{0}};
        int16_t lane[LANES], all_lanes = 0;
        for (int64_t i = 0; i < CODED; i += 4 * LANES)
            EACH(j, 4) top[j] = vec_max_s(top[j], load_s(t + i + j * LANES) & 0x7FFF);
        top[0] = vec_max_s(vec_max_s(top[0], top[1]), vec_max_s(top[2], top[3]));
        memcpy(lane, &top[0], sizeof lane);
        for (int i = 0; i < LANES; i++) all_lanes = lane[i] > all_lanes ? lane[i] : all_lanes;
        uint32_t bits = (uint32_t)all_lanes << 16;
        memcpy(most + b, &bits, sizeof bits);
    }
}

/* How a block is coded: what is known when loops are compiled. */
typedef struct coding {
    int half, error, scaled; /* from bf16; e is wanted; after is not 1 */
} coding;
/* One block. */
typedef struct block {
    const float *t;
    const uint16_t *half;
    uint8_t *payload;
    float *e;
    float scale, inverse, after;
} block;

/* 4 vectors. */
INLINE void get_numbers(const block *b, coding how, int64_t i, vf t[4]) {
    if (how.half) {
        get_bf16(b->half + i, t);
        get_bf16(b->half + i + 2 * VEC, t + 2);
    } else EACH(j, 4) t[j] = load(b->t + i + j * VEC);
}

/* e = (t - value) * after */
INLINE void keep_errors(const block *b, coding how, int64_t i, const vf t[4], const vf value[4]) {
    if (!how.error) return;
    EACH(j, 4) store(b->e + i + j * VEC, how.scaled ? (t[j] - value[j]) * b->after : t[j] - value[j]);
}

INLINE void encode_bf16(const block *b, coding how) {
    for (int64_t i = 0; i < CODED; i += 4 * VEC) {
        vf t[4], value[4];
        vu bits[4];
        get_numbers(b, how, i, t);
        EACH(j, 4) bits[j] = (vu)t[j] + 0x7FFFu + ((vu)t[j] << 15 >> 31);
        EACH(j, 4) value[j] = (vf)(bits[j] & 0xFFFF0000u);
        keep_errors(b, how, i, t, value);
        put_high((uint16_t *)(void *)b->payload + i, bits);
        put_high((uint16_t *)(void *)b->payload + i + 2 * VEC, bits + 2);
    }
}

/* t * inverse as integers in the low bits, where adding 1.5 * 2^23 leaves them. */
INLINE void to_integers(const block *b, coding how, int64_t i, vi q[4]) {
    vf t[4], shifted[4], value[4];
    get_numbers(b, how, i, t);
    EACH(j, 4) shifted[j] = rounded(t[j] * b->inverse) + 12582912.0f;
    EACH(j, 4) value[j] = (shifted[j] - 12582912.0f) * b->scale;
    keep_errors(b, how, i, t, value);
    EACH(j, 4) q[j] = (vi)shifted[j];
}

INLINE void encode_int8(const block *b, coding how) {
    for (int64_t i = 0; i < CODED; i += 4 * VEC) {
        vi q[4];
        to_integers(b, how, i, q);
        put_bytes(b->payload + i, q);
    }
}

INLINE void encode_int4(const block *b, coding how) {
    for (int64_t i = 0; i < CODED / 2; i += 4 * VEC) {
        vi low[4], high[4];
        to_integers(b, how, i, low);
        to_integers(b, how, CODED / 2 + i, high);
        EACH(j, 4) low[j] = (low[j] & 15) | (vi)((vu)high[j] << 4);
        put_bytes(b->payload + i, low);
    }
}

INLINE void encode_fp8(const block *b, coding how) {
    for (int64_t i = 0; i < CODED; i += 8 * VEC) {
        vf t[8], v[8], value[8];
        get_numbers(b, how, i, t), get_numbers(b, how, i + 4 * VEC, t + 4);
        EACH_OF(j, 8) v[j] = rounded(t[j] * b->inverse);
        put_e4m3(b->payload + i, v, value);
        EACH_OF(j, 8) value[j] *= b->scale;
        keep_errors(b, how, i, t, value), keep_errors(b, how, i + 4 * VEC, t + 4, value + 4);
    }
}

/* The run's blocks. Loops are compiled for each way. */
#define CODE_RUN(code, payload_, how)                                                                           \
    for (int64_t k = 0; k < out->blocks; k++) {                                                                 \
        float scale = out->scale[k];                                                                            \
        encode_##code(&(block){.t = out->t + k * CODED, .half = (how).half ? out->half + k * CODED : NULL,       \
                               .payload = out->payload + k * (payload_), .scale = scale,                        \
                               .inverse = scale ? 1 / scale : 0, .after = out->after,                           \
                               .e = (how).error ? out->e + k * CODED : NULL},                                   \
                      how);                                                                                     \
    }
#define ENCODE(code, payload_)                                                                                  \
    SIMD void simd_code_##code(const tri_coded_out *out) {                                                      \
        if (!out->e && out->half) {                                                                             \
            CODE_RUN(code, payload_, ((coding){.half = 1}))                                                     \
        } else if (!out->e) {                                                                                   \
            CODE_RUN(code, payload_, ((coding){.half = 0}))                                                     \
        } else if (out->after == 1) {                                                                           \
            CODE_RUN(code, payload_, ((coding){.error = 1}))                                                    \
        } else {                                                                                                \
            CODE_RUN(code, payload_, ((coding){.error = 1, .scaled = 1}))                                       \
        }                                                                                                       \
    }
ENCODE(bf16, 512)
ENCODE(int8, 256)
ENCODE(int4, 128)
ENCODE(fp8, 256)
#undef ENCODE
#undef CODE_RUN

/* Signs are there already: e alone. */
INLINE void errors_of_signs(const float *t, const float *mask, float scale, float after, int scaled, float *e) {
    for (int64_t i = 0; i < CODED; i += 4 * VEC) {
        vf left[4];
        EACH(j, 4) {
            vf v = load(t + i + j * VEC), value = (vf)((vi)all(scale) | ((vi)(v < 0) & INT32_MIN));
            left[j] = scaled ? (v - value) * after : v - value;
            if (mask) left[j] = masked(left[j], load(mask + i + j * VEC) != 0);
        }
        EACH(j, 4) store(e + i + j * VEC, left[j]);
    }
}
SIMD void simd_code_signs(const tri_coded_out *out) {
    for (int64_t k = 0; out->e && k < out->blocks; k++) {
        const float *t = out->t + k * CODED, *mask = out->mask ? out->mask + k * CODED : NULL;
        float scale = out->scale[k], *e = out->e + k * CODED;
        if (mask && out->after == 1) errors_of_signs(t, mask, scale, 1, 0, e);
        else if (out->after == 1) errors_of_signs(t, NULL, scale, 1, 0, e);
        else if (mask) errors_of_signs(t, mask, scale, out->after, 1, e);
        else errors_of_signs(t, NULL, scale, out->after, 1, e);
    }
}

/* A momentum: value, at least TRI_LEAST_MOMENTUM in size, where it was not 0. */
INLINE vf replaced(vf old, vf value) {
    vi size = vec_max_i((vi)size_of(value), (vi)all(TRI_LEAST_MOMENTUM)), sign = all_i(INT32_MIN);
    return (vf)chosen(chosen((vi)value, size, sign), (vi)old, old != 0);
}

/* 4 vectors to element i of y. */
INLINE void put_values(void *y, int64_t i, tri_coded_to to, const vf value[4]) {
    float *wide = y;
    uint16_t *half = y;
    if (to == TRI_TO_BF16) {
        vu bits[4];
        EACH(j, 4) bits[j] = (vu)value[j] + 0x7FFFu + ((vu)value[j] << 15 >> 31);
        put_high(half + i, bits);
        put_high(half + i + 2 * VEC, bits + 2);
        return;
    }
    if (to == TRI_TO_F16) {
        put_f16(half + i, value);
        put_f16(half + i + 2 * VEC, value + 2);
        return;
    }
    vf sum[4];
    EACH(j, 4) {
        if (to == TRI_TO_SUM) sum[j] = load(wide + i + j * VEC) + value[j];
        else if (to == TRI_TO_MOMENTUM) sum[j] = replaced(load(wide + i + j * VEC), value[j]);
        else sum[j] = value[j];
    }
    EACH(j, 4) store(wide + i + j * VEC, sum[j]);
}

INLINE void decode_bf16(const uint8_t *payload, float scale, void *y, tri_coded_to to) {
    const uint16_t *half = (const uint16_t *)(const void *)payload;
    (void)scale;
    for (int64_t i = 0; i < CODED; i += 4 * VEC) {
        vf x[4];
        get_bf16(half + i, x);
        get_bf16(half + i + 2 * VEC, x + 2);
        put_values(y, i, to, x);
    }
}

INLINE void decode_int8(const uint8_t *payload, float scale, void *y, tri_coded_to to) {
    for (int64_t i = 0; i < CODED; i += 4 * VEC) {
        vf q[4];
        get_int8(payload + i, q);
        EACH(j, 4) q[j] *= scale;
        put_values(y, i, to, q);
    }
}

INLINE void decode_int4(const uint8_t *payload, float scale, void *y, tri_coded_to to) {
    for (int64_t i = 0; i < CODED / 2; i += 4 * VEC) {
        vf low[4], high[4];
        get_int4(payload + i, low, high);
        EACH(j, 4) low[j] *= scale;
        EACH(j, 4) high[j] *= scale;
        put_values(y, i, to, low);
        put_values(y, CODED / 2 + i, to, high);
    }
}

/* The bits of e4m3 in their places in fp32 stand for 2^-120 of their value; with a large scale the product is taken in
 * two steps. Both are exact. */
INLINE void decode_fp8(const uint8_t *payload, float scale, void *y, tri_coded_to to) {
    float first = scale < 64 ? scale * 0x1p120f : 0x1p120f;
    for (int64_t i = 0; i < CODED; i += 4 * VEC) {
        vf q[4];
        get_e4m3(payload + i, q);
        EACH(j, 4) q[j] *= first;
        if (__builtin_expect(!(scale < 64), 0)) EACH(j, 4) q[j] *= scale;
        put_values(y, i, to, q);
    }
}

INLINE void decode_signs(const uint8_t *payload, float scale, void *y, tri_coded_to to) {
    for (int64_t i = 0; i < CODED; i += 4 * VEC) {
        vi sign[4];
        vf value[4];
        get_signs(payload, i, sign);
        EACH(j, 4) value[j] = (vf)((vi)all(scale) ^ sign[j]);
        put_values(y, i, to, value);
    }
}

#define DECODE(code, payload_)                                                                                  \
    SIMD void simd_value_##code(int64_t blocks, const uint8_t *payload, const float *scale, void *y,            \
                             tri_coded_to to) {                                                                 \
        for (int64_t k = 0; k < blocks; k++) {                                                                  \
            const uint8_t *from = payload + k * (payload_);                                                     \
            float *wide = (float *)y + k * CODED;                                                               \
            uint16_t *half = (uint16_t *)y + k * CODED;                                                         \
            if (to == TRI_TO_BF16) decode_##code(from, scale[k], half, TRI_TO_BF16);                            \
            else if (to == TRI_TO_F16) decode_##code(from, scale[k], half, TRI_TO_F16);                         \
            else if (to == TRI_TO_SUM) decode_##code(from, scale[k], wide, TRI_TO_SUM);                         \
            else if (to == TRI_TO_MOMENTUM) decode_##code(from, scale[k], wide, TRI_TO_MOMENTUM);               \
            else decode_##code(from, scale[k], wide, TRI_TO_F32);                                               \
        }                                                                                                       \
    }
DECODE(bf16, 512)
DECODE(int8, 256)
DECODE(int4, 128)
DECODE(fp8, 256)
DECODE(signs, 32)
#undef DECODE

/* By tri_code; of signs, encoding is that of e alone. */
static void (*const encode_by[])(const tri_coded_out *out) = {
    NULL, simd_code_bf16, simd_code_int8, simd_code_int4, simd_code_fp8, simd_code_signs};
static void (*const decode_by[])(int64_t blocks, const uint8_t *payload, const float *scale, void *y,
                                 tri_coded_to to) = {
    NULL, simd_value_bf16, simd_value_int8, simd_value_int4, simd_value_fp8, simd_value_signs};

SIMD void simd_coded_to_half(int64_t n, const float *x, uint16_t *y, int is_bf16) {
    for (int64_t i = 0; i < n; i += 2 * VEC) {
        vf v[2];
        vu bits[2];
        EACH(j, 2) v[j] = quiet(load(x + i + j * VEC));
        EACH(j, 2) bits[j] = (vu)v[j] + 0x7FFFu + ((vu)v[j] << 15 >> 31);
        if (is_bf16) put_high(y + i, bits);
        else put_f16(y + i, v);
    }
}
SIMD void simd_coded_from_f16(int64_t n, const uint16_t *x, float *y) {
    for (int64_t i = 0; i < n; i += VEC) store(y + i, vec_f16(x + i));
}

SIMD void simd_coded_replace(int64_t n, const float *value, float *m) {
    BY_VECTORS(n, put(m + i, left, replaced(get(m + i, left), get(value + i, left))));
}

/* Whole vectors only, and not inlined, as adamw_whole. */
static __attribute__((noinline)) void momentum_whole(const tri_momentum_run *a, int64_t n) {
    for (int64_t i = 0; i < n; i += VEC) {
        vf old = load(a->e + i), m = load(a->m + i);
        vdd sum = __builtin_convertvector(m, vdd) * a->kept + __builtin_convertvector(load(a->g + i), vdd) * a->fresh;
        if (a->v) sum /= __builtin_convertvector(vec_sqrt(load(a->v + i)) + a->eps, vdd);
        vf fresh_e = __builtin_convertvector(__builtin_convertvector(old, vdd) + sum, vf);
        vi open = m != 0;
        store(a->e + i, (vf)(((vi)fresh_e & open) | ((vi)old & ~open)));
    }
}

SIMD void simd_momentum(const tri_momentum_run *a, int64_t n) {
    int64_t whole = n / VEC * VEC;
    size_t bytes = (size_t)(n - whole) * sizeof(float);
    float e[VEC] = {0}, m[VEC] = {0}, g[VEC] = {0}, v[VEC] = {0};
    tri_momentum_run rest = *a;
    momentum_whole(a, whole);
    if (!bytes) return;
    rest.e = memcpy(e, a->e + whole, bytes), rest.m = memcpy(m, a->m + whole, bytes);
    rest.g = memcpy(g, a->g + whole, bytes);
    if (a->v) rest.v = memcpy(v, a->v + whole, bytes);
    momentum_whole(&rest, VEC);
    memcpy(a->e + whole, e, bytes);
}

SIMD void simd_momentum_unit(int64_t n, const float *v, float eps, float *x) {
    BY_VECTORS(n, put(x + i, left, get(x + i, left) * (vec_sqrt(get(v + i, left)) + eps)));
}

static __attribute__((noinline)) void frozen_whole(const tri_update_run *a, int64_t n) {
    float decayed = (float)(1 - (double)a->lr * a->decay), rate = 1 / a->c1, inverse = 1 / sqrtf(a->c2);
    for (int64_t i = 0; i < n; i += VEC) {
        vf m = load(a->m + i), step = rate * m / (vec_sqrt(load(a->v + i)) * inverse + a->eps);
        step = a->lr * vec_min(all(1.0f), vec_max(all(-1.0f), step));
        store(a->p + i, load(a->p + i) * decayed - masked(step, m != 0));
    }
}

SIMD void simd_adamw_frozen(const tri_update_run *a, int64_t n) { by_vectors(a, n, frozen_whole); }
