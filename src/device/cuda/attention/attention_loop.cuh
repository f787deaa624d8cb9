/* attention_loop.cuh - attention of a tile of 64 queries on Hopper's tensor cores (Dao et al., 2022): one loop, given
 * the keys that the tile meets (attention_rows.cuh) and their score (attention_score.cuh). */
#ifndef TRI_DEVICE_CUDA_ATTENTION_ATTENTION_LOOP_CUH
#define TRI_DEVICE_CUDA_ATTENTION_ATTENTION_LOOP_CUH

#include "device/cuda/attention/attention_score.cuh"

/* Shared memory: queries, then two of each: keys, values; what the keys and the score need. */
template <int COLS> struct loop_sizes {
    enum { KEYS_AT = operand_bytes<COLS>, VALUES_AT = 3 * KEYS_AT, MORE_AT = 5 * KEYS_AT };
};

/* A head's keys: their columns in the operand, and the sequence's first row. Values: heads * width columns further. */
template <typename T> struct key_rows {
    const T *of;
    int64_t first, stride;
};
template <typename T> static __device__ __forceinline__ key_rows<T> keys_of(const tile_args &t, const tile_place &at) {
    return key_rows<T>{(const T *)t.kv + at.head * t.a.width, at.key_row, t.kv_stride};
}
/* Begins to fetch the n-th tile of keys and of values. */
template <typename T, int COLS, class Rows>
static __device__ __forceinline__ void fetch_keys(const attention_args &a, const Rows &rows, const key_rows<T> &kv,
                                                  int n, uint32_t keys, uint32_t values) {
    copy_tile<T, COLS, true>(rows, n, kv.of, kv.first, kv.stride, a.width, keys);
    copy_tile<T, COLS, true>(rows, n, kv.of + (int64_t)a.heads * a.width, kv.first, kv.stride, a.width, values);
}

#if TRI_HOPPER
/* The keys of a window; the first tile is being fetched. DROP: 0 no dropout, 1 mask_is_even, 2 any other. Without a
 * term of its own to form, decisions are drawn while products run. */
template <typename T, int COLS, int DROP, class Rows, class Score>
static __device__ __forceinline__ void attend(const attention_args &a, const decisions &drop, const Rows &rows,
                                              const key_rows<T> &kv, const Score &scores, uint32_t query,
                                              softmax<COLS> &of) {
    typedef loop_sizes<COLS> size;
    int tiles = rows.tiles();
    for (int n = 0; n < tiles; n++) {
        uint32_t here = query + (uint32_t)(n & 1) * operand_bytes<COLS>, x[2][2][4], weight[2][2][4];
        uint32_t there = query + (uint32_t)(~n & 1) * operand_bytes<COLS>;
        float score[32], before[2];
        bool more = n + 1 < tiles;
        met_keys met[2] = {rows.met(n, 0), rows.met(n, 1)};
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* the tile has arrived, and the previous one is no longer read */
        begin_product<T, COLS>(query, here + size::KEYS_AT, score);
        if (more) fetch_keys<T, COLS>(a, rows, kv, n + 1, there + size::KEYS_AT, there + size::VALUES_AT);
        scores.form(n, more, query, here + size::KEYS_AT);
        if (DROP == 1) decide<true>(a, drop, met[0].key, x[0]);
        wgmma_wait<0>();
        pin(score);
        scores.add(n, score);
        scores.release(n, more);
        copy_commit();
        rows.hide(n, met, score);
        soften<Rows::HOLES>(score, before, of.largest, of.sum, a.scale * 1.44269504f);
        rescale(of.out, before);
#pragma unroll
        for (int b = 0; b < 2; b++) {
            form_weights<T>(score, b, weight[b]);
            if (DROP == 2 || (DROP && b)) decide<DROP == 1>(a, drop, met[b].key, x[b]);
            if (DROP) drop_weights(x[b], weight[b]);
            wgmma_begin();
            add_product<T>(weight[b], here + size::VALUES_AT, 2 * b, of.out);
            wgmma_commit();
        }
        wgmma_wait<0>();
        pin(of.out);
    }
}
#endif

#endif
