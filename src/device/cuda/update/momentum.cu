/* momentum.cu - 1-bit optimizers: momentum on its way into and out of its code, and the step along it. An element whose
 * momentum is 0 has never had a gradient; it is masked. */
#include "device/cuda/update/coded.cuh"
#include "device/cuda/update/each.cuh"

/* A momentum that decays never becomes 0: the element would stay masked for good. */
static __device__ __forceinline__ float kept_apart(float m) { return fabsf(m) < TINY ? copysignf(TINY, m) : m; }

/* With e, a copy's own, whose gradient stands for that of all copies. */
template <typename G> struct momentum_update {
    struct now {
        double fresh, share;
    };
    float *e, *m;             /* [K] each; e may be NULL */
    const G *g;               /* [K] */
    const float *hyper, *coef;
    double kept, members;
    __device__ __forceinline__ now begin() const {
        return now{(1 - kept) * members * (double)*coef, e ? (double)hyper[3] / members : 0};
    }
    template <int N> __device__ __forceinline__ void at(int64_t i, const now &s) const {
        float E[N] = {}, M[N], Gr[N];
        load<N>(m + i, M), load<N>(g + i, Gr);
        if (e) load<N>(e + i, E);
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (M[k] == 0) continue;
            M[k] = kept_apart(__double2float_rn(kept * M[k] + s.fresh * Gr[k]));
            E[k] = __double2float_rn(E[k] + s.share * M[k]);
        }
        if (e) store<N>(e + i, E);
        store<N>(m + i, M);
    }
};

static void momentum(const tri_call *call) {
    OPERANDS(momentum);
    by_type(call->dtype[ARG(g)], [&](auto g) {
        double members = call->t[ARG(e)].data ? call->attr->members : 1;
        momentum_update<decltype(g)> f = {GIVEN(e),     GIVEN(m),    GIVEN(g),
                                          GIVEN(hyper), GIVEN(coef), (double)call->attr->beta1, members};
        each(call, elements(call, ARG(m)), GIVEN(apply), f, aligned(f.e, f.m, f.g), "momentum");
    });
}

/* The unit of a momentum, as the CPU rounds it. */
static __device__ __forceinline__ float unit_of(float v, float eps) { return __fadd_rn(__fsqrt_rn(v), eps); }

/* In double, rounded once, so that the signs sent are those of the CPU. */
template <typename G> struct momentum_in_update {
    struct now {
        double fresh;
    };
    float *e;                 /* [K] */
    const float *m;           /* [K] */
    const G *g;               /* [K] */
    const float *v;           /* [K]; NULL: the unit is 1 */
    const float *coef;
    double kept, rest;        /* of the momentum: beta1 / members; of the gradient: 1 - beta1 */
    float eps;
    __device__ __forceinline__ now begin() const { return now{rest * (double)*coef}; }
    template <int N> __device__ __forceinline__ void at(int64_t i, const now &s) const {
        float E[N], M[N], Gr[N], V[N];
        load<N>(e + i, E), load<N>(m + i, M), load<N>(g + i, Gr);
        if (v) load<N>(v + i, V);
#pragma unroll
        for (int k = 0; k < N; k++) {
            double more = kept * M[k] + s.fresh * Gr[k];
            if (M[k] != 0) E[k] = __double2float_rn(E[k] + (v ? more / (double)unit_of(V[k], eps) : more));
        }
        store<N>(e + i, E);
    }
};

static void momentum_in(const tri_call *call) {
    OPERANDS(momentum);
    double beta1 = call->attr->beta1;
    by_type(call->dtype[ARG(g)], [&](auto g) {
        momentum_in_update<decltype(g)> f = {GIVEN(e),    GIVEN(m),                    GIVEN(g),  GIVEN(v),
                                             GIVEN(coef), beta1 / call->attr->members, 1 - beta1, call->attr->eps};
        each(call, elements(call, ARG(e)), GIVEN(apply), f, aligned(f.e, f.m, f.g, f.v), "momentum_in");
    });
}

