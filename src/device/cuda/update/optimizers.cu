/* optimizers.cu - AdamW (Loshchilov and Hutter, 2019) in PyTorch's order: decay, moments, step; Adam, SGD, LAMB (You et
 * al., 2020) and 1-bit LAMB (Li et al., 2021), on masters and states in fp32. */
#include "device/cuda/update/each.cuh"
#include "numbers/trust.h"

/* A step's rates, from hyper and coef. */
typedef struct rates {
    float lr, step, root, coef; /* step: lr / c1; root: 1 / sqrt(c2) */
} rates;
/* factor: of the learning rate, for these elements */
static __device__ __forceinline__ rates rates_of(const float *hyper, const float *coef, float factor) {
    float lr = hyper[0] * factor;
    return rates{lr, lr / hyper[1], rsqrtf(hyper[2]), coef ? *coef : 1.0f};
}

typedef struct moments {
    float beta1, beta2, eps, decay, factor; /* factor: of the learning rate */
} moments;
static moments moments_of(const tri_call *call) {
    return moments{call->attr->beta1, call->attr->beta2, call->attr->eps, call->attr->decay,
                   tri__rate_factor(call->attr)};
}
static __device__ __forceinline__ void add_moments(float &m, float &v, float g, const moments &a) {
    m = fmaf(a.beta1, m, (1.0f - a.beta1) * g);
    v = fmaf(a.beta2, v, (1.0f - a.beta2) * g * g);
}

/* COUPLED: Adam, whose decay is part of the gradient. */
template <typename G, typename C, bool COUPLED> struct adam_update {
    typedef rates now;
    float *p, *m, *v;         /* [K] each */
    C *copy;                  /* [K] p in the type of its copy; NULL: none */
    const G *g;               /* [K] */
    const float *hyper, *coef;
    moments a;
    __device__ __forceinline__ now begin() const { return rates_of(hyper, coef, a.factor); }
    template <int N> __device__ __forceinline__ void at(int64_t i, const now &s) const {
        float P[N], M[N], V[N], Gr[N];
        load<N>(p + i, P), load<N>(m + i, M), load<N>(v + i, V), load<N>(g + i, Gr);
#pragma unroll
        for (int k = 0; k < N; k++) {
            add_moments(M[k], V[k], COUPLED ? fmaf(a.decay, P[k], Gr[k] * s.coef) : Gr[k] * s.coef, a);
            if (!COUPLED) P[k] = fmaf(-s.lr * a.decay, P[k], P[k]);
            P[k] -= s.step * M[k] / (sqrtf(V[k]) * s.root + a.eps);
        }
        store<N>(p + i, P), store<N>(m + i, M), store<N>(v + i, V);
        if (copy) store<N>(copy + i, P);
    }
};

template <bool COUPLED, typename G, typename C> static void adam_to(const tri_call *call) {
    OPERANDS(adamw);
    adam_update<G, C, COUPLED> f = {GIVEN(p), GIVEN(m),     GIVEN(v),    GIVEN(copy),
                                    GIVEN(g), GIVEN(hyper), GIVEN(coef), moments_of(call)};
    each(call, elements(call, ARG(p)), GIVEN(apply), f, aligned(f.p, f.m, f.v, f.copy, f.g), "adamw");
}

static void adamw(const tri_call *call) {
    OPERANDS(adamw);
    int type = call->attr->copy ? call->dtype[ARG(copy)] : (int)TRI_F32;
    by_type(call->dtype[ARG(g)], [&](auto g) {
        if (call->attr->coupled) adam_to<true, decltype(g), float>(call);
        else by_type(type, [&](auto copy) { adam_to<false, decltype(g), decltype(copy)>(call); });
    });
}

