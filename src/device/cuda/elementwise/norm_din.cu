/* norm_din.cu - the gradient of layer normalisation, alone and through the preceding residual and dropout, with the
 * sums over tokens of the same values: of gain, bias and the bias of the preceding dense layer. A block handles a run
 * of rows (columns.cuh), some in registers and the next being loaded. Rows that are too wide or unaligned are read
 * again for each sum. */
#include "device/cuda/elementwise/norm_din.cuh"

/* dx in memory. */
template <typename T> struct dx_end {
    T *dx; /* [T,H] */
    int64_t cols;
    int add;
    __device__ __forceinline__ pack<T, WIDE> put(int64_t t, int c, float (&value)[WIDE]) const {
        return ::put<WIDE>(dx + t * cols + c, value, add);
    }
    __device__ __forceinline__ void pause(int64_t) const {}
};

template <typename T> static __global__ void __launch_bounds__(DIN_WARPS *WARP, 2) norm_din_kernel(norm_din_args a) {
    dx_end<T> end = {(T *)a.dx, a.cols, a.add_dx};
    norm_din_run<T>(a, rows_of(blockIdx.x, gridDim.x, a.rows), end);
}

template <typename T> static __global__ void norm_din_any_kernel(norm_din_args a) {
    int64_t t = blockIdx.x;
    const T *dy = (const T *)a.dy + t * a.cols, *xhat = (const T *)a.xhat + t * a.cols, *g = (const T *)a.g;
    float mean = 0, mean_xhat = 0, factor = a.s ? *a.s : 1.0f;
    for (int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) {
        float d = wide(dy[c]) * wide(g[c]);
        mean += d, mean_xhat = fmaf(d, wide(xhat[c]), mean_xhat);
    }
    mean = block_sum(mean) / (float)a.cols, mean_xhat = block_sum(mean_xhat) / (float)a.cols;
    for (int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) {
        float value = a.rstd[t] * (wide(dy[c]) * wide(g[c]) - mean - wide(xhat[c]) * mean_xhat);
        T *dres = (T *)a.dres + t * a.cols + c, *dx = (T *)a.dx + t * a.cols + c;
        if (a.dres) *dres = narrow<T>(value + (a.add_dres ? wide(*dres) : 0.0f));
        *dx = narrow<T>(value * kept(a.drop, a.key, t, (uint32_t)c) * factor + (a.add_dx ? wide(*dx) : 0.0f));
    }
}

template <typename T> static void norm_dw_on(const tri_call *call, int dg, int db, const norm_din_args &a) {
    column_sums to = {{operand(call, db), operand(call, dg)}, {adds(call, db), adds(call, dg)}};
    sum_columns(call, a.rows, a.cols, sum_and_dot<T>{(const T *)a.dy, (const T *)a.xhat},
                aligned(a.dy, a.xhat), to);
}

/* Launches norm_din_kernel if it supports the call: aligned rows of up to 2560 columns. Returns whether it did. */
template <typename T> static int launch_din(const tri_call *call, const norm_din_args &a, int runs) {
    if (a.cols % WIDE != 0 || a.cols > DIN_WARPS * WARP * WIDE) return 0;
    if (!aligned(a.dy, a.xhat, a.g, a.dx, a.dres)) return 0;
    queue(call, "norm_din", norm_din_kernel<T>, runs, row_threads(a.cols), a);
    return 1;
}

/* Alone: without sums. */
template <typename T> static void norm_din(const tri_call *call) {
    OPERANDS(norm_din);
    norm_din_args a = norm_din_args_of(call);
    int norm_sums = call->t[ARG(dg)].data || call->t[ARG(db)].data, bias_sums = call->t[ARG(dbias)].data != NULL;
    if (norm_sums || bias_sums) a.part = static_cast<float *>(call->work);
    int runs = column_runs(a.rows, a.cols);
    if (a.cols == 0) return;
    if (launch_din<T>(call, a, runs)) {
        column_sums to = {{operand(call, ARG(db)), operand(call, ARG(dg)), operand(call, ARG(dbias))},
                          {adds(call, ARG(db)), adds(call, ARG(dg)), adds(call, ARG(dbias))}};
        if (a.part) end_columns(call, a.cols, runs, COLUMN_SUMS, to);
    } else {
        column_sums to = {{operand(call, ARG(dbias))}, {adds(call, ARG(dbias))}};
        if (a.rows) queue(call, "norm_din", norm_din_any_kernel<T>, (unsigned)a.rows, 128, a);
        if (norm_sums) norm_dw_on<T>(call, ARG(dg), ARG(db), a);
        if (bias_sums) sum_columns(call, a.rows, a.cols, sum_of<T>{(const T *)a.dx}, aligned(a.dx), to);
    }
}

template <typename T> static void norm_dw(const tri_call *call) {
    OPERANDS(norm_dw);
    norm_din_args a = {};
    a.dy = call->t[ARG(dy)].data, a.xhat = call->t[ARG(xhat)].data, a.rows = call->t[ARG(dy)].rows,
    a.cols = call->t[ARG(dy)].cols;
    norm_dw_on<T>(call, ARG(dg), ARG(db), a);
}

TRI_CUDA_FAMILY(norm_din) = {
    TRI_CUDA_ROWS(TRI_OP_norm_dw, norm_dw, COLUMN_WORK(2)),
    TRI_CUDA_ROWS(TRI_OP_norm_din, norm_din, COLUMN_WORK(3)),
    TRI_CUDA_FACT_ROWS(TRI_FACT_ALONE, TRI_OP_norm_din, norm_din, {}),
    {},
};
