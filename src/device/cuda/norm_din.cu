/* norm_din.cu - the gradient of layer normalisation, alone and through the preceding residual and dropout, with the
 * sums over tokens of the same values: of gain, bias and the bias of the preceding dense layer. A block handles a run
 * of rows (columns.cuh), some in registers and the next being loaded. Rows that are too wide or unaligned are read
 * again for each sum. */
#include "device/cuda/columns.cuh"

typedef struct norm_din_args {
    const void *dy, *xhat, *g; /* [T,H] [T,H] [H] */
    void *dx, *dres;           /* [T,H]; dres may be NULL */
    const float *rstd;         /* [T] */
    const int32_t *key;        /* [T,2] or NULL */
    const float *s;            /* [1] a factor of dx; NULL: none */
    float *part;               /* [blocks,3,H]: sums of dy, of dy * xhat, of dx; NULL: none requested */
    int64_t rows, cols;
    int add_dx, add_dres;
    dropper drop;              /* of dx */
} norm_din_args;

enum { DIN_WARPS = 10 }; /* the most warps per row: 2560 columns */

/* Sums of n values over the block, in an order fixed by the shape; `turn` alternates between calls. */
template <int N> static __device__ __forceinline__ void block_sums(float (&x)[N], int turn) {
    __shared__ alignas(16) float shared[2][DIN_WARPS][N];
    int warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
#pragma unroll
    for (int k = 0; k < N; k++) x[k] = warp_sum(x[k]);
    if (threadIdx.x % WARP == 0) store<N>(shared[turn][warp], x);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < N; k++) x[k] = 0;
    for (int w = 0; w < warps; w++) {
        float more[N];
        load<N>(shared[turn][w], more);
#pragma unroll
        for (int k = 0; k < N; k++) x[k] += more[k];
    }
}

/* ROWS rows of a thread's inputs, from element `at` on. */
template <typename T, int ROWS> struct din_rows {
    pack<T, WIDE> dy[ROWS], xhat[ROWS];
    __device__ __forceinline__ void read(const norm_din_args &a, int64_t at, int rows) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (r >= rows) continue;
            dy[r] = packed<WIDE>((const T *)a.dy + at + r * a.cols);
            xhat[r] = packed<WIDE>((const T *)a.xhat + at + r * a.cols);
        }
    }
};

/* A block handles a run of rows, ROWS at a time, and a thread 8 columns of each, whose sums stay in registers. The next
 * rows are loaded while these are computed. */
template <typename T> static __global__ void __launch_bounds__(DIN_WARPS *WARP, 2) norm_din_kernel(norm_din_args a) {
    enum { ROWS = sizeof(T) == 2 ? 2 : 1 };
    run_of_rows run = rows_of(blockIdx.x, gridDim.x, a.rows);
    int c = threadIdx.x * WIDE, there = c < a.cols, turn = 0, left = (int)(run.end - run.begin);
    int64_t t = run.begin, at = t * a.cols + c;
    float db[WIDE] = {}, dg[WIDE] = {}, dbias[WIDE] = {}, share = 1.0f / (float)a.cols;
    float factor = a.s ? *a.s : 1.0f;
    pack<T, WIDE> g = {};
    din_rows<T, ROWS> next;
    if (there) g = packed<WIDE>((const T *)a.g + c), next.read(a, at, left);
    for (; left > 0; left -= ROWS, t += ROWS, at += ROWS * a.cols, turn ^= 1) {
        float rstd[ROWS], sum[2 * ROWS] = {}; /* of dy * g, and of it times xhat */
        uint32_t bits = 0;                    /* decisions: 8 per row */
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (r >= left) continue;
            rstd[r] = a.rstd[t + r];
            if (a.drop.threshold)
                bits |= kept_bits(a.drop, *a.drop.step, (uint32_t)a.key[2 * (t + r)], (uint32_t)a.key[2 * (t + r) + 1],
                                  threadIdx.x)
                        << 8 * r;
        }
        din_rows<T, ROWS> now = next;
        if (there) next.read(a, at + ROWS * a.cols, left - ROWS);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (r >= left || !there) continue;
#pragma unroll
            for (int i = 0; i < WIDE; i++) {
                float d = now.dy[r].at(i) * g.at(i);
                sum[2 * r] += d, sum[2 * r + 1] = fmaf(d, now.xhat[r].at(i), sum[2 * r + 1]);
            }
        }
        block_sums(sum, turn);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (r >= left || !there) continue;
            float value[WIDE], dropped[WIDE], mean = sum[2 * r] * share, mean_xhat = sum[2 * r + 1] * share;
