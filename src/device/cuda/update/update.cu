/* update.cu - the end of a step: the gradients' norm, clipping, and AdamW (Loshchilov and Hutter, 2019) in PyTorch's
 * order: decay, moments, step. Whether the step is applied is read on the device: the host does not wait for the
 * norm. */
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

template <typename T> static void sumsq_of(const tri_call *call) {
    OPERANDS(sumsq);
    const T *x = data<T>(call, ARG(x));               /* [K] */
    double *part = static_cast<double *>(call->work); /* [SUM_BLOCKS] */
    sumsq_parts<T><<<SUM_BLOCKS, THREADS, 0, stream(call)>>>(elements(call, ARG(x)), part, x, aligned(x));
    sumsq_end<<<1, THREADS, 0, stream(call)>>>(data<double>(call, ARG(sum)), part, adds(call, ARG(sum)));
    launched(call, "sumsq");
}

static void sumsq(const tri_call *call) {
    OPERANDS(sumsq);
    if (call->dtype[ARG(x)] == TRI_F32) sumsq_of<float>(call);
    else if (call->dtype[ARG(x)] == TRI_BF16) sumsq_of<bf16>(call);
    else sumsq_of<f16>(call);
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
    clip_kernel<<<1, 1, 0, stream(call)>>>(
        data<float>(call, ARG(coef)), data<int32_t>(call, ARG(apply)), data<double>(call, ARG(norm)),
        data<double>(call, ARG(sums)), call->t[ARG(sums)].cols, data<float>(call, ARG(scale)), call->attr->max_norm);
    launched(call, "clip");
}

typedef struct moments {
    float beta1, beta2, eps, decay, factor; /* factor: of the learning rate */
} moments;

/* The same operations in the same order for every element, so that an element's bits do not depend on where a shard
 * begins. */
static __device__ __forceinline__ void adamw_at(float &p, float &m, float &v, float g, const moments &a, float lr,
                                                float step, float root) {
    m = fmaf(a.beta1, m, (1.0f - a.beta1) * g);
    v = fmaf(a.beta2, v, (1.0f - a.beta2) * g * g);
    p = fmaf(-lr * a.decay, p, p) - step * m / (sqrtf(v) * root + a.eps);
}

template <typename G, typename C, int N>
static __global__ void adamw_kernel(int64_t n, float *p, float *m, float *v, C *copy, const G *g, const float *hyper,
                                    const float *coef, const int32_t *apply, moments a) {
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (!*apply || i >= n) return;
    float lr = hyper[0] * a.factor, step = lr / hyper[1], root = rsqrtf(hyper[2]), by = *coef;
    if (i + N <= n) {
        float P[N], M[N], V[N], Gr[N];
        load<N>(p + i, P), load<N>(m + i, M), load<N>(v + i, V), load<N>(g + i, Gr);
#pragma unroll
        for (int k = 0; k < N; k++) adamw_at(P[k], M[k], V[k], Gr[k] * by, a, lr, step, root);
        store<N>(p + i, P), store<N>(m + i, M), store<N>(v + i, V);
        if (copy) store<N>(copy + i, P);
    } else
        for (; i < n; i++) {
            adamw_at(p[i], m[i], v[i], wide(g[i]) * by, a, lr, step, root);
            if (copy) copy[i] = narrow<C>(p[i]);
        }
}

enum { UPDATE_WIDE = 4 };

/* `gradient` is the index of operand g, followed by hyper, coef and apply; `copy` that of the operand that receives the
 * new weights, 0: none. */
template <typename G, typename C> static void update(const tri_call *call, int copy, int gradient) {
    OPERANDS(adamw);
    int64_t n = elements(call, ARG(p));
    int after = gradient - ARG(g);
    if (n == 0) return;
    float *p = data<float>(call, ARG(p)), *m = data<float>(call, ARG(m)), *v = data<float>(call, ARG(v)); /* [K] */
    const G *g = data<G>(call, gradient);                                                                 /* [K] */
    C *to = copy ? data<C>(call, copy) : nullptr;                                                         /* [K] */
    const float *hyper = data<float>(call, after + ARG(hyper)), *coef = data<float>(call, after + ARG(coef));
    const int32_t *apply = data<int32_t>(call, after + ARG(apply));
    moments a = {call->attr->beta1, call->attr->beta2, call->attr->eps, call->attr->decay,
                 tri__rate_factor(call->attr)};
    int wide_ok = aligned(p) && aligned(m) && aligned(v) && aligned(g) && aligned(to);
    if (wide_ok)
        adamw_kernel<G, C, UPDATE_WIDE><<<blocks_for(n, THREADS * UPDATE_WIDE), THREADS, 0, stream(call)>>>(
            n, p, m, v, to, g, hyper, coef, apply, a);
    else
        adamw_kernel<G, C, 1>
            <<<blocks_for(n, THREADS), THREADS, 0, stream(call)>>>(n, p, m, v, to, g, hyper, coef, apply, a);
    launched(call, "adamw");
}

template <typename G> static void update_copy(const tri_call *call, int copy, int gradient) {
    if (call->dtype[copy] == TRI_F32) update<G, float>(call, copy, gradient);
    else if (call->dtype[copy] == TRI_BF16) update<G, bf16>(call, copy, gradient);
    else update<G, f16>(call, copy, gradient);
}

static void adamw(const tri_call *call) {
    OPERANDS(adamw);
    if (call->dtype[ARG(g)] == TRI_F32) update<float, float>(call, 0, ARG(g));
    else if (call->dtype[ARG(g)] == TRI_BF16) update<bf16, float>(call, 0, ARG(g));
    else update<f16, float>(call, 0, ARG(g));
}

static void adamw_copy(const tri_call *call) {
    OPERANDS(adamw_copy);
    if (call->dtype[ARG(g)] == TRI_F32) update_copy<float>(call, ARG(copy), ARG(g));
    else if (call->dtype[ARG(g)] == TRI_BF16) update_copy<bf16>(call, ARG(copy), ARG(g));
    else update_copy<f16>(call, ARG(copy), ARG(g));
}

/* skip has its operands in this order, too. */
template <typename T> static void accumulate(const tri_call *call) {
    OPERANDS(accumulate);
    map1<same_op, T, T>(call, ARG(y), ARG(x), "accumulate");
}

template <typename T> static void zero(const tri_call *call) {
    OPERANDS(zero);
    if (elements(call, ARG(y)) == 0) return;
    cudaMemsetAsync(data<T>(call, ARG(y)), 0, (size_t)elements(call, ARG(y)) * sizeof(T), stream(call));
    launched(call, "zero");
}

TRI_CUDA_FAMILY(update) = {
    TRI_CUDA_ROWS(TRI_OP_accumulate, accumulate, {}),
    TRI_CUDA_ROWS(TRI_OP_skip, accumulate, {}),
    TRI_CUDA_ROWS(TRI_OP_zero, zero, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_sumsq, sumsq, {8 * SUM_BLOCKS, 0, 0, 0, 0}),
    TRI_CUDA_SAME_ROWS(TRI_OP_clip, clip, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_adamw, adamw, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_adamw_copy, adamw_copy, {}),
    {},
};
