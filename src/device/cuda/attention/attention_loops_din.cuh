/* attention_loops_din.cuh - as attention_loops.cuh, for gradients: a tile of queries meets tiles of keys and sums dq
 * (sum_dq), a tile of keys meets tiles of queries and sums dk and dv (sum_keys). Nothing is summed across blocks. */
#pragma once

#include "device/cuda/attention/attention_loops.cuh"
#include "device/cuda/attention/attention_slopes.cuh"
#include "device/cuda/attention/attention_tiles.cuh"

/* The statistics of a tile of queries, two threads for each: to shared memory, and to scratch space for the tiles of
 * keys, which are processed after all those of queries. */
template <typename T>
static __device__ __forceinline__ void form_statistics(const attention_args &a, const tile_place &at, float *to) {
    int number = (int)threadIdx.x / 2;
    bool exists = at.first + number < at.queries;
    int64_t row = at.query_row + at.first + (exists ? number : 0), head = row * a.heads + at.head;
    float sum = 0, x[WIDE], y[WIDE];
    for (int c = (int)threadIdx.x % 2 * WIDE; c < a.width; c += 2 * WIDE) {
        load<WIDE>((const T *)a.dctx + head * a.width + c, x), load<WIDE>((const T *)a.ctx + head * a.width + c, y);
#pragma unroll
        for (int k = 0; k < WIDE; k++) sum = fmaf(x[k], y[k], sum);
    }
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    float value = !exists ? 0.0f : threadIdx.x % 2 ? sum / a.drop.scale : a.lse[head] * 1.44269504f;
    to[threadIdx.x % 2 * TILE + number] = value;
    if (exists) a.statistic[(threadIdx.x % 2 * (int64_t)a.heads + at.head) * a.rows + row] = value;
}

/* Zeroes padding rows, those of the gradients of keys and values among them. */
template <typename T> static __device__ void clear_tile(const attention_args &a, const tile_place &at) {
    int64_t first = at.query_row + at.first, rows = min(TILE, at.queries - at.first), H = (int64_t)a.heads * a.width;
    for (int64_t i = threadIdx.x; i < rows * 3 * a.width && !a.add; i += THREADS)
        ((T *)a.dqkv)[(first + i / (3 * a.width)) * 3 * H + i / a.width % 3 * H + at.head * a.width + i % a.width] =
            narrow<T>(0);
}

#if TRI_HOPPER
/* Adds factors times the rows of a tile. */
template <typename T, int COLS>
static __device__ __forceinline__ void add_product(const uint32_t (&factor)[4][4], uint32_t rows,
                                                   float (&to)[COLS / 2]) {
    uint32_t b = tile_at(rows, TILE_PANEL);
#pragma unroll
    for (int k = 0; k < 4; k++) wgmma<T>::template run<1>(to, factor[k], tile(b, k * 16 * ROW_BYTES), 1);
}

/* The statistics of the thread's two rows; a warp's rows are its own. */
static __device__ __forceinline__ void take_statistics(const float *from, float (&statistic)[2][2]) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; i++)
        statistic[i / 2][i % 2] = from[i % 2 * TILE + (int)threadIdx.x / WARP * GRANULE +
                                       (int)threadIdx.x % WARP / 4 + i / 2 * 8];
}

/* Scores of half a tile and gradients of its weights become gradients of scores, without the factor of dropout's scale.
 * x: decisions of the thread's two rows for its 8 keys, of which `met` exist. */
template <bool DROP>
static __device__ __forceinline__ void form_slopes(float (&score)[32], const float (&dweight)[32], int half,
                                                   const float (&statistic)[2][2], const uint32_t (&x)[2][4],
                                                   const met_keys &met, float log2_scale) {
#pragma unroll
    for (int i = 16 * half; i < 16 * half + 16; i++) {
        int j = i / 4 % 4, h = i / 2 % 2, e = i % 2;
        float p = power_of_2(fmaf(score[i], log2_scale, -statistic[h][0])), d = dweight[i];
        if (DROP && !(x[h][j] & (e ? 0x80000000u : 0x8000u))) d = 0;
        bool exists = 2 * j + e >= met.first[h] && 2 * j + e < met.valid[h];
        score[i] = exists ? p * (d - statistic[h][1]) : 0.0f;
    }
}

/* A tile of queries, and their dctx, from address `base` on. DROP and KEYS: as those of attend, but
 *   look(n)        is called before the n-th is waited for
 *   stage(n)       the address of keys and values
 *   fetch<DROP>(n, x)
 *                  while products run: fetches the next tile; EARLY: it also decides
 *   add(n, score)  what is added to scores
 *   met(n, half)   which of the thread's keys its rows meet
 *   slopes(n, score), more(n, dq)
 *                  what else is made of gradients of scores, and added to dq */