template <typename G> struct sgd_update {
    typedef rates now;
    float *p, *m;             /* [K] each; m NULL: no momentum */
    const G *g;               /* [K] */
    const float *hyper, *coef;
    float momentum, decay;
    int nesterov;
    float factor;             /* of the learning rate */
    __device__ __forceinline__ now begin() const { return rates_of(hyper, coef, factor); }
    template <int N> __device__ __forceinline__ void at(int64_t i, const now &s) const {
        float P[N], M[N] = {}, Gr[N];
        load<N>(p + i, P), load<N>(g + i, Gr);
        if (m) load<N>(m + i, M);
#pragma unroll
        for (int k = 0; k < N; k++) {
            float by = fmaf(decay, P[k], Gr[k] * s.coef);
            M[k] = fmaf(momentum, M[k], by);
            P[k] = fmaf(-s.lr, !m ? by : nesterov ? fmaf(momentum, M[k], by) : M[k], P[k]);
        }
        store<N>(p + i, P);
        if (m) store<N>(m + i, M);
    }
};

static void sgd(const tri_call *call) {
    OPERANDS(sgd);
    const tri_attr *attr = call->attr;
    by_type(call->dtype[ARG(g)], [&](auto g) {
        sgd_update<decltype(g)> f = {GIVEN(p),    GIVEN(m),    GIVEN(g),    GIVEN(hyper),   GIVEN(coef),
                                     attr->beta1, attr->decay, attr->nesterov, tri__rate_factor(attr)};
        each(call, elements(call, ARG(p)), GIVEN(apply), f, aligned(f.p, f.m, f.g), "sgd");
    });
}

static __device__ __forceinline__ float limited(float r) { return fminf(fmaxf(r, -1), 1); }

/* LAMB's direction; LIMITED: that of a decoded momentum. c1: its inverse. */
template <bool LIMITED = false>
static __device__ __forceinline__ float direction(float p, float m, float v, float c1, float root, const moments &a) {
    float r = m * c1 / (sqrtf(v) * root + a.eps);
    return fmaf(a.decay, p, LIMITED ? limited(r) : r);
}

enum {
    LAMB_THREADS = 256,
    LAMB_WIDE = 4,
    LAMB_BLOCKS = 1056
}; /* 8 blocks for each of 132 multiprocessors: fixed, so that sums are the same everywhere */

template <typename G> struct lamb_args {
    int64_t n;
    double *sums, *part;      /* [2] or NULL; [blocks, 2] */
    float *m, *v;             /* [K] each */
    const float *p;           /* [K] */
    const G *g;               /* [K] */
    const float *hyper, *coef;
    const int32_t *apply;
    moments a;
};

template <int N, typename G>
static __device__ __forceinline__ void lamb_at(const lamb_args<G> &f, int64_t i, const rates &s, float c1, int apply,
                                               double (&sum)[2]) {
    float P[N], M[N], V[N], Gr[N];
    load<N>(f.p + i, P), load<N>(f.m + i, M), load<N>(f.v + i, V), load<N>(f.g + i, Gr);
#pragma unroll
    for (int k = 0; k < N; k++) {
        if (apply) add_moments(M[k], V[k], Gr[k] * s.coef, f.a);
        double r = direction(P[k], M[k], V[k], c1, s.root, f.a), p = P[k];
        sum[0] = fma(p, p, sum[0]), sum[1] = fma(r, r, sum[1]);
    }
    if (apply) store<N>(f.m + i, M), store<N>(f.v + i, V);
}

template <typename G, int N> static __global__ void lamb_moments_kernel(lamb_args<G> f) {
    double sum[2] = {0, 0};
    rates s = rates_of(f.hyper, f.coef, 1);
    float c1 = 1.0f / f.hyper[1];
    int apply = *f.apply;
    for (int64_t i = ((int64_t)blockIdx.x * LAMB_THREADS + threadIdx.x) * N; i < f.n;
         i += (int64_t)gridDim.x * LAMB_THREADS * N)
        if (i + N <= f.n) lamb_at<N>(f, i, s, c1, apply, sum);
        else
            for (int64_t k = i; k < f.n; k++) lamb_at<1>(f, k, s, c1, apply, sum);
    if (!f.sums) return;
    sum[0] = block_sum(sum[0]), sum[1] = block_sum(sum[1]);
    if (threadIdx.x < 2) f.part[2 * blockIdx.x + threadIdx.x] = sum[threadIdx.x];
}

