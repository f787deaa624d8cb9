/* groups.cuh - warpgroups of one block that pass tiles in shared memory to each other: producers and consumers. A
 * barrier counts arrivals; when all have arrived its phase (lap) ends and the next begins. A wait names the parity of
 * the lap that must have ended. */
#pragma once

#include "device/cuda/product/wgmma.cuh"

/* N slots, used in rotation. A slot may be read when the lap of its "full" barrier has ended, and overwritten when that
 * of its "empty" barrier has. */
template <int N> struct ring {
    int slot;
    uint32_t lap; /* parity */
    __device__ __forceinline__ void advance() {
        if (++slot == N) slot = 0, lap ^= 1;
    }
};

#if TRI_HOPPER
static __device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* A thread's writes before it arrives are visible to those that wait. All threads of a warp arrive, not one for all: it
 * takes no longer, and compute-sanitizer can track it. They converge first: otherwise the compiler ran out of registers
 * for heads of 128 columns. */
static __device__ __forceinline__ void arrive(uint32_t barrier) {
    __syncwarp();
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

static __device__ __forceinline__ void wait_for(uint32_t barrier, uint32_t parity) {
    asm volatile("{\n"
                 ".reg .pred ended;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
                 "@ended bra done;\n"
                 "bra again;\n"
                 "done:\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* Synchronises the threads of one warpgroup; `name` is a barrier of the block other than 0. */
static __device__ __forceinline__ void group_sync(int name) {
    asm volatile("bar.sync %0, 128;" ::"r"(name) : "memory");
}

/* A warpgroup releases registers, or takes those that others released. */
template <int N> static __device__ __forceinline__ void fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> static __device__ __forceinline__ void more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
#endif
