/* norm.cu - layer normalisation (Ba, Kiros and Hinton, 2016), alone and with the preceding dropout and residual. One,
 * two or four warps hold a row in registers, so that every operand is read once; rows that are too wide or unaligned
 * are read again for each sum. */
#include "device/cuda/common.cuh"

enum {
    ROW_WARPS = 4,
    MOST_PACKS = 3
}; /* warps of a block; packs of 8 elements per lane: rows of up to 3072 by four warps */

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

typedef struct norm_args {
    const void *x, *res, *g, *b; /* [T,H] [T,H] or NULL, [H] [H] or NULL */
    void *y, *xhat;              /* [T,H]; xhat may be NULL */
    float *rstd;                 /* [T] or NULL */
    const int32_t *key;          /* [T,2] or NULL */
    const float *s;              /* [1] the factor of x before dropout; NULL: none */
    int64_t rows, cols;
    float eps;
    dropper drop;
} norm_args;

/* PACKS packs per lane of the row's W warps; pack k of a lane is at column 8 * (lane + 32 W k). */
template <typename T, int W, int PACKS>
static __global__ void __launch_bounds__(ROW_WARPS *WARP) norm_kernel(norm_args a) {
    enum { LANES = W * WARP };
    int64_t t = (int64_t)blockIdx.x * (ROW_WARPS / W) + threadIdx.x / LANES;
    int lane = threadIdx.x % LANES, packs = t < a.rows ? (int)(a.cols / WIDE) : 0;
    const T *x = (const T *)a.x + t * a.cols, *res = a.res ? (const T *)a.res + t * a.cols : nullptr;
    float v[PACKS][WIDE], mean = 0, square = 0, factor = a.s ? *a.s : 1.0f;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int at = lane + LANES * k;
#pragma unroll
        for (int i = 0; i < WIDE; i++) v[k][i] = 0;
        if (at < packs) {
            load<WIDE>(x + at * WIDE, v[k]);
#pragma unroll
            for (int i = 0; i < WIDE; i++) v[k][i] *= factor;
            drop(a.drop, a.key, t, (uint32_t)at, v[k]);
            if (res) {
                float more[WIDE];
                load<WIDE>(res + at * WIDE, more);
#pragma unroll
                for (int i = 0; i < WIDE; i++) v[k][i] += more[i];
            }
        }
#pragma unroll
        for (int i = 0; i < WIDE; i++) mean += v[k][i];
    }
    mean = row_sum<W>(mean, 0) / (float)a.cols;
#pragma unroll
    for (int k = 0; k < PACKS; k++)
#pragma unroll
        for (int i = 0; i < WIDE; i++) square += lane + LANES * k < packs ? (v[k][i] - mean) * (v[k][i] - mean) : 0.0f;
    float rstd = 1.0f / sqrtf(row_sum<W>(square, 1) / (float)a.cols + a.eps);
    if (a.rstd && lane == 0 && packs) a.rstd[t] = rstd;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int at = lane + LANES * k;
        if (at >= packs) continue;
        float g[WIDE], b[WIDE] = {};
        load<WIDE>((const T *)a.g + at * WIDE, g);
        if (a.b) load<WIDE>((const T *)a.b + at * WIDE, b);
#pragma unroll
        for (int i = 0; i < WIDE; i++) v[k][i] = (v[k][i] - mean) * rstd;
        if (a.xhat) store<WIDE>((T *)a.xhat + t * a.cols + at * WIDE, v[k]);
#pragma unroll
        for (int i = 0; i < WIDE; i++) v[k][i] = fmaf(v[k][i], g[i], b[i]);
        store<WIDE>((T *)a.y + t * a.cols + at * WIDE, v[k]);
    }
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

/* Warps for a row of that many columns; 0: only the plain kernel supports it. */
static int warps_for(int64_t cols, int all_aligned) {
    if (cols % WIDE != 0 || !all_aligned) return 0;
    for (int warps = 1; warps <= ROW_WARPS; warps *= 2)
        if (cols <= (int64_t)warps * WARP * WIDE * MOST_PACKS) return warps;
    return 0;
}

/* Launches norm_kernel<T, warps, packs>, or norm_any_kernel<T> for 0 warps. */
#define LAUNCH_PACKS(call, W, args) \
    switch (blocks_for((args).cols, W * WARP * WIDE)) { \
    case 1: \
        norm_kernel<T, W, 1><<<blocks_for((args).rows, ROW_WARPS / W), ROW_WARPS * WARP, 0, stream(call)>>>(args); \
        break; \
    case 2: \
        norm_kernel<T, W, 2><<<blocks_for((args).rows, ROW_WARPS / W), ROW_WARPS * WARP, 0, stream(call)>>>(args); \
        break; \
    default: \
        norm_kernel<T, W, MOST_PACKS> \
            <<<blocks_for((args).rows, ROW_WARPS / W), ROW_WARPS * WARP, 0, stream(call)>>>(args); \
    }

template <typename T> static void norm_rows(const tri_call *call, norm_args a) {
    OPERANDS(norm); /* dropout_add_norm has y first, too */
    a.rows = call->t[ARG(y)].rows, a.cols = call->t[ARG(y)].cols, a.eps = call->attr->eps;
    if (a.rows * a.cols == 0) return;
    int warps = warps_for(a.cols, aligned(a.x) && aligned(a.res) && aligned(a.g) && aligned(a.b) && aligned(a.y) &&
                                      aligned(a.xhat));
    switch (warps) {
    case 0: norm_any_kernel<T><<<(unsigned)a.rows, 128, 0, stream(call)>>>(a); break;
    case 1: LAUNCH_PACKS(call, 1, a) break;
    case 2: LAUNCH_PACKS(call, 2, a) break;
    default: LAUNCH_PACKS(call, 4, a)
    }
    launched(call, "norm");
}

template <typename T> static void norm(const tri_call *call) {
    OPERANDS(norm);
    norm_args a = {};
    a.x = call->t[ARG(x)].data, a.g = call->t[ARG(g)].data, a.b = call->t[ARG(b)].data;
    a.y = call->t[ARG(y)].data, a.xhat = call->t[ARG(xhat)].data, a.rstd = data<float>(call, ARG(rstd));
    norm_rows<T>(call, a);
}

template <typename T> static void dropout_add_norm(const tri_call *call) {
    OPERANDS(dropout_add_norm);
    norm_args a = {};
    a.x = call->t[ARG(x)].data, a.res = call->t[ARG(res)].data, a.g = call->t[ARG(g)].data, a.b = call->t[ARG(b)].data;
    a.y = call->t[ARG(y)].data, a.xhat = call->t[ARG(xhat)].data, a.rstd = data<float>(call, ARG(rstd));
    a.key = data<int32_t>(call, ARG(key)), a.drop = dropper_of(call), a.s = data<float>(call, ARG(s));
    norm_rows<T>(call, a);
}

const tri_kernel_row tri__cuda_norm[] = {
    TRI_CUDA_ROWS(TRI_OP_norm, norm, {}),
    TRI_CUDA_ROWS(TRI_OP_dropout_add_norm, dropout_add_norm, {}),
    {},
};
