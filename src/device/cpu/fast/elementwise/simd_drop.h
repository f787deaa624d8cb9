/* simd_drop.h - dropout masks by Philox on vectors of counters (base/random.h), and dropout of rows. */
#pragma once

#include "device/cpu/fast/runtime/call.h"
#include "device/cpu/fast/runtime/simd.h"

static void vec_mul_wide(vu x, uint32_t factor, vu *high, vu *low);

static const uint32_t factor_a = 0xD2511F53u, factor_b = 0xCD9E8D57u, weyl0 = 0x9E3779B9u, weyl1 = 0xBB67AE85u;

/* The group of features is the last of four counters, so that the first three of ten rounds hardly depend on it. Their
 * result for a row's key: */
typedef struct row_start {
    uint32_t a, b, c, word; /* xored into three words after round 3, or before; the fourth word */
} row_start;

/* The same for all rows: */
typedef struct philox_keys {
    uint32_t group;    /* xored to the group in round 1 */
    vu round[14];      /* keys of rounds 4 to 10 */
} philox_keys;

INLINE philox_keys keys_of(const tri_drop *drop) {
    philox_keys keys = {.group = (uint32_t)((uint64_t)factor_a * drop->step >> 32) ^ drop->id};
    for (uint32_t i = 0; i < 7; i++) {
        keys.round[2 * i] = all_u(drop->seed + (i + 3) * weyl0);
        keys.round[2 * i + 1] = all_u(drop->id + (i + 3) * weyl1);
    }
    return keys;
}

INLINE row_start start_of(const tri_drop *drop, const int32_t *key) {
    uint64_t b1 = (uint64_t)factor_b * (uint32_t)key[1];
    uint64_t a2 = (uint64_t)factor_a * ((uint32_t)(b1 >> 32) ^ (uint32_t)key[0] ^ drop->seed);
    uint32_t step = factor_a * drop->step;
    uint64_t b3 = (uint64_t)factor_b * ((uint32_t)(a2 >> 32) ^ step ^ (drop->id + weyl1));
    return (row_start){.a = (uint32_t)b1 ^ (drop->seed + weyl0), .b = (uint32_t)(b3 >> 32) ^ (drop->seed + 2 * weyl0),
                       .c = (uint32_t)a2 ^ (drop->id + 2 * weyl1), .word = (uint32_t)b3};
}

/* Rounds 3 to 10 of n vectors of counters. high and low: of the product of round 2 that depends on the group. */
INLINE void philox(vu x[][4], const vu *high, const vu *low, const vu *a, const vu *b, const vu *c, const vu *word,
                   int n, const philox_keys *keys) {
    vu high_a[MANY], low_a[MANY], high_b[MANY], low_b[MANY];
    EACH(j, n) vec_mul_wide(high[j] ^ a[j], factor_a, &high_a[j], &low_a[j]);
    EACH(j, n) x[j][0] = low[j] ^ b[j], x[j][1] = word[j], x[j][2] = high_a[j] ^ c[j], x[j][3] = low_a[j];
#pragma GCC unroll 7
    for (int round = 0; round < 7; round++) {
        EACH(j, n) vec_mul_wide(x[j][0], factor_a, &high_a[j], &low_a[j]);
        EACH(j, n) vec_mul_wide(x[j][2], factor_b, &high_b[j], &low_b[j]);
        EACH(j, n) x[j][0] = high_b[j] ^ x[j][1] ^ keys->round[2 * round], x[j][1] = low_b[j];
        EACH(j, n) x[j][2] = high_a[j] ^ x[j][3] ^ keys->round[2 * round + 1], x[j][3] = low_a[j];
    }
}

/* The lanes' counters are ordered so that interleaving within 128 bits puts outputs in memory order. */
INLINE vu lane_order(void) {
    vu order = {0};
    for (int i = 0; i < VEC; i++) order[i] = (uint32_t)((i % 4) * (VEC / 4) + i / 4);
    return order;
}

/* n vectors of groups, in lane order. */
INLINE void draw(const row_start *start, const philox_keys *keys, vu groups, int n, uint16_t *out) {
    vu x[MANY][4], high[MANY], low[MANY], a[MANY], b[MANY], c[MANY], word[MANY];
    EACH(j, n) a[j] = all_u(start->a), b[j] = all_u(start->b), c[j] = all_u(start->c), word[j] = all_u(start->word);
    EACH(j, n) vec_mul_wide((groups + (uint32_t)(j * VEC)) ^ keys->group, factor_b, &high[j], &low[j]);
    philox(x, high, low, a, b, c, word, n, keys);
    EACH(j, n) {
        vu low01 = vec_unpack_low32(x[j][0], x[j][1]), low23 = vec_unpack_low32(x[j][2], x[j][3]);
        vu high01 = vec_unpack_high32(x[j][0], x[j][1]), high23 = vec_unpack_high32(x[j][2], x[j][3]);
        vu_any *to = (vu_any *)(out + 8 * j * VEC);
        to[0] = vec_unpack_low64(low01, low23);
        to[1] = vec_unpack_high64(low01, low23);
        to[2] = vec_unpack_low64(high01, high23);
        to[3] = vec_unpack_high64(high01, high23);
    }
}

/* Decisions for features 8 group to 8 (group + n) - 1 of the row with this key, 16 bits each. Writes up to a multiple
 * of VEC groups. */
INLINE void decide(const tri_drop *drop, const philox_keys *keys, const int32_t *key, uint32_t group, int64_t n,
                   uint16_t *out) {
    row_start start = start_of(drop, key);
    vu groups = lane_order() + group;
    int64_t i = 0;
    for (; i + 3 * VEC < n; i += 4 * VEC, groups += 4 * VEC) draw(&start, keys, groups, 4, out + 8 * i);
    for (; i < n; i += VEC, groups += VEC) draw(&start, keys, groups, 1, out + 8 * i);
}

/* All ones for kept values. */
INLINE vi kept(const uint16_t *decision, uint32_t threshold) {
    return __builtin_convertvector(*(const vh_any *)decision, vi) >= (int32_t)threshold;
}

enum { SPAN = 512 }; /* features whose decisions are buffered at a time */

/* A row is cut into spans: computes decisions for the span that begins at feature `begin` of row t, and returns its
 * end. */
INLINE int64_t decide_span(const tri_drop *drop, const philox_keys *keys, int64_t t, int64_t h, int64_t begin,
                           uint16_t decision[SPAN + 8 * VEC]) {
    int64_t end = h - begin < SPAN ? h : begin + SPAN;
    if (drop->threshold) decide(drop, keys, drop->key + 2 * t, (uint32_t)(begin / 8), (end - begin + 7) / 8, decision);
    return end;
}

INLINE void dropout_some(const tri_drop *drop, const uint16_t *decision, int64_t left, const float *x, float *y,
                         int acc) {
    vf v = masked(get(x, left) * drop->scale, kept(decision, drop->threshold));
    if (acc) v += get(y, left);
    put(y, left, v);
}

SIMD void simd_dropout(const tri_drop *drop, int64_t t0, int64_t t1, int64_t h, const float *x, float *y, int acc) {
    uint16_t decision[SPAN + 8 * VEC] = {0}; /* threshold 0 keeps all */
    philox_keys keys = keys_of(drop);
    for (int64_t t = t0; t < t1; t++)
        for (int64_t begin = 0, end; begin < h; begin = end) {
            end = decide_span(drop, &keys, t, h, begin, decision);
            const float *from = x + t * h + begin;
            float *to = y + t * h + begin;
            BY_VECTORS(end - begin, dropout_some(drop, decision + i, left, from + i, to + i, acc));
        }
}
