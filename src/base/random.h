/* random.h - counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). Independent of the mesh: a number
 * depends only on its purpose, never on a rank or on numbers drawn before it.
 *
 *   dropout   key (seed, logical operation), counter (step, sample, position, feature / 8); decision feature % 8 is 16
 *             bits of the output: word (feature % 8) / 2, low half first. Dropped when below tri__random_threshold(p).
 *   weights   key (seed, parameter), counter (element / 4 low, high, 0, 1): 4 words, 4 normals by Box-Muller on pairs
 *   gates     key (seed, xxh32 "gate primary.layer.3"), counter (step, 0, 0, 3): whether a step leaves a layer out
 *             (plan/layer_gates.h)
 *   search    key (seed, xxh32 "lr"), counter (trial low, high, 0, 4): a trial's value of a key (job/search_space.h)
 *   order     key (seed, xxh32 "epoch"), counter (i, epoch, 0, 2): the epoch's shuffle (sampler.h) */
#pragma once

#include <math.h>
#include <stdint.h>

typedef struct tri_random {
    uint32_t word[4];
} tri_random;

static inline tri_random tri__philox(uint32_t key0, uint32_t key1, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ key0, n2 = (uint32_t)(a >> 32) ^ c3 ^ key1;
        c0 = n0, c1 = (uint32_t)b, c2 = n2, c3 = (uint32_t)a;
        key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
    return (tri_random){{c0, c1, c2, c3}};
}

/* A decision is a number below 65536; the value is dropped if the decision is below this. */
static inline uint32_t tri__random_threshold(float p) { return (uint32_t)lrintf(p * 65536.0f); }
/* The factor of kept values, which preserves the mean: 1 / (1 - p), for p rounded to 16 bits. */
static inline float tri__random_scale(uint32_t threshold) { return 65536.0f / (float)(65536u - threshold); }
/* Decision `lane` (0..7) of one output. */
static inline uint32_t tri__random_decision(const tri_random *random, unsigned lane) {
    return (random->word[lane >> 1] >> (16 * (lane & 1))) & 0xFFFFu;
}

/* The id of a logical operation or parameter, from its name. */
uint32_t tri__random_id(const char *name);
/* Elements 4 * group .. 4 * (group + TRI_NORMAL_LANES) - 1 of such a tensor, vectorised (base/normal.h). Returns how
 * many may differ from tri__random_normal; 0: none. */
enum { TRI_NORMAL_LANES = 16 };
typedef int64_t tri_normal(uint32_t seed, uint32_t id, float deviation, uint64_t group, float *out);
tri_normal tri__normal_plain, tri__normal_avx2, tri__normal_avx512;
/* Elements [begin, begin + n) of a tensor of normal numbers with mean 0. */
void tri__random_normal(uint32_t seed, uint32_t id, float deviation, int64_t begin, int64_t n, float *out);