template <int CODE>
static __global__ void __launch_bounds__(CODED_WARPS *WARP)
    momentum_out_kernel(coded_rows rows, float *m, const float *v, float eps, const int32_t *apply) {
    coded_block b = block_of(rows, blockIdx.y, blockIdx.y, block_number(), coded<CODE>::PAYLOAD);
    float before[HELD], t[HELD], V[HELD];
    if (b.count == 0 || !*apply) return;
    get_block(b, m, before);
    if (v) get_block(b, v, V);
    decode_block<CODE>(b, rows.wide, t);
#pragma unroll
    for (int k = 0; k < HELD; k++) {
        if (v) t[k] = __fmul_rn(t[k], unit_of(V[k], eps));
        t[k] = before[k] == 0 ? before[k] : kept_apart(t[k]);
    }
    put_block(b, m, t);
}

static void momentum_out(const tri_call *call) {
    OPERANDS(momentum_out);
    coded_rows rows = coded_rows_of(call, ARG(q), ARG(m), 1);
    if (rows.count == 0 || rows.rows == 0) return;
    by_code(call, [&](auto code) {
        queue(call, "momentum_out", momentum_out_kernel<code>, coded_grid(rows.part, rows.rows), CODED_WARPS * WARP,
              rows, GIVEN(m), GIVEN(v), call->attr->eps, GIVEN(apply));
    });
}

struct adamw_frozen_update {
    struct now {
        float decay, lr, rate, root; /* lr * decay; lr; 1 / c1; 1 / sqrt(c2) */
    };
    float *p, *copy;          /* [K] each; copy: what becomes of p as well; NULL */
    const float *m, *v;       /* [K] each */
    const float *hyper;
    float eps, decay, factor; /* factor: of the learning rate */
    int meets;                /* 1: with the rate of all steps since the last meeting */
    __device__ __forceinline__ now begin() const {
        float rate = hyper[0] * factor, lr = meets ? rate / hyper[3] : rate;
        return now{lr * decay, lr, 1 / hyper[1], rsqrtf(hyper[2])};
    }
    template <int N> __device__ __forceinline__ void at(int64_t i, const now &s) const {
        float P[N], M[N], V[N];
        load<N>(p + i, P), load<N>(m + i, M), load<N>(v + i, V);
#pragma unroll
        for (int k = 0; k < N; k++) {
            P[k] = fmaf(-s.decay, P[k], P[k]);
            if (M[k] != 0) P[k] -= s.lr * fminf(fmaxf(s.rate * M[k] / (sqrtf(V[k]) * s.root + eps), -1), 1);
        }
        store<N>(p + i, P);
        if (copy) store<N>(copy + i, P);
    }
};

static void adamw_frozen(const tri_call *call) {
    OPERANDS(adamw_frozen);
    int meets = call->attr->meet;
    float *p = GIVEN(p), *anchor = GIVEN(anchor);
    adamw_frozen_update f = {meets ? anchor : p, meets ? p : nullptr, GIVEN(m),          GIVEN(v),
                             GIVEN(hyper),       call->attr->eps,     call->attr->decay, tri__rate_factor(call->attr),
                             meets};
    each(call, elements(call, ARG(p)), GIVEN(apply), f, aligned(f.p, f.copy, f.m, f.v), "adamw_frozen");
}

TRI_CUDA_FAMILY(momentum) = {
    TRI_CUDA_SAME_ROWS(TRI_OP_momentum, momentum, {}),
    TRI_CUDA_SAME_FACT_ROWS(TRI_FACT_SENT | TRI_FACT_OWN, TRI_OP_momentum, momentum, {}),
    TRI_CUDA_SAME_FACT_ROWS(TRI_FACT_SENT, TRI_OP_momentum, momentum_in, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_momentum_out, momentum_out, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_adamw_frozen, adamw_frozen, {}),
    {},
};
