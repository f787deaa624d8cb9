/* each.cuh - updates that change every element by itself, if the step is applied: optimizers, momenta, copies. A thread
 * handles 4 elements in wide accesses if alignment allows, else one.
 *
 * An update F has
 *   F::now              what all elements share; `F::now begin() const` reads it from GPU memory
 *   void at<N>(i, now) const   updates elements i .. i + N - 1
 * Each element gets the same operations in the same order whatever N, so that its bits do not depend on where a shard
 * begins. */
#pragma once

#include "device/cuda/runtime/common.cuh"

enum { EACH_THREADS = 256, EACH_WIDE = 4, EACH_BLOCKS = 32 * 132 }; /* threads take several turns at large operands */

template <class F, int N> static __global__ void each_kernel(int64_t n, const int32_t *apply, F f) {
    if (apply && !*apply) return;
    typename F::now now = f.begin();
    for (int64_t i = ((int64_t)blockIdx.x * EACH_THREADS + threadIdx.x) * N; i < n;
         i += (int64_t)gridDim.x * EACH_THREADS * N)
        if (i + N <= n) f.template at<N>(i, now);
        else
            for (int64_t k = i; k < n; k++) f.template at<1>(k, now);
}

/* apply: [1] on the GPU; NULL: always. wide_ok: all of f's operands are aligned to 4 elements. */
template <class F>
static void each(const tri_call *call, int64_t n, const int32_t *apply, const F &f, int wide_ok, const char *name) {
    if (n == 0) return;
    by_width<EACH_WIDE>(wide_ok, [&](auto wide) {
        unsigned blocks = blocks_for(n, EACH_THREADS * wide);
        queue(call, name, each_kernel<F, wide>, min(blocks, (unsigned)EACH_BLOCKS), EACH_THREADS, n, apply, f);
    });
}
