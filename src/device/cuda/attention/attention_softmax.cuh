/* attention_softmax.cuh - shared by the forward kernels of attention on Hopper's tensor cores: a warpgroup with 64
 * queries of one head, whose threads have two rows each; their dropout decisions, the online softmax, and the result.
 * Keys and values are in an order that gives a thread the scores of 8 consecutive keys (by_turns). */
#pragma once

#include "device/cuda/attention/attention_bytes.cuh"
#include "device/cuda/attention/attention_mask.cuh"
#include "device/cuda/product/wgmma.cuh"

enum { THREADS = 128, QUERIES = 64 };

/* Random number state of a thread's two rows of queries: their positions; the feature of the first key; Philox state of
 * the step, and of the rows. */
typedef struct decisions {
    uint32_t sample, query, feature;
    mask_start start;
    mask_row row[2];
} decisions;

/* For the tile whose first query has the position `query`; feature: of the keys that decide() counts from. */
[[maybe_unused]] static __device__ __forceinline__ decisions decisions_at(const attention_args &a, uint32_t sample,
                                                                          uint32_t query, uint32_t feature) {
    decisions d = {};
    d.sample = sample, d.feature = feature;
    d.query = query + threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4;
    d.start = mask_start_of(a.drop);
    for (int h = 0; h < 2; h++) d.row[h] = mask_row_of(a.mask, d.start, d.sample, d.query + 8 * h);
    return d;
}
[[maybe_unused]] static __device__ __forceinline__ decisions decisions_of(const attention_args &a, int head, int begin,
                                                                          int first) {
    if (!a.drop.threshold) return decisions{};
    uint32_t place = (uint32_t)a.key[2 * begin + 1];
    return decisions_at(a, (uint32_t)a.key[2 * begin], place + (uint32_t)(first - begin),
                        first_feature(a, head) + place);
}

/* The decisions of both rows for the 8 keys from `key` on, relative to the sequence, as signs of halves (mask_draw).
 * EVEN: mask_is_even. They are computed on return: the compiler must not defer them until their use. */
template <bool EVEN>
[[maybe_unused]] static __device__ __forceinline__ void decide(const attention_args &a, const decisions &d, int key,
                                                               uint32_t (&x)[2][4]) {
    uint32_t first = d.feature + (uint32_t)key;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (EVEN) {
            mask_draw(a.mask, d.start, d.row[h], first / 8, x[h]);
            pin(x[h]);
            continue;
        }
        uint32_t bits = mask_odd<8>(a.drop, d.start, d.sample, d.query + 8 * h, first);
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[h][i] = (bits >> (2 * i) & 1) << 15 | (bits >> (2 * i + 1) & 1) << 31;
    }
}

/* Weights of the 32 keys from 32 * block on, as the A operand of two products. */
template <typename T, int N>
static __device__ __forceinline__ void form_weights(const float (&score)[N], int block, uint32_t (&weight)[2][4]) {
#pragma unroll
    for (int k = 0; k < 2; k++) as_factor<T>(score, 2 * block + k, weight[k]);
}
[[maybe_unused]] static __device__ __forceinline__ void drop_weights(const uint32_t (&x)[2][4],
                                                                     uint32_t (&weight)[2][4]) {
#pragma unroll
    for (int i = 0; i < 8; i++) weight[i / 4][i % 4] &= spread_signs(x[i % 2][i / 4 * 2 + i % 4 / 2]);
}

/* The same, decided by a thread's word of bits for 64 keys (layout/mask_bits.h): pair s of its decisions is bits s and
 * 16 + s, which are shifted to the upper ends of bytes. */
template <int BLOCK>
static __device__ __forceinline__ void drop_kept(uint32_t bits, uint32_t (&weight)[2][4]) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t x = bits << (7 - (i % 2 * 4 + i / 4 * 2 + i % 4 / 2));
        asm("prmt.b32 %0, %0, 0, %1;" : "+r"(x) : "n"(BLOCK ? 0xBB99 : 0xAA88));
        weight[i / 4][i % 4] &= x;
    }
}

/* The position of that word in a tile of bits. */
[[maybe_unused]] static __device__ __forceinline__ int word_of_thread() {
    int lane = threadIdx.x % WARP;
    return lane % 4 / 2 * 16 + lane / 4 * 2 + lane % 2;
}

/* Hides the scores of keys from `valid` on, which do not exist. */
template <int NS> static __device__ __forceinline__ void hide(float (&s)[NS], int valid) {
    int c = threadIdx.x % 4;
    if (valid < NS * 2) {
#pragma unroll
        for (int i = 0; i < NS; i++)
            if (8 * (c + i / 16 * 4) + i / 4 % 4 * 2 + i % 2 >= valid) s[i] = -INFINITY;
    }
}

/* One step of the online softmax over a tile of scores: scores become weights relative to the maximum so far, which
 * `largest` holds for the two rows; `sum` is rescaled, and `before` is the factor for what was summed so far. HOLES: a
 * row may have had no score that is not hidden. */
template <bool HOLES = false, int NS>
static __device__ __forceinline__ void soften(float (&s)[NS], float (&before)[2], float (&largest)[2], float (&sum)[2],
                                              float log2_scale) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float most = largest[h];
#pragma unroll
        for (int j = 0; j < NS / 4; j++) most = fmaxf(most, fmaxf(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 2));
        float from = HOLES && most == -INFINITY ? 0.0f : most, offset = from * log2_scale, more = 0;
        before[h] = power_of_2((largest[h] - from) * log2_scale);
        largest[h] = most;
