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

template <typename T> static void gated(const tri_call *call) {
    OPERANDS(gated);
    int64_t rows = call->t[ARG(y)].rows, cols = call->t[ARG(y)].cols;
    T *y = GIVEN(y);
    const T *x = GIVEN(x);
    if (rows * cols == 0) return;
    with_activation(call->attr->act, [&](auto act) {
        by_width(cols % WIDE == 0 && aligned(x, y), [&](auto n) {
            queue(call, "gated", gated_kernel<decltype(act)::value, T, n>, blocks_for(rows * cols / n, THREADS),
                  THREADS, rows, cols, y, x);
        });
    });
}

template <typename T> static void gated_din(const tri_call *call) {
    OPERANDS(gated_din);
    int64_t rows = call->t[ARG(dy)].rows, cols = call->t[ARG(dy)].cols;
    T *dx = GIVEN(dx);
    const T *dy = GIVEN(dy), *x = GIVEN(x);
    if (rows * cols == 0) return;
    with_activation(call->attr->act, [&](auto act) {
        by_width(cols % WIDE == 0 && aligned(x, dx, dy), [&](auto n) {
            queue(call, "gated_din", gated_din_kernel<decltype(act)::value, T, n>,
                  blocks_for(rows * cols / n, THREADS), THREADS, rows, cols, dx, dy, x, adds(call, ARG(dx)));
        });
    });
}

TRI_CUDA_FAMILY(gated) = {
    TRI_CUDA_ROWS(TRI_OP_gated, gated, {}),
    TRI_CUDA_ROWS(TRI_OP_gated_din, gated_din, {}),
    {},
};
