/* fp8.cu - tensors to 8 bits with one scale, in rows and turned, and the scales (ops_fp8.def). A warp takes 32 rows by
 * 64 columns, a thread 8 by 8, which it turns in registers: operands are read once, in whole lines. */
#include "device/cuda/fp8.cuh"
#include "device/cuda/gelu.cuh"

enum { THREADS = 256, TILE = 128, WARP_ROWS = 32, WARP_COLS = 64 }; /* TILE: rows and columns of a block */

template <typename T, bool GELU> static __device__ __forceinline__ pack<T, WIDE> value_of(const pack<T, WIDE> &x) {
    pack<T, WIDE> value = x;
    if constexpr (GELU) {
        float of[WIDE];
#pragma unroll
        for (int i = 0; i < WIDE; i++) of[i] = gelu_op<T>::at(x.at(i));
        value.set(of);
    }
    return value;
}

template <typename Q, typename T, bool GELU>
static __global__ void __launch_bounds__(THREADS) cast_kernel(fp8_tensor to, const T *x, int across) {
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int64_t t = (int64_t)(blockIdx.x / across) * TILE + warp / 2 * WARP_ROWS + lane / 8 * WIDE,
            c = (int64_t)(blockIdx.x % across) * TILE + warp % 2 * WARP_COLS + lane % 8 * WIDE;
    fp8_largest<T> largest;
    if (t < to.rows && c < to.cols) {
        pack<T, WIDE> from[WIDE];
        uint2 row[WIDE];
        float s = *to.s;
#pragma unroll
        for (int i = 0; i < WIDE; i++) from[i] = packed<WIDE>(x + (t + i) * to.cols + c);
#pragma unroll
        for (int i = 0; i < WIDE; i++) {
            pack<T, WIDE> value = value_of<T, GELU>(from[i]);
            largest.see(value);
            row[i] = eight_bytes<Q>(value, s);
        }
        put_tile(to, t, c, row);
    }
    raise(to.most, largest.word());
}

/* Any shape, any alignment: an element each. */
template <typename Q, typename T, bool GELU>
static __global__ void __launch_bounds__(THREADS) cast_any_kernel(fp8_tensor to, const T *x) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, t = i / to.cols, c = i % to.cols;
    uint32_t largest = 0;
    if (t < to.rows) {
        float value = wide(x[i]);
        if (GELU) value = wide(narrow<T>(gelu_op<T>::at(value)));
        uint8_t byte = (uint8_t)quantized<Q>::at(value, *to.s);
        largest = size_of(value);
        if (to.q) to.q[i] = byte;
        if (to.turned) to.turned[c * to.between + t] = byte;
    }
    raise(to.most, largest);
}

template <typename Q, typename T, bool GELU>
static void cast_as(const tri_call *call, const fp8_tensor &to, const T *x) {
    int across = (int)blocks_for(to.cols, TILE);
    if (to.rows * to.cols == 0) return;
    if (fp8_wide(to) && aligned(x))
        cast_kernel<Q, T, GELU><<<blocks_for(to.rows, TILE) * (unsigned)across, THREADS, 0, stream(call)>>>(to, x,
                                                                                                         across);
    else
        cast_any_kernel<Q, T, GELU><<<blocks_for(to.rows * to.cols, THREADS), THREADS, 0, stream(call)>>>(to, x);
    launched(call, "fp8_cast");
}

template <typename T> void fp8_cast_to(const tri_call *call, const fp8_tensor &to, const T *x, int gelu) {
    if (to.dtype == TRI_F8_E5M2) cast_as<e5m2, T, false>(call, to, x); /* gradients only */
    else if (gelu) cast_as<e4m3, T, true>(call, to, x);
    else cast_as<e4m3, T, false>(call, to, x);
}
template void fp8_cast_to(const tri_call *, const fp8_tensor &, const float *, int);
template void fp8_cast_to(const tri_call *, const fp8_tensor &, const bf16 *, int);
template void fp8_cast_to(const tri_call *, const fp8_tensor &, const f16 *, int);