#pragma unroll
        for (int j = 0; j < NS / 4; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &p = s[4 * j + 2 * h + e];
                p = power_of_2(fmaf(p, log2_scale, -offset));
                more += p;
            }
        sum[h] = fmaf(sum[h], before[h], more); /* of this thread's columns; the quad's sums are added at the end */
    }
}
template <int NO> static __device__ __forceinline__ void rescale(float (&out)[NO], const float (&before)[2]) {
#pragma unroll
    for (int i = 0; i < NO; i++) out[i] *= before[i / 2 % 2];
}

/* Ends the softmax of a thread's two rows, of which the first is row t, up to `end`: writes lse; factor[h] is that of
 * their sums. HOLES: rows without keys have ctx = 0 and lse = -1e30. */
template <bool HOLES = false>
static __device__ __forceinline__ void end_softmax(const attention_args &a, int head, int t, int end,
                                                   const float (&largest)[2], float (&sum)[2], float (&factor)[2]) {
#pragma unroll
    for (int h = 0; h < 2; h++, t += 8) {
        sum[h] += __shfl_xor_sync(0xFFFFFFFFu, sum[h], 1);
        sum[h] += __shfl_xor_sync(0xFFFFFFFFu, sum[h], 2);
        bool none = HOLES && sum[h] == 0;
        factor[h] = none ? 0.0f : a.drop.scale / sum[h];
        if (a.lse && threadIdx.x % 4 == 0 && t < end)
            a.lse[(int64_t)t * a.heads + head] = none ? -1e30f : largest[h] * a.scale + logf(sum[h]);
    }
}

/* Writes the columns that a head has of a thread's two rows; `to` is the warp's first row, of which `left` exist. */
template <typename T, int COLS>
static __device__ __forceinline__ void write_columns(const attention_args &a, const float (&out)[COLS / 2],
                                                     const float (&factor)[2], T *to, int left) {
    int row = threadIdx.x % WARP / 4, c = threadIdx.x % 4;
    int64_t H = (int64_t)a.heads * a.width;
    to += row * H;
#pragma unroll
    for (int h = 0; h < 2; h++, to += 8 * H)
#pragma unroll
        for (int j = 0; j < COLS / 8; j++)
            if (8 * j + 2 * c < a.width && row + 8 * h < left)
                *reinterpret_cast<uint32_t *>(to + 8 * j + 2 * c) =
                    pair_of(T(), out[4 * j + 2 * h] * factor[h], out[4 * j + 2 * h + 1] * factor[h]);
}

/* `queries` is the address of the tile of queries, which are no longer needed: whole rows are staged there. */
template <typename T, int COLS, bool HOLES = false>
static __device__ __forceinline__ void write_rows(const attention_args &a, int head, int first, int end,
                                                  float (&out)[COLS / 2], const float (&largest)[2], float (&sum)[2],
                                                  uint32_t queries) {
    int warp_row = first + (int)threadIdx.x / WARP * 16;
    float factor[2];
    end_softmax<HOLES>(a, head, warp_row + (int)threadIdx.x % WARP / 4, end, largest, sum, factor);
    T *to = (T *)a.ctx + ((int64_t)warp_row * a.heads + head) * a.width;
    int64_t H = (int64_t)a.heads * a.width;
    if constexpr (COLS == 64)
        if (a.width == COLS) {
            write_whole_rows(out, factor, queries + threadIdx.x / WARP * (16 * ROW_BYTES), to, H, end - warp_row);
            return;
        }
    write_columns<T, COLS>(a, out, factor, to, end - warp_row);
}

/* Writes a warp's 16 rows of 64 columns in the computing type and in bytes; `column`: the first of ctx's. */
template <typename T>
static __device__ __forceinline__ void write_both(const attention_args &a, int warp_row, int64_t column, int left,
                                                  const float (&out)[32], const float (&factor)[2], uint32_t room,
                                                  fp8_largest<T> &most) {
    int64_t H = (int64_t)a.heads * a.width;
    uint32_t bytes[8];
    float sum[16]; /* not used */
    write_whole_rows(out, factor, room, (T *)a.ctx + warp_row * H + column, H, left);
    form_bytes<e4m3>(out, factor, __ldg(a.sq), left, most, bytes, sum);
    write_bytes(a, bytes, room, warp_row, column, H, left);
}

/* Zeroes padding rows. */
template <typename T> static __device__ void clear_rows(const attention_args &a, int head, int64_t first, int64_t end) {
    for (int64_t i = threadIdx.x; i < (end - first) * a.width; i += THREADS)
        ((T *)a.ctx)[((first + i / a.width) * a.heads + head) * a.width + i % a.width] = narrow<T>(0);
    for (int64_t i = threadIdx.x; i < (end - first) * a.width && a.q; i += THREADS)
        a.q[((first + i / a.width) * a.heads + head) * a.width + i % a.width] = 0;
    for (int64_t t = first + threadIdx.x; t < end && a.lse; t += THREADS) a.lse[t * a.heads + head] = 0;
}

#if TRI_HOPPER
/* A block's accumulators for its queries. */
template <int COLS> struct softmax {
    float out[COLS / 2], largest[2],
        sum[2]; /* the thread's two rows: columns of ctx, the largest score, the sum of weights */
};
#endif
