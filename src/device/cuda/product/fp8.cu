/* fp8.cu - tensors to 8 bits with one scale, in rows and transposed, several weights in one launch, and the scales
 * (ops_fp8.def). A warp takes 32 rows by 64 columns, a thread 8 by 8, which it transposes in registers: operands are
 * read once, in whole lines. */
#include "device/cuda/product/fp8.cuh"
#include "device/cuda/elementwise/activation.cuh"

enum { THREADS = 256, TILE = 128, WARP_ROWS = 32, WARP_COLS = 64 }; /* TILE: rows and columns of a block */

template <typename T, int ACT>
static __device__ __forceinline__ pack<T, WIDE> value_of(const pack<T, WIDE> &x, int act) {
    pack<T, WIDE> value = x;
    if constexpr (ACT != NO_ACT) {
        float of[WIDE];
#pragma unroll
        for (int i = 0; i < WIDE; i++) of[i] = act_at<ACT, T>(act, x.at(i));
        value.set(of);
    }
    return value;
}

/* A thread's first row and column, of a block's tile in a tensor with tiles in rows of `across`. */
static __device__ __forceinline__ int64_t row_in(unsigned tile, unsigned across) {
    return (int64_t)(tile / across) * TILE + threadIdx.x / WARP / 2 * WARP_ROWS + threadIdx.x % WARP / 8 * WIDE;
}
static __device__ __forceinline__ int64_t col_in(unsigned tile, unsigned across) {
    return (int64_t)(tile % across) * TILE + threadIdx.x / WARP % 2 * WARP_COLS + threadIdx.x % 8 * WIDE;
}

template <typename Q, typename T, int ACT>
static __device__ __forceinline__ void cast_tile(const fp8_tensor &to, const T *x, int act, unsigned tile,
                                                 unsigned across) {
    int64_t t = row_in(tile, across), c = col_in(tile, across);
    fp8_largest<T> largest;
    if (t < to.rows && c < to.cols) {
        pack<T, WIDE> from[WIDE];
        uint2 row[WIDE];
        float s = *to.s;
#pragma unroll
        for (int i = 0; i < WIDE; i++) from[i] = packed<WIDE>(x + (t + i) * to.cols + c);
#pragma unroll
        for (int i = 0; i < WIDE; i++) {
            pack<T, WIDE> value = value_of<T, ACT>(from[i], act);
            largest.see(value);
            row[i] = eight_bytes<Q>(value, s);
        }
        put_tile(to, t, c, row);
    }
    raise(to.most, largest.word());
}

template <typename Q, typename T, int ACT>
static __global__ void __launch_bounds__(THREADS) cast_kernel(fp8_tensor to, const T *x, int act, unsigned across) {
    cast_tile<Q, T, ACT>(to, x, act, blockIdx.x, across);
}

/* Any shape, any alignment: an element each. */
template <typename Q, typename T, int ACT>
static __global__ void __launch_bounds__(THREADS) cast_any_kernel(fp8_tensor to, const T *x, int act) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, t = i / to.cols, c = i % to.cols;
    uint32_t largest = 0;
    if (t < to.rows) {
        float value = wide(x[i]);
        if constexpr (ACT != NO_ACT) value = wide(narrow<T>(act_at<ACT, T>(act, value)));
        uint8_t byte = (uint8_t)quantized<Q>::at(value, *to.s);
        largest = size_of(value);
        if (to.q) to.q[i] = byte;
        if (to.transposed) to.transposed[c * to.between + t] = byte;
    }
    raise(to.most, largest);
}

template <typename Q, typename T, int ACT>
static void cast_as(const tri_call *call, const fp8_tensor &to, const T *x, int act) {
    unsigned across = blocks_for(to.cols, TILE), tiles = blocks_for(to.rows, TILE) * across;
    if (to.rows * to.cols == 0) return;
    if (fp8_wide(to) && aligned(x)) queue(call, "fp8_cast", cast_kernel<Q, T, ACT>, tiles, THREADS, to, x, act, across);
    else
        queue(call, "fp8_cast", cast_any_kernel<Q, T, ACT>, blocks_for(to.rows * to.cols, THREADS), THREADS, to, x,
              act);
}