template <typename T, int COLS, int DROP, class KEYS>
static __device__ __forceinline__ void sum_dq(const attention_args &a, const decisions &drop, KEYS &meets,
                                              uint32_t base, const float (&statistic)[2][2], float (&dq)[COLS / 2]) {
    enum { BYTES = COLS / PANEL * TILE_PANEL };
    for (int n = 0; n < meets.tiles; n++) {
        float score[32], dweight[32];
        uint32_t factor[4][4], x[2][2][4] = {}, here = meets.stage(n);
        meets.look(n);
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* the tile has arrived, and the previous one is no longer read */
        begin_product<T, COLS>(base, here, score);
        begin_product<T, COLS>(base + BYTES, here + BYTES, dweight);
        meets.template fetch<DROP>(n, x);
        wgmma_wait<0>();
        pin(score);
        pin(dweight);
        meets.add(n, score);
#pragma unroll
        for (int b = 0; b < 2; b++) {
            if (DROP && !KEYS::EARLY) decide<DROP == 1>(a, drop, meets.key(n, b), x[b]);
            form_slopes<DROP != 0>(score, dweight, b, statistic, x[b], meets.met(n, b), a.scale * 1.44269504f);
#pragma unroll
            for (int k = 0; k < 2; k++) as_factor<T>(score, 2 * b + k, factor[2 * b + k]);
        }
        meets.slopes(n, score);
        wgmma_begin();
        add_product<T, COLS>(factor, here, dq);
        wgmma_commit();
        meets.more(n, dq);
        wgmma_wait<0>();
        pin(dq);
        meets.end();
    }
}

/* Draws the decisions of the tile's keys for 64 queries: each thread for one, and 32 keys. */
static __device__ __forceinline__ void draw_decisions(const attention_args &a, const mask_start &start,
                                                      const tile_place &at, int query, uint2 *to) {
    attention_place place = {};
    place.sample = at.sample, place.query = at.query - (uint32_t)at.lead, place.feature = at.key;
    draw_tile(a, start, place, query, at.first, to);
}

template <int COLS> struct key_sums {
    float dk[COLS / 2], dv[COLS / 2];
};

/* A tile of keys, and values, from address `base` on, of which `left` exist from the thread's first on. Of MEETS:
 *   stage(n), statistic(n), decided(n)
 *                  where queries and their dctx, statistics and decisions are
 *   fetch<DROP>(n) while products run: fetches the next tile, and draws its decisions
 *   weigh(n, score, dweight)
 *                  waits; scores become weights
 *   hide(n, score, dweight)
 *                  those that are not met become 0
 *   slopes(n, dweight), more(n, dk)
 *                  as in sum_dq */
template <typename T, int COLS, int DROP, class MEETS>
static __device__ __forceinline__ void sum_keys(MEETS &meets, uint32_t base, int left, key_sums<COLS> &of) {
    enum { BYTES = COLS / PANEL * TILE_PANEL };
    int lane = threadIdx.x % WARP, row = (int)threadIdx.x / WARP * 16 + lane / 4;
    for (int n = 0; n < meets.tiles; n++) {
        const float *statistic = meets.statistic(n);
        float score[32], dweight[32];
        uint32_t weight[4][4], slope[4][4], here = meets.stage(n);
        uint2 kept[2];
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* the tile and its decisions have arrived, and the previous one is no longer read */
        begin_product<T, COLS>(base, here, score);
        begin_product<T, COLS>(base + BYTES, here + BYTES, dweight);
        meets.template fetch<DROP>(n);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint2 both = DROP ? meets.decided(n)[row + 8 * h] : make_uint2(~0u, ~0u);
            kept[h] = make_uint2(both.x >> lane % 4 * 2, both.y >> lane % 4 * 2);
        }
        meets.weigh(n, score, dweight);
        differentiate(score, dweight, statistic, kept, left);
        meets.hide(n, score, dweight);
#pragma unroll
        for (int i = 0; i < 4; i++) as_factor<T>(score, i, weight[i]), as_factor<T>(dweight, i, slope[i]);
        meets.slopes(n, dweight);
        wgmma_begin();
        add_product<T, COLS>(weight, here + BYTES, of.dv);
        add_product<T, COLS>(slope, here, of.dk);
        wgmma_commit();
        meets.more(n, of.dk);
        wgmma_wait<0>();
        pin(of.dk);
        pin(of.dv);
        meets.end();
    }
}
#endif
