/* update.cu - the end of a step: the gradients' norm and clipping. Whether the step is applied is read on the device:
 * the host does not wait for the norm. */
#include "device/cuda/elementwise/map.cuh"

enum {
    THREADS = 256,
    SUM_BLOCKS = 1056
}; /* 8 blocks for each of 132 multiprocessors: fixed, so that sums are the same everywhere */

template <typename T> static __global__ void sumsq_parts(int64_t n, double *part, const T *x, int is_wide) {
    double sum = 0;
    if (is_wide)
        for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * WIDE; i + WIDE <= n;
             i += (int64_t)SUM_BLOCKS * THREADS * WIDE) {
            float v[WIDE], squares = 0;
            load<WIDE>(x + i, v);
#pragma unroll
            for (int k = 0; k < WIDE; k++) squares = fmaf(v[k], v[k], squares);
            sum += squares;
        }
    int64_t rest = is_wide ? n / WIDE * WIDE : 0; /* the first element not summed above */
    for (int64_t i = rest + (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)SUM_BLOCKS * THREADS)
        sum += (double)wide(x[i]) * wide(x[i]);
    sum = block_sum(sum);
    if (threadIdx.x == 0) part[blockIdx.x] = sum;
}

static __global__ void sumsq_end(double *sum, const double *part, int add) {
    double total = 0;
    for (int i = threadIdx.x; i < SUM_BLOCKS; i += THREADS) total += part[i];
    total = block_sum(total);
    if (threadIdx.x == 0) *sum = (add ? *sum : 0) + total;
}

static void sumsq(const tri_call *call) {
    OPERANDS(sumsq);
    double *part = static_cast<double *>(call->work); /* [SUM_BLOCKS] */
    by_type(call->dtype[ARG(x)], [&](auto x) {
        queue(call, "sumsq", sumsq_parts<decltype(x)>, SUM_BLOCKS, THREADS, elements(call, ARG(x)), part, GIVEN(x),
              aligned(call->t[ARG(x)].data));
    });
    queue(call, "sumsq", sumsq_end, 1, THREADS, GIVEN(sum), part, adds(call, ARG(sum)));
}

/* sums [n], added in order: n is the number of a model's units. */
static __global__ void clip_kernel(float *coef, int32_t *apply, double *norm, const double *sums, int64_t n,
                                   const float *scale, float max_norm) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += sums[i];
    double by = scale ? *scale : 1.0, length = sqrt(sum) / by;
    *coef = (float)((max_norm > 0 && length > max_norm ? max_norm / (length + 1e-6) : 1.0) / by);
    *apply = isfinite(length);
    *norm = length;
}

static void clip(const tri_call *call) {
    OPERANDS(clip);
    queue(call, "clip", clip_kernel, 1, 1, GIVEN(coef), GIVEN(apply), GIVEN(norm), GIVEN(sums),
          call->t[ARG(sums)].cols, GIVEN(scale), call->attr->max_norm);
}

/* skip has its operands in this order, too. */
template <typename T> static void accumulate(const tri_call *call) {
    OPERANDS(accumulate);
    map1<same_op, T, T>(call, ARG(y), ARG(x), "accumulate");
}

/* Of any type. */
static void zero(const tri_call *call) {
    OPERANDS(zero);
    size_t size = call->attr->balance ? sizeof(double) : call->dtype[ARG(y)] == TRI_F32 ? sizeof(float) : sizeof(bf16);
    if (elements(call, ARG(y)) == 0) return;
    cudaMemsetAsync(call->t[ARG(y)].data, 0, (size_t)elements(call, ARG(y)) * size, stream(call));
    launched(call, "zero");
}

TRI_CUDA_FAMILY(update) = {
    TRI_CUDA_ROWS(TRI_OP_accumulate, accumulate, {}),
    TRI_CUDA_ROWS(TRI_OP_skip, accumulate, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_zero, zero, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_sumsq, sumsq, {8 * SUM_BLOCKS, 0, 0, 0, 0}),
    TRI_CUDA_SAME_ROWS(TRI_OP_clip, clip, {}),
    {},
};