template <typename T> void fp8_cast_to(const tri_call *call, const fp8_tensor &to, const T *x, int activation) {
    int act = activation - 1;
    if (to.dtype == TRI_F8_E5M2) cast_as<e5m2, T, NO_ACT>(call, to, x, act); /* gradients only */
    else if (act == NO_ACT) cast_as<e4m3, T, NO_ACT>(call, to, x, act);
    else if (act == TRI_ACTIVATION_GELU) cast_as<e4m3, T, TRI_ACTIVATION_GELU>(call, to, x, act);
    else cast_as<e4m3, T, ANY_ACT>(call, to, x, act);
}
template void fp8_cast_to(const tri_call *, const fp8_tensor &, const float *, int);
template void fp8_cast_to(const tri_call *, const fp8_tensor &, const bf16 *, int);
template void fp8_cast_to(const tri_call *, const fp8_tensor &, const f16 *, int);

template <typename T> static void fp8_cast(const tri_call *call) {
    OPERANDS(fp8_cast);
    fp8_cast_to<T>(call, fp8_operands(call, ARG(x), ARG(q), ARG(transposed), ARG(most), ARG(s)), data<T>(call, ARG(x)),
                   0);
}

/* ---- Weights ---- */

enum { WEIGHTS = 4, KINDS = 3 }; /* of a call; rows of history of a weight's product */

/* Tensors that one launch takes, one after the other. */
template <typename T> struct several {
    fp8_tensor to[WEIGHTS];
    const T *x[WEIGHTS];
    unsigned across[WEIGHTS], end[WEIGHTS]; /* tiles in a row; blocks up to the last of this tensor */
};

/* The tensor of this block; *first: its first block. */
template <typename T> static __device__ __forceinline__ int tensor_here(const several<T> &all, unsigned *first) {
    int k = 0;
    while (blockIdx.x >= all.end[k]) k++;
    *first = k ? all.end[k - 1] : 0;
    return k;
}

template <typename T>
static __global__ void __launch_bounds__(THREADS) cast_several_kernel(const __grid_constant__ several<T> all) {
    unsigned first;
    int k = tensor_here(all, &first);
    cast_tile<e4m3, T, NO_ACT>(all.to[k], all.x[k], NO_ACT, blockIdx.x - first, all.across[k]);
}

/* Without transposed copies shapes do not matter: 8 elements in a row each. */
template <typename T>
static __global__ void __launch_bounds__(THREADS) cast_flat_kernel(const __grid_constant__ several<T> all) {
    unsigned first;
    int k = tensor_here(all, &first);
    const fp8_tensor &to = all.to[k];
    int64_t i = ((int64_t)(blockIdx.x - first) * THREADS + threadIdx.x) * WIDE;
    fp8_largest<T> largest;
    if (i < to.rows * to.cols) {
        pack<T, WIDE> value = packed<WIDE>(all.x[k] + i);
        largest.see(value);
        *reinterpret_cast<uint2 *>(to.q + i) = eight_bytes<e4m3>(value, *to.s);
    }
    raise(to.most, largest.word());
}

static __global__ void __launch_bounds__(THREADS) turn_kernel(const __grid_constant__ several<uint8_t> all) {
    unsigned first;
    int k = tensor_here(all, &first);
    const fp8_tensor &to = all.to[k];
    int64_t t = row_in(blockIdx.x - first, all.across[k]), c = col_in(blockIdx.x - first, all.across[k]);
    if (t >= to.rows || c >= to.cols) return;
    uint2 row[WIDE];
#pragma unroll
    for (int i = 0; i < WIDE; i++) row[i] = *reinterpret_cast<const uint2 *>(all.x[k] + (t + i) * to.cols + c);
    put_tile(to, t, c, row);
}

static __global__ void __launch_bounds__(THREADS) turn_any_kernel(fp8_tensor to, const uint8_t *x) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < to.rows * to.cols) to.transposed[i % to.cols * to.rows + i / to.cols] = x[i];
}

/* Adds a tensor; is_flat: by runs of elements, else by tiles. */
template <typename T> static void add_tensor(several<T> *all, int *n, const fp8_tensor &to, const T *x, int is_flat) {
    unsigned before = *n ? all->end[*n - 1] : 0, across = blocks_for(to.cols, TILE);
    unsigned blocks = is_flat ? blocks_for(to.rows * to.cols, THREADS * WIDE) : blocks_for(to.rows, TILE) * across;
    if (blocks == 0) return;
    all->to[*n] = to, all->x[*n] = x, all->across[*n] = across, all->end[*n] = before + blocks;
    ++*n;
}

