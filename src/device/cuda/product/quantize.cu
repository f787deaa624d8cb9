/* quantize.cu - activations and weights to 8 bits, with a scale for each row. One or four warps hold a row in
 * registers, so that it is read once; rows that are too wide or unaligned are read again. */
#include "device/cuda/product/quantize.cuh"

enum { ROW_WARPS = 4, MOST_PACKS = 4 }; /* warps of a block; packs of 8 elements per lane: rows of up to 4096 */

typedef struct quantize_args {
    const void *x;  /* [rows, cols] */
    const float *m; /* [sets * rows]: maxima of the same rows on several ranks; NULL: those of x */
    uint8_t *q;     /* [rows, cols] */
    float *out;     /* [rows]: scales; of row_max, maxima */
    int64_t rows, cols;
    int sets;
} quantize_args;

struct row_max_only {}; /* in place of the quantised type */

static __device__ __forceinline__ uint32_t given_largest(const quantize_args &a, int64_t t) {
    uint32_t largest = 0;
    for (int i = 0; i < a.sets; i++) largest = max(largest, size_of(a.m[t + i * a.rows]));
    return largest;
}

template <int W> static __device__ __forceinline__ uint32_t row_largest(uint32_t x) {
    __shared__ uint32_t part[ROW_WARPS];
    x = __reduce_max_sync(0xFFFFFFFFu, x);
    if (W == 1) return x;
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = x;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < W; w++) x = max(x, part[w]);
    return x;
}

/* PACKS packs per lane of the row's W warps, 1 or all of the block; pack k of a lane is at column 8 (lane + 32 W k). */
template <typename Q, typename T, int W, int PACKS>
static __global__ void __launch_bounds__(ROW_WARPS *WARP) quantize_kernel(quantize_args a) {
    enum { LANES = W * WARP };
    int64_t t = (int64_t)blockIdx.x * (ROW_WARPS / W) + threadIdx.x / LANES;
    int lane = threadIdx.x % LANES, packs = t < a.rows ? (int)(a.cols / WIDE) : 0;
    pack<T, WIDE> x[PACKS];
    uint32_t largest = 0;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int at = lane + LANES * k;
        if (at >= packs) continue;
        x[k] = packed<WIDE>((const T *)a.x + t * a.cols + at * WIDE);
        largest = max(largest, largest_of(x[k]));
    }
    largest = row_largest<W>(largest);
    if (t >= a.rows) return;
    if constexpr (std::is_same<Q, row_max_only>::value) {
        if (lane == 0) a.out[t] = __uint_as_float(largest);
    } else {
        if (a.m) largest = given_largest(a, t);
        float s = scale_of(largest, quantized<Q>::most), inverse = inverse_of(s);
        if (lane == 0) a.out[t] = s;
#pragma unroll
        for (int k = 0; k < PACKS; k++)
            if (lane + LANES * k < packs)
                quantize_pack<Q>(x[k], inverse, a.q + t * a.cols + (lane + LANES * k) * WIDE);
    }
}

/* Any width, any alignment: one block per row. */
template <typename Q, typename T> static __global__ void quantize_any_kernel(quantize_args a) {
    int64_t t = blockIdx.x;
    const T *x = (const T *)a.x + t * a.cols;
    uint32_t largest = 0;
    for (int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) largest = max(largest, size_of(wide(x[c])));
    largest = row_largest<ROW_WARPS>(largest);
    if constexpr (std::is_same<Q, row_max_only>::value) {
        if (threadIdx.x == 0) a.out[t] = __uint_as_float(largest);
    } else {
        if (a.m) largest = given_largest(a, t);
        float s = scale_of(largest, quantized<Q>::most), inverse = inverse_of(s);
        if (threadIdx.x == 0) a.out[t] = s;
        for (int64_t c = threadIdx.x; c < a.cols; c += blockDim.x)
            a.q[t * a.cols + c] = (uint8_t)quantized<Q>::at(wide(x[c]), inverse);
    }
}

template <typename Q, typename T> static void quantize_rows(const tri_call *call, const quantize_args &a) {
    int packs = (int)blocks_for(a.cols, WARP * WIDE); /* of one warp */
    if (a.rows == 0) return;
    if (a.cols % WIDE || packs > ROW_WARPS * MOST_PACKS || !aligned(a.x) || (uintptr_t)a.q % WIDE) {
        queue(call, "quantize", quantize_any_kernel<Q, T>, (unsigned)a.rows, ROW_WARPS * WARP, a);
        return;
    }
    void (*const one[])(quantize_args) = {quantize_kernel<Q, T, 1, 1>, quantize_kernel<Q, T, 1, 2>,
                                          quantize_kernel<Q, T, 1, 3>, quantize_kernel<Q, T, 1, 4>};
    void (*const all[])(quantize_args) = {quantize_kernel<Q, T, 4, 2>, quantize_kernel<Q, T, 4, 3>,
                                          quantize_kernel<Q, T, 4, 4>};
    int by_one = packs <= MOST_PACKS;
    queue(call, "quantize", by_one ? one[max(packs, 1) - 1] : all[(packs - 1) / ROW_WARPS - 1],
          blocks_for(a.rows, by_one ? (int)ROW_WARPS : 1), ROW_WARPS * WARP, a);
}

template <typename T> static void row_max(const tri_call *call) {
    OPERANDS(row_max);
    quantize_args a = {};
    a.x = GIVEN(x), a.out = GIVEN(m), a.rows = call->t[ARG(x)].rows, a.cols = call->t[ARG(x)].cols;
    quantize_rows<row_max_only, T>(call, a);
}

template <typename Q, typename T> static void quantize(const tri_call *call) {
    OPERANDS(quantize);
    quantize_args a = {};
    a.x = GIVEN(x), a.m = GIVEN(m), a.q = GIVEN(q), a.out = GIVEN(s);
    a.rows = call->t[ARG(x)].rows, a.cols = call->t[ARG(x)].cols;
    a.sets = a.m && a.rows ? (int)(call->t[ARG(m)].rows / a.rows) : 0;
    quantize_rows<Q, T>(call, a);
}
template <typename T> static void quantize_int8(const tri_call *call) { quantize<int8_t, T>(call); }
template <typename T> static void quantize_fp8(const tri_call *call) { quantize<e4m3, T>(call); }

TRI_CUDA_FAMILY(quantize) = {
    TRI_CUDA_ROWS(TRI_OP_row_max, row_max, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_QUANT, TRI_OP_quantize, quantize_int8, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_QUANT | TRI_FACT_FP8, TRI_OP_quantize, quantize_fp8, {}),
    {},
};
