/* activation.cu - GELU, SiLU, tanh and ReLU, element by element; linear.cu also uses the GELU. */
#include "device/cuda/elementwise/columns.cuh"
#include "device/cuda/elementwise/gelu.cuh"
#include "device/cuda/elementwise/map.cuh"

struct tanh_op {
    static __device__ float at(float x) { return tanhf(x); }
};
struct relu_op { /* NaN stays NaN */
    static __device__ float at(float x) { return x < 0 ? 0 : x; }
};
struct tanh_din_op {
    static __device__ float at(float dy, float y) { return dy * (1 - y * y); }
};
struct relu_din_op {
    static __device__ float at(float dy, float y) { return y > 0 ? dy : 0; }
};

/* Writes dx, and sums it as rounded. */
template <typename T> struct gelu_din_sum {
    enum { SUMS = 1, AHEAD = 2 };
    const T *dy, *x; /* [rows, cols] */
    T *dx;           /* [rows, cols] */
    int add;
    template <int N> struct raw {
        pack<T, N> dy, x;
    };
    template <int N> __device__ __forceinline__ void load(int64_t at, raw<N> &r) const {
        r.dy = packed<N>(dy + at), r.x = packed<N>(x + at);
    }
    template <int N> __device__ __forceinline__ void use(int64_t at, const raw<N> &r, float (&sum)[SUMS][N]) const {
        float value[N];
#pragma unroll
        for (int k = 0; k < N; k++) value[k] = gelu_din_op<T>::at(r.dy.at(k), r.x.at(k));
        pack<T, N> written = put<N>(dx + at, value, add);
#pragma unroll
        for (int k = 0; k < N; k++) sum[0][k] = __fadd_rn(sum[0][k], written.at(k)); /* never fused into an FMA */
    }
};

template <typename T> static void gelu_din_db(const tri_call *call) {
    OPERANDS(gelu_din_db);
    gelu_din_sum<T> of = {data<T>(call, ARG(dy)), data<T>(call, ARG(x)), data<T>(call, ARG(dx)), adds(call, ARG(dx))};
    column_sums to = {{operand(call, ARG(db))}, {adds(call, ARG(db))}};
    sum_columns(call, call->t[ARG(dx)].rows, call->t[ARG(dx)].cols, of,
                aligned(of.dy) && aligned(of.x) && aligned(of.dx), to);
    launched(call, "gelu_din_db");
}

template <typename T> static void gelu(const tri_call *call) {
    OPERANDS(gelu);
    map1<gelu_op<T>, T, T>(call, ARG(y), ARG(x), "gelu");
}
template <typename T> static void gelu_din(const tri_call *call) { map2<gelu_din_op<T>, T>(call, "gelu_din"); }
template <typename T> static void gelu_tanh(const tri_call *call) {
    OPERANDS(gelu_tanh);
    map1<gelu_tanh_op<T>, T, T>(call, ARG(y), ARG(x), "gelu_tanh");
}
template <typename T> static void gelu_tanh_din(const tri_call *call) {
    map2<gelu_tanh_din_op<T>, T>(call, "gelu_tanh_din");
}
template <typename T> static void silu(const tri_call *call) {
    OPERANDS(silu);
    map1<silu_op<T>, T, T>(call, ARG(y), ARG(x), "silu");
}
template <typename T> static void silu_din(const tri_call *call) { map2<silu_din_op<T>, T>(call, "silu_din"); }
template <typename T> static void tanh_(const tri_call *call) {
    OPERANDS(tanh);
    map1<tanh_op, T, T>(call, ARG(y), ARG(x), "tanh");
}
template <typename T> static void tanh_din(const tri_call *call) { map2<tanh_din_op, T>(call, "tanh_din"); }
template <typename T> static void relu(const tri_call *call) {
    OPERANDS(relu);
    map1<relu_op, T, T>(call, ARG(y), ARG(x), "relu");
}
template <typename T> static void relu_din(const tri_call *call) { map2<relu_din_op, T>(call, "relu_din"); }

const tri_kernel_row tri__cuda_activation[] = {
    TRI_CUDA_ROWS(TRI_OP_gelu, gelu, {}),
    TRI_CUDA_ROWS(TRI_OP_gelu_din, gelu_din, {}),
    TRI_CUDA_ROWS(TRI_OP_gelu_din_db, gelu_din_db, COLUMN_WORK(1)),
    TRI_CUDA_ROWS(TRI_OP_gelu_tanh, gelu_tanh, {}),
    TRI_CUDA_ROWS(TRI_OP_gelu_tanh_din, gelu_tanh_din, {}),
    TRI_CUDA_ROWS(TRI_OP_silu, silu, {}),
    TRI_CUDA_ROWS(TRI_OP_silu_din, silu_din, {}),
    TRI_CUDA_ROWS(TRI_OP_tanh, tanh_, {}),
    TRI_CUDA_ROWS(TRI_OP_tanh_din, tanh_din, {}),
    TRI_CUDA_ROWS(TRI_OP_relu, relu, {}),
    TRI_CUDA_ROWS(TRI_OP_relu_din, relu_din, {}),
    {},
};