/* Weight k of a call as its destination, with the numbers of its row. */
static fp8_tensor weight_of(const tri_call *call, int k) {
    OPERANDS(fp8_cast_weights);
    fp8_tensor to = fp8_operands(call, ARG(a) + k, ARG(qa) + k, ARG(ta) + k, ARG(most), ARG(s));
    to.most += KINDS * k, to.s += KINDS * k, to.dtype = TRI_F8_E4M3;
    return to;
}

template <typename T> static void fp8_cast_weights(const tri_call *call) {
    OPERANDS(fp8_cast_weights);
    int flat = 1, wide = 1, n = 0;
    several<T> all;
    for (int k = 0; k < WEIGHTS; k++) {
        const T *x = data<T>(call, ARG(a) + k);
        if (!x) continue;
        fp8_tensor to = weight_of(call, k);
        wide &= fp8_wide(to) && aligned(x);
        flat &= !to.transposed && to.q && to.rows * to.cols % WIDE == 0 && (uintptr_t)to.q % WIDE == 0 && aligned(x);
    }
    for (int k = 0; k < WEIGHTS; k++) {
        const T *x = data<T>(call, ARG(a) + k);
        if (!x) continue;
        if (flat || wide) add_tensor(&all, &n, weight_of(call, k), x, flat);
        else fp8_cast_to<T>(call, weight_of(call, k), x, 0);
    }
    if (n)
        queue(call, "fp8_cast_weights", flat ? cast_flat_kernel<T> : cast_several_kernel<T>, all.end[n - 1], THREADS,
              all);
}

static void fp8_turn(const tri_call *call) {
    OPERANDS(fp8_turn);
    int n = 0;
    several<uint8_t> all;
    for (int k = 0; k < WEIGHTS; k++) {
        const uint8_t *x = data<uint8_t>(call, ARG(a) + k);
        int64_t rows = call->t[ARG(a) + k].rows, cols = call->t[ARG(a) + k].cols;
        fp8_tensor to = {NULL, data<uint8_t>(call, ARG(ta) + k), NULL, NULL, rows, cols, rows, TRI_F8_E4M3};
        if (!x || !to.transposed || rows * cols == 0) continue;
        if (fp8_wide(to) && (uintptr_t)x % WIDE == 0) add_tensor(&all, &n, to, x, 0);
        else queue(call, "fp8_turn", turn_any_kernel, blocks_for(rows * cols, THREADS), THREADS, to, x);
    }
    if (n) queue(call, "fp8_turn", turn_kernel, all.end[n - 1], THREADS, all);
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
    if (rows)
        queue(call, "fp8_scales", scales_kernel, blocks_for(rows, THREADS), THREADS, GIVEN(s), GIVEN(most),
              GIVEN(history), rows, cols);
}

/* One block. */
static __global__ void __launch_bounds__(THREADS) check_kernel(double *sum, const float *most, int64_t n) {
    int bad = 0;
    for (int64_t k = threadIdx.x; k < n; k += THREADS) bad |= size_of(most[k]) >= 0x7F800000u;
    if (__syncthreads_or(bad) && threadIdx.x == 0) *sum = __longlong_as_double(0x7FF8000000000000ll);
}

static void fp8_check(const tri_call *call) {
    OPERANDS(fp8_check);
    queue(call, "fp8_check", check_kernel, 1, THREADS, GIVEN(sum), GIVEN(most), elements(call, ARG(most)));
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
    if (rows * cols > 0)
        queue(call, "fp8_history", history_kernel, blocks_for(rows, THREADS), THREADS, GIVEN(history), GIVEN(most),
              GIVEN(apply), rows, cols);
}

TRI_CUDA_FAMILY(fp8) = {
    TRI_CUDA_ROWS(TRI_OP_fp8_cast, fp8_cast, {}),
    TRI_CUDA_ROWS(TRI_OP_fp8_cast_weights, fp8_cast_weights, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_fp8_turn, fp8_turn, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_fp8_scales, fp8_scales, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_fp8_check, fp8_check, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_fp8_history, fp8_history, {}),
    {},
};