/* part [n, 2] */
static __global__ void lamb_sums_kernel(double *sums, const double *part, int n, int add) {
    double total[2] = {0, 0};
    for (int i = threadIdx.x; i < n; i += LAMB_THREADS) total[0] += part[2 * i], total[1] += part[2 * i + 1];
    total[0] = block_sum(total[0]), total[1] = block_sum(total[1]);
    if (threadIdx.x < 2) sums[threadIdx.x] = (add ? sums[threadIdx.x] : 0) + total[threadIdx.x];
}

/* Blocks of threads that take turns at n elements. */
static unsigned lamb_blocks(int64_t n, int each) {
    return min(blocks_for(n, LAMB_THREADS * each), (unsigned)LAMB_BLOCKS);
}

static void lamb_moments(const tri_call *call) {
    OPERANDS(lamb_moments);
    by_type(call->dtype[ARG(g)], [&](auto g) {
        lamb_args<decltype(g)> f = {elements(call, ARG(p)), GIVEN(sums), static_cast<double *>(call->work),
                                    GIVEN(m),               GIVEN(v),    GIVEN(p),
                                    GIVEN(g),               GIVEN(hyper), GIVEN(coef),
                                    GIVEN(apply),           moments_of(call)};
        by_width<LAMB_WIDE>(aligned(f.p, f.m, f.v, f.g), [&](auto wide) {
            unsigned blocks = lamb_blocks(f.n, wide);
            if (blocks) queue(call, "lamb_moments", lamb_moments_kernel<decltype(g), wide>, blocks, LAMB_THREADS, f);
            if (f.sums)
                queue(call, "lamb_moments", lamb_sums_kernel, 1, LAMB_THREADS, f.sums, f.part, (int)blocks,
                      adds(call, ARG(sums)));
        });
    });
}

template <bool LIMITED> struct lamb_update {
    struct now {
        float by, c1, root;   /* by: lr * ratio */
    };
    float *p;                 /* [K] */
    const float *m, *v;       /* [K] each */
    const float *hyper;
    const double *sums;       /* LAMB's [2], or NULL: the ratio is 1; those of lamb_refresh [3], with an average */
    const float *average, *factor; /* [1] each; NULL */
    moments a;
    __device__ __forceinline__ now begin() const {
        double ratio = average ? tri__frozen_ratio(*average, *factor, sums)
                               : sums && sums[0] > 0 && sums[1] > 0 ? sqrt(sums[0] / sums[1]) : 1.0;
        return now{(float)(hyper[0] * a.factor * ratio), 1.0f / hyper[1], rsqrtf(hyper[2])};
    }
    template <int N> __device__ __forceinline__ void at(int64_t i, const now &s) const {
        float P[N], M[N], V[N];
        load<N>(p + i, P), load<N>(m + i, M), load<N>(v + i, V);
#pragma unroll
        for (int k = 0; k < N; k++) P[k] = fmaf(-s.by, direction<LIMITED>(P[k], M[k], V[k], s.c1, s.root, a), P[k]);
        store<N>(p + i, P);
    }
};

template <bool FROZEN> static void lamb_step_of(const tri_call *call) {
    OPERANDS(lamb_step);
    lamb_update<FROZEN> f = {GIVEN(p),    GIVEN(m),       GIVEN(v),      GIVEN(hyper),
                             GIVEN(sums), GIVEN(average), GIVEN(factor), moments_of(call)};
    each(call, elements(call, ARG(p)), GIVEN(apply), f, aligned(f.p, f.m, f.v), "lamb_step");
}
static void lamb_step(const tri_call *call) {
    if (call->attr->frozen) lamb_step_of<true>(call);
    else lamb_step_of<false>(call);
}

