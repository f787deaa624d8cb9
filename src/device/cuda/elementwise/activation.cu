/* activation.cu - activations, element by element. */
#include "device/cuda/elementwise/activation.cuh"
#include "device/cuda/elementwise/columns.cuh"
#include "device/cuda/elementwise/map.cuh"

/* Writes dx, and sums it as rounded. */
template <int ACT, typename T> struct act_din_sum {
    enum { SUMS = 1, AHEAD = 2 };
    const T *dy, *from; /* [rows, cols] */
    T *dx;              /* [rows, cols] */
    int add;
    template <int N> struct raw {
        pack<T, N> dy, from;
    };
    template <int N> __device__ __forceinline__ void load(int64_t at, raw<N> &r) const {
        r.dy = packed<N>(dy + at), r.from = packed<N>(from + at);
    }
    template <int N> __device__ __forceinline__ void use(int64_t at, const raw<N> &r, float (&sum)[SUMS][N]) const {
        float value[N];
#pragma unroll
        for (int k = 0; k < N; k++) value[k] = act_din_op<ACT, T>::at(r.dy.at(k), r.from.at(k));
        pack<T, N> written = put<N>(dx + at, value, add);
#pragma unroll
        for (int k = 0; k < N; k++) sum[0][k] = __fadd_rn(sum[0][k], written.at(k)); /* never fused into an FMA */
    }
};

/* What the slope is computed from: x or y. */
static int from_of(const tri_call *call) {
    OPERANDS(act_din);
    return call->t[ARG(x)].data ? ARG(x) : ARG(y);
}

template <typename T> static void act_din_db(const tri_call *call) {
    OPERANDS(act_din);
    column_sums to = {{operand(call, ARG(db))}, {adds(call, ARG(db))}};
    with_activation(call->attr->activation - 1, [&](auto act) {
        act_din_sum<act, T> of = {GIVEN(dy), data<T>(call, from_of(call)), GIVEN(dx), adds(call, ARG(dx))};
        sum_columns(call, call->t[ARG(dx)].rows, call->t[ARG(dx)].cols, of,
                    aligned(of.dy, of.from, of.dx), to);
    });
}

template <typename T> static void act(const tri_call *call) {
    OPERANDS(act);
    with_activation(call->attr->activation - 1, [&](auto act) {
        map1<act_op<act, T>, T, T>(call, ARG(y), ARG(x), "act");
    });
}

template <typename T> static void act_din(const tri_call *call) {
    OPERANDS(act_din);
    with_activation(call->attr->activation - 1, [&](auto act) {
        map2<act_din_op<act, T>, T>(call, ARG(dx), ARG(dy), from_of(call), "act_din");
    });
}

TRI_CUDA_FAMILY(activation) = {
    TRI_CUDA_FACT_ROWS(TRI_FACT_ACT, TRI_OP_act, act, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_ACT, TRI_OP_act_din, act_din, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_ACT | TRI_FACT_DB, TRI_OP_act_din, act_din_db, COLUMN_WORK(1)),
    {},
};
