/* attention_mask.cuh - dropout decisions for attention (base/random.h), cheaper than one by one: the group of 8 keys is
 * the last of Philox's four counters, so that the first three rounds of a query are computed once for many groups of
 * keys. */
#pragma once

#include "device/cuda/attention/attention.cuh"

enum : uint32_t {
    FACTOR_A = 0xD2511F53u,
    FACTOR_B = 0xCD9E8D57u,
    WEYL_0 = 0x9E3779B9u,
    WEYL_1 = 0xBB67AE85u,
    SIGNS = 0x80008000u
};

static inline mask_keys mask_keys_of(const dropper &d) {
    mask_keys k = {};
    k.row[0] = d.seed, k.row[1] = d.seed + WEYL_0, k.row[2] = d.seed + 2 * WEYL_0, k.row[3] = d.id + 2 * WEYL_1;
    for (uint32_t i = 0; i < 7; i++)
        k.round[2 * i] = d.seed + (i + 3) * WEYL_0, k.round[2 * i + 1] = d.id + (i + 3) * WEYL_1;
    k.most = d.threshold * 0x10001u;
    k.offset = (0x8000u - d.threshold) * 0x10001u;
    return k;
}

/* The training step's number, and its first round: xored to the group of keys; into a query's rounds. */
typedef struct mask_start {
    uint32_t step, group, row;
} mask_start;

/* Called by all threads of a warp together (step_of). */
[[maybe_unused]] static __device__ __forceinline__ mask_start mask_start_of(const dropper &d) {
    uint32_t step = step_of(d);
    uint64_t a1 = (uint64_t)FACTOR_A * step;
    return mask_start{step, (uint32_t)(a1 >> 32) ^ d.id, (uint32_t)a1 ^ (d.id + WEYL_1)};
}

/* Philox state of a query after the first rounds. */
typedef struct mask_row {
    uint32_t a, b, c, word;
} mask_row;

static __device__ __forceinline__ mask_row mask_row_of(const mask_keys &k, const mask_start &start, uint32_t sample,
                                                       uint32_t query) {
    uint64_t b1 = (uint64_t)FACTOR_B * query;
    uint64_t a2 = (uint64_t)FACTOR_A * ((uint32_t)(b1 >> 32) ^ sample ^ k.row[0]);
    uint64_t b3 = (uint64_t)FACTOR_B * ((uint32_t)(a2 >> 32) ^ start.row);
    return mask_row{(uint32_t)b1 ^ k.row[1], (uint32_t)(b3 >> 32) ^ k.row[2], (uint32_t)a2 ^ k.row[3], (uint32_t)b3};
}

/* Whether draws may be compared two decisions at a time: the 8 keys of a draw are aligned with groups of 8 keys, and p
 * is at most 1/2. */
static __device__ __forceinline__ bool mask_is_even(const attention_args &a, uint32_t first_feature) {
    return first_feature % 8 == 0 && a.drop.threshold <= 0x8000u;
}

/* The 8 numbers of a query for a group of keys: word i has those of keys 2 i (low half) and 2 i + 1. */
static __device__ __forceinline__ void mask_numbers(const mask_keys &k, const mask_start &start, const mask_row &row,
                                                    uint32_t group, uint32_t (&x)[4]) {
    uint64_t b2 = (uint64_t)FACTOR_B * (group ^ start.group), a3 = (uint64_t)FACTOR_A * ((uint32_t)(b2 >> 32) ^ row.a);
    x[0] = (uint32_t)b2 ^ row.b, x[1] = row.word, x[2] = (uint32_t)(a3 >> 32) ^ row.c, x[3] = (uint32_t)a3;
#pragma unroll
    for (int round = 0; round < 7; round++) {
        uint64_t a = (uint64_t)FACTOR_A * x[0], b = (uint64_t)FACTOR_B * x[2];
        x[0] = (uint32_t)(b >> 32) ^ x[1] ^ k.round[2 * round], x[1] = (uint32_t)b;
        x[2] = (uint32_t)(a >> 32) ^ x[3] ^ k.round[2 * round + 1], x[3] = (uint32_t)a;
    }
}
/* The 8 decisions, in the same places: the sign of a half, its upper bit, is 1 if the weight is kept. */
static __device__ __forceinline__ void mask_draw(const mask_keys &k, const mask_start &start, const mask_row &row,
                                                 uint32_t group, uint32_t (&x)[4]) {
    mask_numbers(k, start, row, group, x);
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = __vminu2(x[i], k.most) + k.offset; /* min(x, threshold) - threshold + 0x8000 */
}

/* Inserts the signs of two halves where `bits` has 0. */
static __device__ __forceinline__ uint32_t with_signs(uint32_t bits, uint32_t x) {
    asm("lop3.b32 %0, %0, %1, %2, 0xF8;" : "+r"(bits) : "r"(x), "r"((uint32_t)SIGNS)); /* a | (b & c) */
    return bits;
}
/* Expands two halves to masks: all ones if the sign is 1. */
static __device__ __forceinline__ uint32_t spread_signs(uint32_t x) {
    asm("prmt.b32 %0, %0, 0, 0xBB99;" : "+r"(x));
    return x;
}

/* Bit i: the decision for the key of feature first + i, of up to 32, if groups of 8 features are not aligned with those
 * of keys; 1: kept. */