/* sums [n, 2] */
static __global__ void lamb_average_kernel(int64_t n, float *average, const double *sums, const int32_t *apply) {
    int64_t k = (int64_t)blockIdx.x * LAMB_THREADS + threadIdx.x;
    if (k >= n || !*apply || !(sums[2 * k] > 0 && sums[2 * k + 1] > 0)) return;
    double ratio = sqrt(sums[2 * k] / sums[2 * k + 1]);
    average[k] = average[k] != 0 ? (float)(TRI_RATIO_KEPT * average[k] + (1 - TRI_RATIO_KEPT) * ratio) : (float)ratio;
}
static void lamb_average(const tri_call *call) {
    OPERANDS(lamb_average);
    queue_each(call, "lamb_average", lamb_average_kernel, elements(call, ARG(average)), LAMB_THREADS, GIVEN(average),
               GIVEN(sums), GIVEN(apply));
}

static __device__ __forceinline__ double within(double x, double least, double most) {
    return x < least ? least : x > most ? most : x;
}

/* sums [n, 3] */
static __global__ void lamb_factor_kernel(int64_t n, float *factor, const double *sums, const double *most,
                                          const int32_t *apply) {
    int64_t k = (int64_t)blockIdx.x * LAMB_THREADS + threadIdx.x;
    if (k >= n || !*apply) return;
    double part = sums[3 * k + 1] > 0 ? fmin(1.0, sqrt(sums[3 * k] / sums[3 * k + 1])) : 0.0;
    double last = factor[k] != 0 ? factor[k] : 1.0;
    double x = within(part * most[k] + (1 - part), TRI_FACTOR_LEAST, TRI_FACTOR_MOST);
    factor[k] = (float)within(x, last * (1 - TRI_FACTOR_CHANGE), last * (1 + TRI_FACTOR_CHANGE));
}
static void lamb_factor(const tri_call *call) {
    OPERANDS(lamb_factor);
    queue_each(call, "lamb_factor", lamb_factor_kernel, elements(call, ARG(factor)), LAMB_THREADS, GIVEN(factor),
               GIVEN(sums), GIVEN(most), GIVEN(apply));
}

struct refresh_args {
    int64_t n;
    double *part;                   /* [blocks, 4] */
    float *fresh;                   /* [K] */
    const float *p, *m, *old, *v;   /* [K] each */
    const float *hyper;
    const int32_t *apply;
    moments a;
};
typedef struct refreshed {
    double sum[3];
    float most;
} refreshed;

template <int N>
static __device__ __forceinline__ void refresh_at(const refresh_args &f, int64_t i, const float (&c)[3], int apply,
                                                  refreshed &out) {
    float P[N], M[N], O[N], V[N], F[N];
    load<N>(f.p + i, P), load<N>(f.m + i, M), load<N>(f.old + i, O), load<N>(f.v + i, V), load<N>(f.fresh + i, F);
#pragma unroll
    for (int k = 0; k < N; k++) {
        float g = fmaf(-f.a.beta1, O[k], M[k]) / (1.0f - f.a.beta1);
        if (apply) F[k] = fmaf(f.a.beta2, F[k], (1.0f - f.a.beta2) * g * g);
        float root = sqrtf(V[k]) * c[1] + f.a.eps, now = sqrtf(F[k]) * c[2] + f.a.eps, r = limited(M[k] * c[0] / root);
        double prelim = r, step = fmaf(f.a.decay, P[k], r), p = P[k];
        out.sum[0] = fma(prelim, prelim, out.sum[0]), out.sum[1] = fma(step, step, out.sum[1]);
        out.sum[2] = fma(p, p, out.sum[2]);
        if (M[k] != 0) out.most = fmaxf(out.most, root / now);
    }
    if (apply) store<N>(f.fresh + i, F);
}

