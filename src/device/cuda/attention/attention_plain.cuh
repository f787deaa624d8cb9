/* attention_plain.cuh - attention without tensor cores, for all types and heads of up to 256 columns: a warp computes
 * one row of one head, in fp32, and recomputes each score when it is needed. Padding rows, after the last sequence,
 * produce 0 and receive 0. */
#pragma once

#include "device/cuda/attention/attention_tiles.cuh"

enum { THREADS = 128, MOST_COLS = MOST_WIDTH / WARP }; /* columns per lane */

/* One row of one head. */
typedef struct row {
    int64_t t;
    int head, begin, end; /* rows it attends to; none if begin = end */
} row;

static __device__ __forceinline__ row row_here(const attention_args &a) {
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / WARP;
    row r = {i / a.heads, (int)(i % a.heads), 0, 0};
    int low = 0, high = a.n; /* the last s with seq[s] <= t is in [low, high] */
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (a.seq[middle] <= r.t) low = middle;
        else high = middle - 1;
    }
    if (low < a.n) r.begin = a.seq[low], r.end = a.seq[low + 1];
    return r;
}

/* The rows that a row attends to, or that attend to it: all of its sequence, or those of listed blocks; adjacent blocks
 * are one span. */
typedef struct walk {
    const int32_t *of, *stop;
    int begin, end, block; /* block 0: all */
    int first, last;       /* rows within the window */
} walk;

static __device__ __forceinline__ walk walk_of(const tile_args &t, const row &r, bool of_keys) {
    walk w = {NULL, NULL, r.begin, r.end, 0, 0, 0};
    if (!t.blocks || r.begin == r.end) return w;
    tri_block_lists lists = of_keys ? tri__blocks_of_keys(t.blocks, t.head + r.head)
                                    : tri__blocks_of_queries(t.blocks, t.head + r.head);
    int i = (int)(r.t - r.begin) / t.block;
    w.of = lists.of + lists.at[i], w.stop = lists.of + lists.at[i + 1], w.block = t.block;
    w.first = (int)r.t - t.window, w.last = (int)r.t + t.window;
    return w;
}

/* The next span; false: there is none. */
static __device__ __forceinline__ bool next_span(walk &w, int *begin, int *end) {
    if (!w.block) {
        *begin = w.begin, *end = w.end, w.begin = w.end;
        return *begin < *end;
    }
    while (w.of < w.stop && w.begin + *w.of * w.block < w.end) {
        *begin = *end = w.begin + *w.of * w.block;
        for (; w.of < w.stop && w.begin + *w.of * w.block == *end; w.of++) *end += w.block;
        *begin = max(*begin, w.first), *end = min(min(*end, w.end), w.last + 1);
        if (*begin < *end) return true;
    }
    return false;
}

/* The head's columns of row t of qkv: query (part 0), key (1), value (2). */
template <typename T>
static __device__ __forceinline__ const T *part_of(const attention_args &a, int head, int64_t t, int part) {
    return (const T *)a.qkv + ((t * 3 + part) * a.heads + head) * a.width;
}

template <typename T> static __device__ __forceinline__ float dot(const T *x, const T *y, int n) {
    float sum = 0;
    for (int c = 0; c < n; c++) sum = fmaf(wide(x[c]), wide(y[c]), sum);
    return sum;
}

/* Scores of queries and keys. Other kinds have rows of their own, which a query meets with a key and a key with a
 * query: ROWS, with_key and with_query; NULL: none. */
template <typename T> struct dense_scores {
    enum { ROWS = 0 };
    __device__ __forceinline__ float at(const attention_args &a, int head, int64_t query, int64_t other) const {
        return dot(part_of<T>(a, head, query, 0), part_of<T>(a, head, other, 1), a.width) * a.scale;
    }
};

/* The dropout factor of the weight that row `query` gives to row `other`. */
static __device__ __forceinline__ float kept_weight(const attention_args &a, int head, int64_t query, int64_t other) {
    if (!a.drop.threshold) return 1.0f;
    return kept(a.drop, a.key, query, first_feature(a, head) + (uint32_t)a.key[2 * other + 1]);
}

/* sum[c] += weight of lane i * column c of from(i), over the lanes below `lanes`; a lane holds columns lane + 32 k. */
template <typename T, class From>
static __device__ __forceinline__ void gather(float weight, int lanes, int width, From from, float (&sum)[MOST_COLS]) {
    int lane = threadIdx.x % WARP;
    for (int i = 0; i < lanes; i++) {
        float w = __shfl_sync(0xFFFFFFFFu, weight, i);
        const T *x = from(i);
#pragma unroll
        for (int k = 0; k < MOST_COLS; k++)
            if (lane + WARP * k < width) sum[k] = fmaf(w, wide(x[lane + WARP * k]), sum[k]);
    }
}

template <typename T>
static __device__ __forceinline__ void put_columns(T *to, int width, const float (&sum)[MOST_COLS], float factor,
                                                   int add) {
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < MOST_COLS; k++)
        if (lane + WARP * k < width)
            to[lane + WARP * k] = narrow<T>(sum[k] * factor + (add ? wide(to[lane + WARP * k]) : 0.0f));
}