template <int KEYS>
static __device__ __forceinline__ uint32_t mask_odd(const dropper &d, const mask_start &start, uint32_t sample,
                                                    uint32_t query, uint32_t first) {
    uint64_t bits = 0;
#pragma unroll 1
    for (int i = 0; i <= KEYS / 8; i++)
        bits |= (uint64_t)kept_bits(d, start.step, sample, query, first / 8 + (uint32_t)i) << 8 * i;
    return (uint32_t)(bits >> first % 8);
}

/* Transposes: bit l of lane k becomes the former bit k of lane l. */
[[maybe_unused]] static __device__ __forceinline__ uint32_t turn_bits(uint32_t x) {
    uint32_t lane = threadIdx.x % WARP, low = 0x0000FFFFu; /* low: bits whose number has bit `step` clear */
#pragma unroll
    for (uint32_t step = 16; step; step /= 2, low ^= low << step) {
        uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, x, step), mine = lane & step ? ~low : low;
        x = (x & mine) | (__funnelshift_r(other, other, lane & step ? step : 32 - step) & ~mine);
    }
    return x;
}

/* The decisions of query `query` for 32 keys: bit b belongs to key 2 b, or from b = 16 on to key 2 (b - 16) + 1. */
[[maybe_unused]] static __device__ __forceinline__ uint32_t decide_keys(const attention_args &a,
                                                                        const mask_start &start,
                                                                        const attention_place &at, int query,
                                                                        int first_key) {
    uint32_t feature = at.feature + (uint32_t)(first_key - at.begin), word = 0;
    if (mask_is_even(a, feature)) {
        mask_row row = mask_row_of(a.mask, start, at.sample, at.query + (uint32_t)query);
#pragma unroll 2
        for (uint32_t i = 0; i < 4; i++) { /* two at a time: registers do not allow more */
            uint32_t x[4];
            mask_draw(a.mask, start, row, feature / 8 + i, x);
#pragma unroll
            for (int k = 0; k < 4; k++) word = with_signs(word >> 1, x[k]);
        }
        return word;
    }
    uint32_t bits = mask_odd<32>(a.drop, start, at.sample, at.query + (uint32_t)query, feature);
    for (int i = 0; i < 32; i++) word |= (bits >> i & 1) << (i / 2 + i % 2 * 16);
    return word;
}

/* Draws the decisions of 64 queries for 64 keys from `first_key` on, to [64 keys, 2 words]: each thread for one query
 * and 32 keys. */
[[maybe_unused]] static __device__ __forceinline__ void draw_tile(const attention_args &a, const mask_start &start,
                                                                  const attention_place &at, int query, int first_key,
                                                                  uint2 *to) {
    int number = (int)threadIdx.x % 64, lane = threadIdx.x % WARP, key = (int)threadIdx.x / 64 * WARP;
    uint32_t word = decide_keys(a, start, at, query, first_key + key);
    reinterpret_cast<uint32_t *>(to + key + lane % 16 * 2 + lane / 16)[number / WARP] = turn_bits(word);
}

/* Draws a thread's words of a granule (layout/mask_bits.h): lane i of a warp has word i of each tile. */
typedef struct word_drawer {
    mask_start start;
    mask_row row[2];
    uint32_t sample, query, feature, low; /* of its first query and of its first key; the threshold less 1, twice */

    /* The word for the 64 keys from `key` on, relative to the sequence, if groups of 8 features are aligned with those
     * of keys. A number becomes 1 if it reaches the threshold
     * and 0 otherwise when it is limited to these two values and `low` is subtracted, which is done once for all:
     * numbers are multiplied to their places, and so is it. */
    __device__ __forceinline__ uint32_t even(const attention_args &a, int key) const {
        uint32_t word = 0u - low * 0xFFFFu, group = (feature + (uint32_t)key) / 8;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t x[4], b = i / 2, h = i % 2;
            mask_numbers(a.mask, start, row[h], group + 4 * b, x);
#pragma unroll
            for (int k = 0; k < 4; k++) word += __vminu2(__vmaxu2(x[k], low), a.mask.most) << (8 * b + 4 * h + k);
        }
        return word;
    }
    /* The same if they are not. */
    __device__ __forceinline__ uint32_t odd(const attention_args &a, int key) const {
        uint32_t word = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t b = i / 2, h = i % 2,
                     bits = mask_odd<8>(a.drop, start, sample, query + 8 * h, feature + (uint32_t)key + 32 * b);
            for (uint32_t k = 0; k < 8; k++) word |= (bits >> k & 1) << (k % 2 * 16 + 8 * b + 4 * h + k / 2);
        }
        return word;
    }
} word_drawer;

/* For the 16 queries from row `first` on, of a head of the sequence that begins at row `begin`. */
[[maybe_unused]] static __device__ __forceinline__ word_drawer drawer_at(const attention_args &a,
                                                                         const mask_start &start, int head, int begin,
                                                                         int first) {
    word_drawer d = {};
    uint32_t place = (uint32_t)a.key[2 * begin + 1], lane = threadIdx.x % WARP;
    d.start = start, d.sample = (uint32_t)a.key[2 * begin];
    d.query = place + (uint32_t)(first - begin) + lane / 2 % 8;
    d.feature = first_feature(a, head) + place + (lane / 16 * 2 + lane % 2) * 8;
    d.low = a.mask.most - 0x10001u;
    for (uint32_t h = 0; h < 2; h++) d.row[h] = mask_row_of(a.mask, start, d.sample, d.query + 8 * h);
    return d;
}
