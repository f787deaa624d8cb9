/* gated.cu - gated activations: y = f(a) * b, where a row of x is a | b. A thread handles 8 columns of a row if
 * alignment allows, else one. */
#include "device/cuda/elementwise/activation.cuh"

enum { THREADS = 256 };

/* The N columns of this thread; false: none. */
template <int N>
static __device__ __forceinline__ bool place_here(int64_t rows, int64_t cols, int64_t *row, int64_t *c) {
    uint32_t i = blockIdx.x * THREADS + threadIdx.x, groups = (uint32_t)(cols / N);
    *row = i / groups, *c = (int64_t)(i % groups) * N;
    return *row < rows;
}

/* x [rows, 2 cols], y [rows, cols] */
template <int ACT, typename T, int N>
static __global__ void __launch_bounds__(THREADS) gated_kernel(int64_t rows, int64_t cols, T *y, const T *x) {
    int64_t row, c;
    if (!place_here<N>(rows, cols, &row, &c)) return;
    float a[N], b[N];
    load<N>(x + row * 2 * cols + c, a), load<N>(x + row * 2 * cols + cols + c, b);
#pragma unroll
    for (int k = 0; k < N; k++) a[k] = act_op<ACT, T>::at(a[k]) * b[k];
    store<N>(y + row * cols + c, a);
}

template <int ACT, typename T, int N>
static __global__ void __launch_bounds__(THREADS)
    gated_din_kernel(int64_t rows, int64_t cols, T *dx, const T *dy, const T *x, int add) {
    int64_t row, c;
    if (!place_here<N>(rows, cols, &row, &c)) return;
    int64_t at = row * 2 * cols + c;
    float a[N], b[N], d[N], da[N], db[N];
    load<N>(x + at, a), load<N>(x + at + cols, b), load<N>(dy + row * cols + c, d);
#pragma unroll
    for (int k = 0; k < N; k++)
        da[k] = act_din_from_x<ACT, T>(d[k], a[k]) * b[k], db[k] = d[k] * act_op<ACT, T>::at(a[k]);
    put<N>(dx + at, da, add), put<N>(dx + at + cols, db, add);
}

/* Rows and columns of y, or of dy; the number of its blocks. */
template <int N> static unsigned blocks_of(int64_t rows, int64_t cols) { return blocks_for(rows * cols / N, THREADS); }
static int is_wide(int64_t cols, const void *x, const void *y, const void *z) {
    return cols % WIDE == 0 && aligned(x) && aligned(y) && aligned(z);
}

template <int ACT, typename T> static void forward(const tri_call *call) {
    OPERANDS(gated);
    int64_t rows = call->t[ARG(y)].rows, cols = call->t[ARG(y)].cols;
    T *y = data<T>(call, ARG(y));
    const T *x = data<T>(call, ARG(x));
    if (is_wide(cols, x, y, NULL))
        gated_kernel<ACT, T, WIDE><<<blocks_of<WIDE>(rows, cols), THREADS, 0, stream(call)>>>(rows, cols, y, x);
    else gated_kernel<ACT, T, 1><<<blocks_of<1>(rows, cols), THREADS, 0, stream(call)>>>(rows, cols, y, x);
}
template <int ACT, typename T> static void backward(const tri_call *call) {
    OPERANDS(gated_din);
    int64_t rows = call->t[ARG(dy)].rows, cols = call->t[ARG(dy)].cols;
    T *dx = data<T>(call, ARG(dx));
    const T *dy = data<T>(call, ARG(dy)), *x = data<T>(call, ARG(x));
    if (is_wide(cols, x, dx, dy))
        gated_din_kernel<ACT, T, WIDE><<<blocks_of<WIDE>(rows, cols), THREADS, 0, stream(call)>>>(
            rows, cols, dx, dy, x, adds(call, ARG(dx)));
    else
        gated_din_kernel<ACT, T, 1><<<blocks_of<1>(rows, cols), THREADS, 0, stream(call)>>>(rows, cols, dx, dy, x,
                                                                                            adds(call, ARG(dx)));
}

template <typename T> static void gated(const tri_call *call) {
    if (elements(call, 0) == 0) return;
    with_activation(call->attr->act, [&](auto act) { forward<decltype(act)::value, T>(call); });
    launched(call, "gated");
}
template <typename T> static void gated_din(const tri_call *call) {
    if (elements(call, 0) == 0) return;
    with_activation(call->attr->act, [&](auto act) { backward<decltype(act)::value, T>(call); });
    launched(call, "gated_din");
}

TRI_CUDA_FAMILY(gated) = {
    TRI_CUDA_ROWS(TRI_OP_gated, gated, {}),
    TRI_CUDA_ROWS(TRI_OP_gated_din, gated_din, {}),
    {},
};
