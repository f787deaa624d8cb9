/* outer.cu - copies of the model that step alone: how far a copy went, the step along the mean of all, and taking
 * it. Beside them, averages of weights, and other plain copies of an update: commit, swap. */
#include "device/cuda/update/each.cuh"

struct nothing {};

template <typename D> struct local_delta_update {
    typedef nothing now;
    D *d;                     /* [K] */
    const float *anchor, *p;  /* [K] each */
    __device__ __forceinline__ now begin() const { return now{}; }
    template <int N> __device__ __forceinline__ void at(int64_t i, const now &) const {
        float A[N], P[N];
        load<N>(anchor + i, A), load<N>(p + i, P);
#pragma unroll
        for (int k = 0; k < N; k++) A[k] -= P[k];
        store<N>(d + i, A);
    }
};

static void local_delta(const tri_call *call) {
    OPERANDS(local_delta);
    by_type(call->dtype[ARG(d)], [&](auto d) {
        local_delta_update<decltype(d)> f = {GIVEN(d), GIVEN(anchor), GIVEN(p)};
        each(call, elements(call, ARG(d)), nullptr, f, aligned(f.d, f.anchor, f.p), "local_delta");
    });
}

/* In double, m and d rounded once, as on the CPU. */
template <typename D> struct outer_step_update {
    typedef nothing now;
    float *m;                 /* [K] */
    D *d;                     /* [K] */
    double beta, rate, members;
    int nesterov;
    __device__ __forceinline__ now begin() const { return now{}; }
    template <int N> __device__ __forceinline__ void at(int64_t i, const now &) const {
        float M[N], Delta[N];
        load<N>(m + i, M), load<N>(d + i, Delta);
#pragma unroll
        for (int k = 0; k < N; k++) {
            double x = Delta[k] / members;
            M[k] = __double2float_rn(beta * M[k] + x);
            Delta[k] = __double2float_rn(rate * (nesterov ? x + beta * M[k] : (double)M[k]));
        }
        store<N>(m + i, M), store<N>(d + i, Delta);
    }
};

static void outer_step(const tri_call *call) {
    OPERANDS(outer_step);
    const tri_attr *attr = call->attr;
    by_type(call->dtype[ARG(d)], [&](auto d) {
        outer_step_update<decltype(d)> f = {GIVEN(m),           GIVEN(d),              (double)attr->beta1,
                                            (double)attr->rate, (double)attr->members, attr->nesterov};
        each(call, elements(call, ARG(m)), GIVEN(apply), f, aligned(f.m, f.d), "outer_step");
    });
}

template <typename D> struct outer_take_update {
    typedef nothing now;
    float *anchor, *p;        /* [K] each */
    const D *d;               /* [K] */
    __device__ __forceinline__ now begin() const { return now{}; }
    template <int N> __device__ __forceinline__ void at(int64_t i, const now &) const {
        float A[N], Delta[N];
        load<N>(anchor + i, A), load<N>(d + i, Delta);
#pragma unroll
        for (int k = 0; k < N; k++) A[k] -= Delta[k];
        store<N>(anchor + i, A), store<N>(p + i, A);
    }
};

static void outer_take(const tri_call *call) {
    OPERANDS(outer_take);
    by_type(call->dtype[ARG(d)], [&](auto d) {
        outer_take_update<decltype(d)> f = {GIVEN(anchor), GIVEN(p), GIVEN(d)};
        each(call, elements(call, ARG(p)), GIVEN(apply), f, aligned(f.anchor, f.p, f.d), "outer_take");
    });
}

struct commit_update {
    typedef nothing now;
    float *y;                 /* [K] */
    const float *x;           /* [K] */
    __device__ __forceinline__ now begin() const { return now{}; }
    template <int N> __device__ __forceinline__ void at(int64_t i, const now &) const {
        float X[N];
        load<N>(x + i, X);
        store<N>(y + i, X);
    }
};

static void commit(const tri_call *call) {
    OPERANDS(commit);
    commit_update f = {GIVEN(y), GIVEN(x)};
    each(call, elements(call, ARG(y)), GIVEN(apply), f, aligned(f.y, f.x), "commit");
}

struct swap_update {
    typedef nothing now;
    float *a, *b;             /* [K] each */
    __device__ __forceinline__ now begin() const { return now{}; }
    template <int N> __device__ __forceinline__ void at(int64_t i, const now &) const {
        float A[N], B[N];
        load<N>(a + i, A), load<N>(b + i, B);
        store<N>(a + i, B), store<N>(b + i, A);
    }
};

static void swap(const tri_call *call) {
    OPERANDS(swap);
    swap_update f = {GIVEN(a), GIVEN(b)};
    each(call, elements(call, ARG(a)), nullptr, f, aligned(f.a, f.b), "swap");
}

/* As torch.lerp: exact for a factor of 0 and of 1. In double, rounded once, as on the CPU. */
struct average_update {
    typedef double now;
    float *y;                 /* [K] */
    const float *p, *factor;  /* [K]; [1] */
    __device__ __forceinline__ now begin() const { return *factor; }
    template <int N> __device__ __forceinline__ void at(int64_t i, const now &f) const {
        float Y[N], P[N];
        if (f == 0) return;
        load<N>(y + i, Y), load<N>(p + i, P);
#pragma unroll
        for (int k = 0; k < N; k++) {
            double way = (double)P[k] - Y[k];
            Y[k] = __double2float_rn(f < 0.5 ? Y[k] + f * way : P[k] - (1 - f) * way);
        }
        store<N>(y + i, Y);
    }
};

static void average(const tri_call *call) {
    OPERANDS(average);
    average_update f = {GIVEN(y), GIVEN(p), GIVEN(factor)};
    each(call, elements(call, ARG(y)), GIVEN(apply), f, aligned(f.y, f.p), "average");
}

TRI_CUDA_FAMILY(outer) = {
    TRI_CUDA_SAME_ROWS(TRI_OP_average, average, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_local_delta, local_delta, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_outer_step, outer_step, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_outer_take, outer_take, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_commit, commit, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_swap, swap, {}),
    {},
};
