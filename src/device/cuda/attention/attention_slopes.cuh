/* attention_slopes.cuh - shared by the gradient kernels of attention on Hopper's tensor cores: a warpgroup's tile of 64
 * keys by 64 queries: weights, and gradients of scores. */
#pragma once

#include "device/cuda/attention/attention.cuh"

/* Turns scores (keys by queries) into weights before dropout. `statistic` [2, 64]. */
static __device__ __forceinline__ void exponentiate(float (&score)[32], const float *statistic, float log2_scale) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float2 two = *reinterpret_cast<const float2 *>(statistic + 8 * j +
                                                       threadIdx.x % 4 * 2); /* of this query and the next */
#pragma unroll
        for (int i = 0; i < 4; i++)
            score[4 * j + i] = power_of_2(fmaf(score[4 * j + i], log2_scale, i % 2 ? -two.y : -two.x));
    }
}

/* Turns weights and gradients of weights after dropout into weights after dropout and gradients of scores, in place,
 * both without the factor of dropout's scale. kept(j, h, e): the decision for element 4 j + 2 h + e. `left` keys exist
 * from the thread's first on. */
template <class Kept>
static __device__ __forceinline__ void differentiate(float (&score)[32], float (&dweight)[32], const float *statistic,
                                                     Kept kept, int left) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float2 two = *reinterpret_cast<const float2 *>(statistic + 64 + 8 * j + threadIdx.x % 4 * 2);
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &s = score[4 * j + 2 * h + e], &d = dweight[4 * j + 2 * h + e], p = s;
                s = kept(j, h, e) ? p : 0.0f;
                d = fmaf(s, d, -p * (e ? two.y : two.x));
            }
    }
    if (__any_sync(0xFFFFFFFFu, left <= 8)) {
#pragma unroll
        for (int i = 0; i < 32; i++)
            if (i / 2 % 2 * 8 >= left) score[i] = dweight[i] = 0;
    }
}

/* The same. kept[h]: the decisions for the thread's two keys, shifted so that its first query's is bit 0. */
static __device__ __forceinline__ void differentiate(float (&score)[32], float (&dweight)[32], const float *statistic,
                                                     const uint2 (&kept)[2], int left) {
    differentiate(
        score, dweight, statistic,
        [&](int j, int h, int e) { return (j < 4 ? kept[h].x : kept[h].y) >> (j % 4 * 8 + e) & 1; }, left);
}
