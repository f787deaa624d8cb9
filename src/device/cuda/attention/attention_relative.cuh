/* attention_relative.cuh - shared by the tensor core kernels of attention by distances: MPNet's biases, and DeBERTa's
 * disentangled attention.
 *
 * A tile of 64 queries meets 64 keys at 127 distances, a band: of the disentangled terms, queries are
 * multiplied with the band's keys and keys with the band's queries, [64, 128] each, whose element (row, m) belongs to
 * the pair at distance first + m. In gradients each pair's goes back to its element, and the two products are
 * transposed. Distances that share a row of the table have it several times in a band, so that nothing is searched or
 * summed by buckets before the very end. */
#ifndef TRI_DEVICE_CUDA_ATTENTION_ATTENTION_RELATIVE_CUH
#define TRI_DEVICE_CUDA_ATTENTION_ATTENTION_RELATIVE_CUH

#include "device/cuda/attention/attention_relative_args.cuh"
#include "device/cuda/attention/attention_rows.cuh"

enum {
    BAND = 128,
    BAND_BYTES = BAND * ROW_BYTES, /* of 64 columns; as many as [64, 128] products */
};

#if TRI_HOPPER
/* Begins to fetch ROWS of a band, for distances from `first` on, by N threads: the table's queries (part 0) or keys
 * (1). */
template <typename T, int N, int ROWS = BAND>
static __device__ __forceinline__ void fetch_band(const relative_args &t, int head, int part, int first, uint32_t to) {
    enum { PIECES = TILE / WIDE };
    int row = (int)threadIdx.x / PIECES, piece = (int)threadIdx.x % PIECES;
    int64_t stride = (int64_t)3 * t.a.heads * t.a.width;
    const T *from = (const T *)t.table + ((int64_t)part * t.a.heads + head) * t.a.width;
#pragma unroll
    for (int i = 0; i < ROWS; i += N / PIECES) {
        int valid = piece * WIDE < t.a.width;
        copy_16(to + piece_at(row + i, piece),
                valid ? from + listed_row(t, first + row + i) * stride + piece * WIDE : from, valid);
    }
}

/* The offset of element (row, m) of products with a band, two panels of [64, 64]. */
static __device__ __forceinline__ uint32_t own_at(int row, int m) {
    return (uint32_t)((m >> 6) * TILE_BYTES + (m & 7) * 2) + piece_at(row, m >> 3 & 7);
}

/* Stores the products of this warpgroup's rows with half of their band. Elements of no pair are 0, in gradients, too.
 */
template <typename T, bool KEYS>
static __device__ __forceinline__ void store_own(float (&x)[32], int half, uint32_t to) {
    int lane = threadIdx.x % WARP, warp_row = (int)threadIdx.x % THREADS / WARP * 16;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        int row = warp_row + lane / 4 + i / 2 % 2 * 8, m = half * TILE + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if ((unsigned)(KEYS ? m + row - 63 : m - row) >= TILE) x[i] = 0;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t four[4];
        as_factor<T>(x, k, four);
        store_matrices(to + (uint32_t)(half * TILE_BYTES) + piece_at(warp_row + lane % 16, k * 2 + lane / 16), four);
    }
}
#endif

#endif