#pragma unroll
            for (int i = 0; i < WIDE; i++) {
                float d = now.dy[r].at(i), x = now.xhat[r].at(i);
                db[i] += d, dg[i] = fmaf(d, x, dg[i]);
                value[i] = rstd[r] * (d * g.at(i) - mean - x * mean_xhat);
                dropped[i] = !a.drop.threshold ? value[i] : bits >> (8 * r + i) & 1 ? value[i] * a.drop.scale : 0.0f;
                dropped[i] *= factor;
            }
            if (a.dres) put<WIDE>((T *)a.dres + at + r * a.cols, value, a.add_dres);
            pack<T, WIDE> dx = put<WIDE>((T *)a.dx + at + r * a.cols, dropped, a.add_dx);
#pragma unroll
            for (int i = 0; i < WIDE; i++)
                dbias[i] = __fadd_rn(dbias[i], dx.at(i)); /* never fused into an FMA: the sum of rounded values */
        }
    }
    if (!a.part || !there) return;
    float *part = a.part + (int64_t)blockIdx.x * 3 * a.cols + c;
    store<WIDE>(part, db), store<WIDE>(part + a.cols, dg), store<WIDE>(part + 2 * a.cols, dbias);
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
                aligned(a.dy) && aligned(a.xhat), to);
}

/* Launches norm_din_kernel if it supports the call: aligned rows of up to 2560 columns. Returns whether it did. */
template <typename T> static int launch_din(const tri_call *call, const norm_din_args &a, int runs) {
    if (a.cols % WIDE != 0 || a.cols > DIN_WARPS * WARP * WIDE) return 0;
    if (!aligned(a.dy) || !aligned(a.xhat) || !aligned(a.g) || !aligned(a.dx) || !aligned(a.dres)) return 0;
    norm_din_kernel<T><<<runs, row_threads(a.cols), 0, stream(call)>>>(a);
    return 1;
}

template <typename T> static void norm_din(const tri_call *call) {
    OPERANDS(norm_din);
    norm_din_args a = {};
    a.dx = call->t[ARG(dx)].data, a.add_dx = adds(call, ARG(dx));
    a.dy = call->t[ARG(dy)].data, a.xhat = call->t[ARG(xhat)].data, a.rstd = data<float>(call, ARG(rstd)),
    a.g = call->t[ARG(g)].data;
    a.rows = call->t[ARG(dx)].rows, a.cols = call->t[ARG(dx)].cols;
    if (a.rows * a.cols == 0) return;
    if (!launch_din<T>(call, a, column_runs(a.rows, a.cols)))
        norm_din_any_kernel<T><<<(unsigned)a.rows, 128, 0, stream(call)>>>(a);
    launched(call, "norm_din");
}

template <typename T> static void dropout_add_norm_din(const tri_call *call) {
    OPERANDS(dropout_add_norm_din);
    norm_din_args a = {};
    a.dx = call->t[ARG(dx)].data, a.dres = call->t[ARG(dres)].data, a.add_dx = adds(call, ARG(dx)),
    a.add_dres = adds(call, ARG(dres));
    a.dy = call->t[ARG(dy)].data, a.xhat = call->t[ARG(xhat)].data, a.rstd = data<float>(call, ARG(rstd)),
    a.g = call->t[ARG(g)].data;
    a.key = data<int32_t>(call, ARG(key)), a.drop = dropper_of(call), a.s = data<float>(call, ARG(s));
    a.rows = call->t[ARG(dx)].rows, a.cols = call->t[ARG(dx)].cols;
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
        if (a.rows) norm_din_any_kernel<T><<<(unsigned)a.rows, 128, 0, stream(call)>>>(a);
        if (norm_sums) norm_dw_on<T>(call, ARG(dg), ARG(db), a);
        if (bias_sums) sum_columns(call, a.rows, a.cols, sum_of<T>{(const T *)a.dx}, aligned(a.dx), to);
    }
    launched(call, "dropout_add_norm_din");
}

template <typename T> static void norm_dw(const tri_call *call) {
    OPERANDS(norm_dw);
    norm_din_args a = {};
    a.dy = call->t[ARG(dy)].data, a.xhat = call->t[ARG(xhat)].data, a.rows = call->t[ARG(dy)].rows,
    a.cols = call->t[ARG(dy)].cols;
    norm_dw_on<T>(call, ARG(dg), ARG(db), a);
    launched(call, "norm_dw");
}

const tri_kernel_row tri__cuda_norm_din[] = {
    TRI_CUDA_ROWS(TRI_OP_norm_din, norm_din, {}),
    TRI_CUDA_ROWS(TRI_OP_norm_dw, norm_dw, COLUMN_WORK(2)),
    TRI_CUDA_ROWS(TRI_OP_dropout_add_norm_din, dropout_add_norm_din, COLUMN_WORK(3)),
    {},
};