/* The largest over a block's threads. */
static __device__ __forceinline__ float block_most(float x) {
    __shared__ unsigned top;
    if (threadIdx.x == 0) top = 0;
    __syncthreads();
    atomicMax(&top, __float_as_uint(x)); /* x is not negative: its bits have the same order */
    __syncthreads();
    return __uint_as_float(top);
}

template <int N> static __global__ void lamb_refresh_kernel(refresh_args f) {
    refreshed out = {{0, 0, 0}, 0};
    const float c[3] = {1.0f / f.hyper[1], rsqrtf(f.hyper[2]), rsqrtf(f.hyper[3])};
    int apply = *f.apply;
    for (int64_t i = ((int64_t)blockIdx.x * LAMB_THREADS + threadIdx.x) * N; i < f.n;
         i += (int64_t)gridDim.x * LAMB_THREADS * N)
        if (i + N <= f.n) refresh_at<N>(f, i, c, apply, out);
        else
            for (int64_t k = i; k < f.n; k++) refresh_at<1>(f, k, c, apply, out);
    double sums[4] = {block_sum(out.sum[0]), block_sum(out.sum[1]), block_sum(out.sum[2]), block_most(out.most)};
    if (threadIdx.x < 4) f.part[4 * blockIdx.x + threadIdx.x] = sums[threadIdx.x];
}

/* part [n, 4] */
static __global__ void refresh_sums_kernel(double *sums, double *most, const double *part, int n, int add) {
    double total[3] = {0, 0, 0};
    float top = 0;
    for (int i = threadIdx.x; i < n; i += LAMB_THREADS) {
        for (int k = 0; k < 3; k++) total[k] += part[4 * i + k];
        top = fmaxf(top, (float)part[4 * i + 3]);
    }
    for (int k = 0; k < 3; k++) total[k] = block_sum(total[k]);
    top = block_most(top);
    if (threadIdx.x == 0) *most = top;
    if (sums && threadIdx.x < 3) sums[threadIdx.x] = (add ? sums[threadIdx.x] : 0) + total[threadIdx.x];
}

static void lamb_refresh(const tri_call *call) {
    OPERANDS(lamb_refresh);
    refresh_args f = {elements(call, ARG(p)), static_cast<double *>(call->work),
                      GIVEN(fresh),           GIVEN(p),
                      GIVEN(m),               GIVEN(old),
                      GIVEN(v),               GIVEN(hyper),
                      GIVEN(apply),           moments_of(call)};
    by_width<LAMB_WIDE>(aligned(f.fresh, f.p, f.m, f.old, f.v), [&](auto wide) {
        unsigned blocks = lamb_blocks(f.n, wide);
        if (blocks) queue(call, "lamb_refresh", lamb_refresh_kernel<wide>, blocks, LAMB_THREADS, f);
        queue(call, "lamb_refresh", refresh_sums_kernel, 1, LAMB_THREADS, GIVEN(sums), GIVEN(most), f.part,
              (int)blocks, adds(call, ARG(sums)));
    });
}

TRI_CUDA_FAMILY(optimizers) = {
    TRI_CUDA_SAME_ROWS(TRI_OP_adamw, adamw, {}),
    TRI_CUDA_SAME_FACT_ROWS(TRI_FACT_COUPLED, TRI_OP_adamw, adamw, {}),
    TRI_CUDA_SAME_FACT_ROWS(TRI_FACT_COPY, TRI_OP_adamw, adamw, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_sgd, sgd, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_lamb_moments, lamb_moments, {2 * 8 * LAMB_BLOCKS, 0, 0, 0, 0}),
    TRI_CUDA_SAME_ROWS(TRI_OP_lamb_step, lamb_step, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_lamb_average, lamb_average, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_lamb_refresh, lamb_refresh, {4 * 8 * LAMB_BLOCKS, 0, 0, 0, 0}),
    TRI_CUDA_SAME_ROWS(TRI_OP_lamb_factor, lamb_factor, {}),
    {},
};
