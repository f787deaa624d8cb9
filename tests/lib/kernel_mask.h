/* kernel_mask.h - dropout decisions, implemented independently from the definition: Philox4x32-10 as in Salmon et al.,
 * SC 2011, with counter (step, sample, place, feature / 8) and key (seed, operation), 16 bits a decision. */
#ifndef TESTS_KERNEL_MASK_H
#define TESTS_KERNEL_MASK_H

#include "tests/lib/kernel_call.h"

static inline void philox_block(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]) {
    uint32_t k[2] = {key[0], key[1]};
    memcpy(out, counter, 4 * sizeof *out);
    for (int round = 0; round < 10; round++) {
        uint64_t first = 0xD2511F53ull * out[0], second = 0xCD9E8D57ull * out[2];
        uint32_t next[4] = {(uint32_t)(second >> 32) ^ out[1] ^ k[0], (uint32_t)second,
                            (uint32_t)(first >> 32) ^ out[3] ^ k[1], (uint32_t)first};
        memcpy(out, next, sizeof next);
        k[0] += 0x9E3779B9u; /* golden ratio */
        k[1] += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
}

static inline int mask_drops(const kernel_call *k, int64_t sample, int64_t place, int64_t feature) {
    uint32_t key[2] = {k->call.seed, k->attr.id}, out[4];
    uint32_t counter[4] = {k->call.step, (uint32_t)sample, (uint32_t)place, (uint32_t)(feature / 8)};
    philox_block(key, counter, out);
    uint32_t decision = out[feature % 8 / 2] >> (feature % 2 ? 16 : 0) & 0xFFFF;
    return decision < (uint32_t)lrint((double)k->attr.p * 65536);
}

/* 0, or 1 / (1 - p) with p rounded to 16 bits. */
static inline double mask_factor(const kernel_call *k, int64_t sample, int64_t place, int64_t feature) {
    if (k->attr.p == 0) return 1;
    return mask_drops(k, sample, place, feature) ? 0 : 65536.0 / (65536.0 - (double)lrint((double)k->attr.p * 65536));
}

#endif
