/* hold.cu - one thread that waits, and with it the kernels queued behind it. */
#include "device/cuda/runtime/common.cuh"

static __global__ void wait_for(uint64_t nanoseconds) {
    uint64_t begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - begin < nanoseconds);
}

extern "C" void tri__cuda_hold(void *context, double seconds) {
    tri_cuda *c = (tri_cuda *)context;
    wait_for<<<1, 1, 0, c->compute>>>((uint64_t)(1e9 * seconds));
    tri__cuda_note(c, cudaGetLastError(), "a wait");
}