template <typename T, class S> static __global__ void plain_kernel(tile_args t, S scores) {
    const attention_args &a = t;
    row r = row_here(a);
    int lane = threadIdx.x % WARP, begin, end;
    if (r.t >= a.rows) return;
    float largest = -INFINITY, sum = 0, out[MOST_COLS] = {};
    for (walk w = walk_of(t, r, false); next_span(w, &begin, &end);)
        for (int j = begin + lane; j < end; j += WARP) largest = fmaxf(largest, scores.at(a, r.head, r.t, j));
    for (int i = WARP / 2; i; i /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, i));
    for (walk w = walk_of(t, r, false); next_span(w, &begin, &end);)
        for (int first = begin; first < end; first += WARP) {
            int j = first + lane;
            float weight = j < end ? expf(scores.at(a, r.head, r.t, j) - largest) : 0.0f;
            sum += weight;
            if (j < end) weight *= kept_weight(a, r.head, r.t, j);
            gather<T>(
                weight, min(WARP, end - first), a.width, [&](int i) { return part_of<T>(a, r.head, first + i, 2); },
                out);
        }
    sum = warp_sum(sum);
    put_columns((T *)a.ctx + (r.t * a.heads + r.head) * a.width, a.width, out, r.end > r.begin ? 1.0f / sum : 0.0f, 0);
    if (a.lse && lane == 0) a.lse[r.t * a.heads + r.head] = r.end > r.begin ? largest + logf(sum) : 0.0f;
}

/* For the weight that `query` gives to `other`: its value after dropout, and the gradient of the scaled score. */
template <typename T, class S>
static __device__ __forceinline__ void weight_gradient(const attention_args &a, const S &scores, int head,
                                                       int64_t query, int64_t other, float *weight, float *ds) {
    int64_t at = query * a.heads + head;
    const T *dctx = (const T *)a.dctx + at * a.width, *ctx = (const T *)a.ctx + at * a.width; /* [width] */
    float p = expf(scores.at(a, head, query, other) - a.lse[at]), factor = kept_weight(a, head, query, other);
    *weight = p * factor;
    *ds = p * (factor * dot(dctx, part_of<T>(a, head, other, 2), a.width) - dot(dctx, ctx, a.width));
}

/* The gradients of one row's query (over all rows it attends to), key and value (over all rows that attend to it). */
template <typename T, class S> static __global__ void plain_din_kernel(tile_args t, S scores) {
    const attention_args &a = t;
    row r = row_here(a);
    int lane = threadIdx.x % WARP, begin, end;
    if (r.t >= a.rows) return;
    float dq[MOST_COLS] = {}, dk[MOST_COLS] = {}, dv[MOST_COLS] = {};
    for (walk w = walk_of(t, r, false); next_span(w, &begin, &end);)
        for (int first = begin; first < end; first += WARP) {
            float unused, ds = 0;
            if (first + lane < end) weight_gradient<T>(a, scores, r.head, r.t, first + lane, &unused, &ds);
            gather<T>(
                ds, min(WARP, end - first), a.width, [&](int i) { return part_of<T>(a, r.head, first + i, 1); }, dq);
            if constexpr (S::ROWS)
                if (scores.with_key(a, r.head, 0))
                    gather<T>(
                        ds, min(WARP, end - first), a.width,
                        [&](int i) { return scores.with_key(a, r.head, (int)(r.t - first) - i); }, dq);
        }
    for (walk w = walk_of(t, r, true); next_span(w, &begin, &end);)
        for (int first = begin; first < end; first += WARP) {
            int lanes = min(WARP, end - first);
            float ds = 0, weight = 0;
            if (lane < lanes) weight_gradient<T>(a, scores, r.head, first + lane, r.t, &weight, &ds);
            gather<T>(ds, lanes, a.width, [&](int i) { return part_of<T>(a, r.head, first + i, 0); }, dk);
            if constexpr (S::ROWS)
                if (scores.with_query(a, r.head, 0))
                    gather<T>(
                        ds, lanes, a.width,
                        [&](int i) { return scores.with_query(a, r.head, first + i - (int)r.t); }, dk);
            gather<T>(
                weight, lanes, a.width,
                [&](int i) { return (const T *)a.dctx + ((int64_t)(first + i) * a.heads + r.head) * a.width; }, dv);
        }
    T *to = (T *)a.dqkv + (r.t * 3 * a.heads + r.head) * a.width;
    put_columns(to, a.width, dq, a.scale, a.add);
    put_columns(to + (int64_t)a.heads * a.width, a.width, dk, a.scale, a.add);
    put_columns(to + 2 * (int64_t)a.heads * a.width, a.width, dv, 1.0f, a.add);
}

template <typename T, class S> static void plain(const tri_call *call, const tile_args &t, const S &scores) {
    if (width_fits(call, t, "attention: heads of more than 256 columns"))
        queue(call, "attention", plain_kernel<T, S>, blocks_for(t.rows * t.heads, THREADS / WARP), THREADS, t, scores);
}
template <typename T, class S> static void plain_din(const tri_call *call, const tile_args &t, const S &scores) {
    if (width_fits(call, t, "attention's gradient: heads of more than 256 columns"))
        queue(call, "attention_din", plain_din_kernel<T, S>, blocks_for(t.rows * t.heads, THREADS / WARP), THREADS, t,
              scores);
}
