/* cluster.cuh - two blocks that share their input (Hopper): tiles copied from global memory by the copy engine, into
 * both blocks' shared memory at once, and barriers that both arrive at. */
#pragma once

#include "device/cuda/product/groups.cuh"

#include <cuda.h> /* CUtensorMap: the copy engine's description of a matrix */

enum { CLUSTER = 2 }; /* blocks */
/* Persistent blocks for so many tiles of a cluster. */
static inline unsigned cluster_blocks(const tri_call *call, int tiles) {
    return (unsigned)min(processors_of(call) / CLUSTER, tiles) * CLUSTER;
}
/* For kernels that run in clusters; for GPUs without clusters the compiler rejects the attribute, and the kernel is
 * empty. */
#if TRI_HOPPER || !defined(__CUDA_ARCH__)
#define IN_CLUSTERS __cluster_dims__(CLUSTER, 1, 1)
#else
#define IN_CLUSTERS
#endif

/* Describes a matrix [rows, cols] whose tiles are [tile_rows, 64], in the panel layout of wgmma.cuh. Elements out of
 * bounds read as 0. */
int tri__cuda_describe_tiles(tri_cuda *cuda, CUtensorMap *map, int dtype, const void *data, int64_t rows, int64_t cols,
                             int tile_rows);

#if TRI_HOPPER
static __device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
static __device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/* Initialised barriers are visible to the other block and to the copy engine after the next cluster_sync. */
static __device__ __forceinline__ void show_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Arrives at the same barrier of block `rank`. */
static __device__ __forceinline__ void arrive_at(uint32_t barrier, uint32_t rank) {
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                 "}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}
/* Arrives; the phase ends only when that many bytes have been copied. */
static __device__ __forceinline__ void expect_bytes(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/* Begins to copy the tile at (row, col) to this block. */
static __device__ __forceinline__ void fetch_tile(const CUtensorMap *map, int row, int col, uint32_t to,
                                                  uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            to),
        "l"(map), "r"(col), "r"(row), "r"(barrier)
        : "memory");
}
/* Begins to copy `bytes` adjacent bytes, a multiple of 16, to this block. */
static __device__ __forceinline__ void fetch_run(const void *from, uint32_t bytes, uint32_t to, uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}
/* A tile to both blocks, each with its own barrier; for a matrix that is read repeatedly, and should stay in the
 * cache. */
static __device__ __forceinline__ void fetch_tile_for_both(const CUtensorMap *map, int row, int col, uint32_t to,
                                                           uint32_t barrier) {
    uint64_t kept;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(kept));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::"
                 "cache_hint [%0], "
                 "[%1, {%2, %3}], [%4], %5, %6;" ::"r"(to),
                 "l"(map), "r"(col), "r"(row), "r"(barrier), "h"((uint16_t)((1 << CLUSTER) - 1)), "l"(kept)
                 : "memory");
}
#endif
