/* product_tiles.cuh - shared by our own products on Hopper's tensor cores (fused_product.cu, act_product.cu,
 * scaled_product.cu).
 *
 * Blocks are persistent, with many tiles of 128 rows by 256 columns each. One thread fetches tiles of both factors, 128
 * bytes of the summed dimension at a time (a step); two blocks form a cluster, work on the same columns and each fetch
 * half of that factor for both. Two warpgroups multiply, 64 rows each, round their results into shared memory, and
 * continue; other warps finish results and write them to memory, while the next tile is multiplied. */
#pragma once

#include "device/cuda/product/cluster.cuh"

enum {
    ROWS = 128,
    COLS = 256,
    STAGES = 3, /* of a tile; steps in shared memory */
    GROUP = 128,
    GROUP_ROWS = 64,
    PRODUCT_WARPS = ROWS / 16, /* threads and rows that multiply together; all warps that do */
    X_BYTES = ROWS * ROW_BYTES,
    W_BYTES = COLS * ROW_BYTES,
    STAGE_BYTES = X_BYTES + W_BYTES, /* of a step */
    BOX = ROWS * ROW_BYTES,
    BOXES = COLS / PANEL, /* 64 columns of results, of 16 bits */
    RESULTS_AT = STAGES * STAGE_BYTES,
    BARRIERS_AT = RESULTS_AT + BOXES * BOX,
    MOST_PARTS_OF_RESULTS = 2,
    ALL_BYTES = BARRIERS_AT + (2 * STAGES + 2 * MOST_PARTS_OF_RESULTS) * 8 + ATOM_BYTES, /* with padding to align */
    SLICE = 4,            /* rows that a warp finishes at once */
    LEAST_ROWS = 1024     /* with fewer, most of the GPU has no tile, and cuBLASLt uses smaller ones */
};

/* The position of a tile; tiles of one row are consecutive, so that x is in the cache. `across`: tiles per row. */
typedef struct tile_place {
    int64_t row;
    int col;
} tile_place;

#if TRI_HOPPER
static __device__ __forceinline__ tile_place place_of(int across, int tile) {
    return tile_place{(int64_t)(tile / across * CLUSTER + (int)cluster_rank()) * ROWS, tile % across * COLS};
}
static __device__ __forceinline__ int first_tile() { return (int)(blockIdx.x / CLUSTER); }
static __device__ __forceinline__ int tiles_further() { return (int)(gridDim.x / CLUSTER); }

/* The block's shared memory. Results are handed over in PARTS equal runs of rows, to END_WARPS warps each. */
template <int END_WARPS, int PARTS> struct product_room {
    uint32_t base;
    __device__ __forceinline__ uint32_t x(int stage) const { return base + (uint32_t)(stage * STAGE_BYTES); }
    __device__ __forceinline__ uint32_t w(int stage) const { return x(stage) + X_BYTES; }
    __device__ __forceinline__ uint32_t results(int box) const { return base + RESULTS_AT + (uint32_t)(box * BOX); }
    __device__ __forceinline__ uint32_t full(int stage) const { return base + BARRIERS_AT + (uint32_t)stage * 8; }
    __device__ __forceinline__ uint32_t empty(int stage) const { return full(STAGES + stage); }
    __device__ __forceinline__ uint32_t made(int part = 0) const { return full(2 * STAGES + part); } /* complete */
    __device__ __forceinline__ uint32_t taken(int part = 0) const { return made(PARTS + part); }     /* and read */
    __device__ __forceinline__ void init() const {
        for (int i = 0; i < STAGES; i++) barrier_init(full(i), 1), barrier_init(empty(i), CLUSTER * PRODUCT_WARPS);
        for (int i = 0; i < PARTS; i++)
            barrier_init(made(i), PRODUCT_WARPS / PARTS * WARP), barrier_init(taken(i), END_WARPS * WARP);
        show_barriers();
    }
    /* Releases a stage for this warp: signalled to both blocks, since each fetches for both. */
    __device__ __forceinline__ void leave(int stage) const {
        __syncwarp();
        if (threadIdx.x % WARP < CLUSTER) arrive_at(empty(stage), threadIdx.x % WARP);
    }
};

/* All steps of a tile. multiply(slot, more): the products of the step in that stage; more: 0 in the first, which begins
 * the sums. Returns the last stage, which is not released yet: sums are complete. */
template <class Room, class Multiply>
static __device__ __forceinline__ int multiply_steps(const Room &m, int steps, ring<STAGES> &stage,
                                                     const Multiply &multiply) {
    int before = 0;
    for (int step = 0; step < steps; step++, stage.advance()) {
        wait_for(m.full(stage.slot), stage.lap);
        multiply(stage.slot, step > 0);
        if (step > 0) {
            wgmma_wait<1>();
            m.leave(before);
        }
        before = stage.slot;
    }
    wgmma_wait<0>();
    return before;
}

/* A warp's 16 rows of results, in as many halves as one instruction produces. */
template <int HALVES> struct product_sums {
    enum { EACH = COLS / 2 / HALVES };
    float half[HALVES][EACH];
    __device__ __forceinline__ float at(int i) const { return half[i / EACH][i % EACH]; }
};

/* Adds the parts of a warp's threads that have the same columns, and writes them; `part` is the thread's first
 * column. */
[[maybe_unused]] static __device__ __forceinline__ void put_sums(float (&sum)[WIDE], float *part, int there) {
#pragma unroll
    for (int k = 0; k < WIDE; k++)
#pragma unroll
        for (int other = WIDE; other < WARP; other *= 2) sum[k] += __shfl_xor_sync(0xFFFFFFFFu, sum[k], other);
    if (threadIdx.x % WARP < WIDE && there) store<WIDE>(part, sum);
}

/* 8 columns of a row of results, of the box at `from`. */
template <typename T> static __device__ __forceinline__ pack<T, WIDE> result_at(uint32_t from, int row, int piece) {
    uint4 raw = load_16(from + piece_at(row, piece));
    return *reinterpret_cast<pack<T, WIDE> *>(&raw);
}
/* Streaming store: written once and read by another kernel after it has left the cache. */
template <typename T> static __device__ __forceinline__ void pass_on(T *to, const pack<T, WIDE> &value) {
    __stcs(reinterpret_cast<uint4 *>(to), *reinterpret_cast<const uint4 *>(&value));
}
#endif