template <typename T> static void fp8_cast(const tri_call *call) {
    OPERANDS(fp8_cast);
    fp8_cast_to<T>(call, fp8_operands(call, ARG(x), ARG(q), ARG(turned), ARG(most), ARG(s)), data<T>(call, ARG(x)), 0);
}

/* ---- Scales ---- */

/* Rows of history come in threes: of a weight, an input, a gradient of an output. */
static __device__ float scale_of_row(const float *row, int64_t n, int kind) {
    const int largest_exponent = kind == 2 ? 15 : 8; /* of 57344 and 448, both 1.75 times a power of two */
    uint32_t largest = 0;
    for (int64_t i = 0; i < n; i++) largest = max(largest, size_of(row[i]));
    if (largest == 0) return kind == 0 ? 0x1p8f : kind == 1 ? 0x1p3f : 0x1p20f;
    int exponent = largest_exponent - ((int)(largest >> 23) - 127) - ((largest & 0x7FFFFF) > 0x600000);
    return __uint_as_float((uint32_t)(max(-60, min(60, exponent)) + 127) << 23);
}

static __global__ void __launch_bounds__(THREADS)
    scales_kernel(float *s, float *most, const float *history, int64_t rows, int64_t cols) {
    int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (k >= rows) return;
    s[k] = scale_of_row(history + k * cols, cols, (int)(k % 3)), most[k] = 0;
}

static void fp8_scales(const tri_call *call) {
    OPERANDS(fp8_scales);
    int64_t rows = call->t[ARG(history)].rows, cols = call->t[ARG(history)].cols;
    if (rows == 0) return;
    scales_kernel<<<blocks_for(rows, THREADS), THREADS, 0, stream(call)>>>(
        data<float>(call, ARG(s)), data<float>(call, ARG(most)), data<float>(call, ARG(history)), rows, cols);
    launched(call, "fp8_scales");
}

/* One block. */
static __global__ void __launch_bounds__(THREADS) check_kernel(double *sum, const float *most, int64_t n) {
    int bad = 0;
    for (int64_t k = threadIdx.x; k < n; k += THREADS) bad |= size_of(most[k]) >= 0x7F800000u;
    if (__syncthreads_or(bad) && threadIdx.x == 0) *sum = __longlong_as_double(0x7FF8000000000000ll);
}

static void fp8_check(const tri_call *call) {
    OPERANDS(fp8_check);
    check_kernel<<<1, THREADS, 0, stream(call)>>>(data<double>(call, ARG(sum)), data<float>(call, ARG(most)),
                                                  elements(call, ARG(most)));
    launched(call, "fp8_check");
}

static __global__ void __launch_bounds__(THREADS)
    history_kernel(float *history, const float *most, const int32_t *apply, int64_t rows, int64_t cols) {
    int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (k >= rows || !*apply) return;
    float *row = history + k * cols;
    for (int64_t i = cols - 1; i > 0; i--) row[i] = row[i - 1];
    row[0] = most[k];
}

static void fp8_history(const tri_call *call) {
    OPERANDS(fp8_history);
    int64_t rows = call->t[ARG(history)].rows, cols = call->t[ARG(history)].cols;
    if (rows * cols == 0) return;
    history_kernel<<<blocks_for(rows, THREADS), THREADS, 0, stream(call)>>>(
        data<float>(call, ARG(history)), data<float>(call, ARG(most)), data<int32_t>(call, ARG(apply)), rows, cols);
    launched(call, "fp8_history");
}

const tri_kernel_row tri__cuda_fp8[] = {
    TRI_CUDA_ROWS(TRI_OP_fp8_cast, fp8_cast, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_fp8_scales, fp8_scales, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_fp8_check, fp8_check, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_fp8_history, fp8_history, {}),
    {},
};
