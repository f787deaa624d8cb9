/* attention_loops.cuh - the loop of attention on Hopper's tensor cores: a block of one warpgroup has a tile of 64
 * queries of a head, which meets tiles of keys. Which keys these are, and what is added to their scores, is a policy: a
 * type whose members the loop calls in this order. */
#pragma once

#include "device/cuda/attention/attention_softmax.cuh"

enum { TILE_PANEL = QUERIES * ROW_BYTES }; /* bytes of 64 rows of 64 columns */

#if TRI_HOPPER
/* Begins a product [64, N] of two tiles, summed over columns. */
template <typename T, int COLS, int N>
static __device__ __forceinline__ void begin_product(uint32_t left, uint32_t right, float (&to)[N]) {
    uint32_t a = tile_at(left), b = tile_at(right);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < COLS / 16; k++)
        wgmma<T>::template run<0, 0>(to, tile(a, k / 4 * TILE_PANEL + k % 4 * 32),
                                     tile(b, k / 4 * TILE_PANEL + k % 4 * 32), k > 0);
    wgmma_commit();
}

/* A tile of queries, at address `query`, meets keys. DROP: 0 no dropout, 1 mask_is_even, 2 any other. Of KEYS:
 *   tiles               how many there are; the first is being fetched
 *   look(n)             is called before the n-th is waited for
 *   keys(n), values(n)  its addresses
 *   scores<DROP>(n, score, x)
 *                       while its products run: fetches the next one, waits, and hides what does not exist. EARLY: it
 *                       also decides for the first half, if DROP is 1
 *   key(n, half)        the first of the thread's keys in each half, for decisions
 * HOLES: a row may have no key in a tile. */
template <typename T, int DROP, class KEYS, int COLS>
static __device__ __forceinline__ void attend(const attention_args &a, const decisions &drop, KEYS &meets,
                                              uint32_t query, softmax<COLS> &of) {
    float log2_scale = a.scale * 1.44269504f;
    for (int n = 0; n < meets.tiles; n++) {
        float score[32], before[2];
        uint32_t x[2][2][4], weight[2][2][4];
        meets.look(n);
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* the tile has arrived, and the previous one is no longer read */
        begin_product<T, COLS>(query, meets.keys(n), score);
        meets.template scores<DROP>(n, score, x[0]);
        soften<KEYS::HOLES>(score, before, of.largest, of.sum, log2_scale);
        rescale(of.out, before);
        uint32_t value_tile = tile_at(meets.values(n), TILE_PANEL);
#pragma unroll
        for (int b = 0; b < 2; b++) {
            form_weights<T>(score, b, weight[b]);
            if (DROP == 2 || (DROP && (b || !KEYS::EARLY))) decide<DROP == 1>(a, drop, meets.key(n, b), x[b]);
            if (DROP) drop_weights(x[b], weight[b]);
            wgmma_begin();
#pragma unroll
            for (int k = 0; k < 2; k++)
                wgmma<T>::template run<1>(of.out, weight[b][k], tile(value_tile, (2 * b + k) * 16 * ROW_BYTES), 1);
            wgmma_commit();
        }
        wgmma_wait<0>();
        pin(of.out);
    }
}
#endif
