/* norm.cu - layer normalisation (Ba, Kiros and Hinton, 2016), alone and with the preceding dropout and residual. One,
 * two or four warps hold a row in registers, so that every operand is read once; rows that are too wide or unaligned
 * are read again for each sum. */
#include "device/cuda/elementwise/norm.cuh"

/* Sums over the W warps of a row, with all threads of the block; `turn` alternates between consecutive sums of a
 * kernel. */
template <int W> static __device__ __forceinline__ float row_sum(float x, int turn) {
    __shared__ float part[2][ROW_WARPS];
    x = warp_sum(x);
    if (W == 1) return x;
    int warp = threadIdx.x / WARP;
    if (threadIdx.x % WARP == 0) part[turn][warp] = x;
    __syncthreads();
    x = 0;
#pragma unroll
    for (int w = 0; w < W; w++) x += part[turn][warp / W * W + w];
    return x;
}

template <typename T, int W, int PACKS>
static __global__ void __launch_bounds__(ROW_WARPS *WARP) norm_kernel(norm_args a) {
    int64_t t = (int64_t)blockIdx.x * (ROW_WARPS / W) + threadIdx.x / (W * WARP);
    norm_row<T, W, PACKS>(
        a, t, threadIdx.x % (W * WARP), t < a.rows ? (int)(a.cols / WIDE) : 0,
        [](float x, int turn) { return row_sum<W>(x, turn); }, [](int, const pack<T, WIDE> &) {});
}

/* Any width, any alignment: one block per row. */
template <typename T> static __global__ void norm_any_kernel(norm_args a) {
    int64_t t = blockIdx.x;
    const T *x = (const T *)a.x + t * a.cols, *res = a.res ? (const T *)a.res + t * a.cols : nullptr;
    float mean = 0, square = 0, factor = a.s ? *a.s : 1.0f;
    auto at = [&](int64_t c) {
        return kept(a.drop, a.key, t, (uint32_t)c) * factor * wide(x[c]) + (res ? wide(res[c]) : 0.0f);
    };
    for (int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) mean += at(c);
    mean = block_sum(mean) / (float)a.cols;
    for (int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) square += (at(c) - mean) * (at(c) - mean);
    float rstd = 1.0f / sqrtf(block_sum(square) / (float)a.cols + a.eps);
    if (a.rstd && threadIdx.x == 0) a.rstd[t] = rstd;
    for (int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) {
        float xhat = (at(c) - mean) * rstd;
        if (a.xhat) ((T *)a.xhat)[t * a.cols + c] = narrow<T>(xhat);
        ((T *)a.y)[t * a.cols + c] =
            narrow<T>(fmaf(xhat, wide(((const T *)a.g)[c]), a.b ? wide(((const T *)a.b)[c]) : 0.0f));
    }
}

template <typename T, int W> static void norm_by(const tri_call *call, const norm_args &a) {
    void (*const kernel[])(norm_args) = {norm_kernel<T, W, 1>, norm_kernel<T, W, 2>, norm_kernel<T, W, MOST_PACKS>};
    unsigned packs = blocks_for(a.cols, W * WARP * WIDE);
    queue(call, "norm", kernel[min(packs, (unsigned)MOST_PACKS) - 1], blocks_for(a.rows, ROW_WARPS / W),
          ROW_WARPS * WARP, a);
}

template <typename T> static void norm(const tri_call *call) {
    norm_args a = norm_args_of(call);
    if (a.rows * a.cols == 0) return;
    switch (warps_for(a.cols, norm_aligned(a))) {
    case 0: queue(call, "norm", norm_any_kernel<T>, (unsigned)a.rows, 128, a); break;
    case 1: norm_by<T, 1>(call, a); break;
    case 2: norm_by<T, 2>(call, a); break;
    default: norm_by<T, 4>(call, a);
    }
}

TRI_CUDA_FAMILY(norm) = {
    TRI_CUDA_ROWS(TRI_OP_norm, norm, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_ALONE, TRI_OP_norm, norm, {}),
    {},
};
