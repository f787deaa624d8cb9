/* columns.cuh - sums over the rows of [rows, cols] matrices, deterministic in two stages: a thread sums its columns
 * over a run of rows, in order and in fp32, into a part; then the parts are added in double. Runs depend on the shape
 * only, so that a sum has the same bits whether it is computed alone or fused; except that attention's gradient
 * (attention_backward.cu) and linear_din with an activation (act_product.cu) have other parts. */
#pragma once

#include "device/cuda/runtime/common.cuh"

enum {
    COLUMN_SMS = 132,        /* of the largest GPU: fixed, so that sums are the same everywhere */
    COLUMN_NARROW = 640,     /* threads of an SM if a block has whole rows (norm_din.cu), which needs registers */
    COLUMN_WIDE = 1280,      /* otherwise */
    COLUMN_EACH = 6,         /* the most runs per SM */
    COLUMN_ROWS = 8,         /* the fewest rows of a run */
    COLUMN_BLOCK = 160,      /* the most threads of a block that is assigned columns */
    COLUMN_END_WARPS = 32    /* of a block that adds parts */
};

/* Threads that hold a row, 8 columns each. */
static inline int row_threads(int64_t cols) { return (int)((cols + WARP * WIDE - 1) / (WARP * WIDE)) * WARP; }

/* Number of runs of rows. */
static inline int column_runs(int64_t rows, int64_t cols) {
    int threads = row_threads(cols), each = (threads <= 256 ? COLUMN_NARROW : COLUMN_WIDE) / threads;
    int64_t wanted = COLUMN_SMS * (each < 1             ? 1
                                   : each > COLUMN_EACH ? (int)COLUMN_EACH
                                                        : each),
            most = (rows + COLUMN_ROWS - 1) / COLUMN_ROWS;
    return (int)(most < 1 ? 1 : most < wanted ? most : wanted);
}
/* Scratch bytes for the parts of n sums. */
#define COLUMN_WORK(n) {0, 0, 4 * (n) * COLUMN_SMS * COLUMN_EACH, 0, 0}

typedef struct run_of_rows {
    int64_t begin, end;
} run_of_rows;
static __device__ __forceinline__ run_of_rows rows_of(int run, int runs, int64_t rows) {
    int64_t size = (rows + runs - 1) / runs, begin = run * size;
    return run_of_rows{begin < rows ? begin : rows, begin + size < rows ? begin + size : rows};
}

/* The summed values: `use` adds N elements of a row, read by `load`, to the sums, each [N]. AHEAD rows are read before
 * they are used. */
template <typename T> struct sum_of { /* of dy */
    enum { SUMS = 1, AHEAD = 4 };
    const T *dy; /* [rows, cols] */
    template <int N> struct raw {
        pack<T, N> dy;
    };
    template <int N> __device__ __forceinline__ void load(int64_t at, raw<N> &r) const { r.dy = packed<N>(dy + at); }
    template <int N> __device__ __forceinline__ void use(int64_t, const raw<N> &r, float (&sum)[SUMS][N]) const {
#pragma unroll
        for (int k = 0; k < N; k++) sum[0][k] += r.dy.at(k);
    }
};
template <typename T> struct sum_and_dot { /* of dy, and of dy * xhat */
    enum { SUMS = 2, AHEAD = 4 };
    const T *dy, *xhat; /* [rows, cols] */
    template <int N> struct raw {
        pack<T, N> dy, xhat;
    };
    template <int N> __device__ __forceinline__ void load(int64_t at, raw<N> &r) const {
        r.dy = packed<N>(dy + at), r.xhat = packed<N>(xhat + at);
    }
    template <int N> __device__ __forceinline__ void use(int64_t, const raw<N> &r, float (&sum)[SUMS][N]) const {
#pragma unroll
        for (int k = 0; k < N; k++) {
            sum[0][k] += r.dy.at(k);
            sum[1][k] = fmaf(r.dy.at(k), r.xhat.at(k), sum[1][k]);
        }
    }
};

/* blockIdx.y is the run. part [runs, S::SUMS, cols] */
template <class S, int N>
static __global__ void __launch_bounds__(COLUMN_BLOCK) column_parts(int64_t rows, int64_t cols, S of, float *part) {
    int64_t c = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    run_of_rows run = rows_of(blockIdx.y, gridDim.y, rows);
    if (c >= cols) return;
    float sum[S::SUMS][N] = {};
    for (int64_t t = run.begin; t < run.end; t += S::AHEAD) {
        typename S::template raw<N> raw[S::AHEAD];
#pragma unroll
        for (int r = 0; r < S::AHEAD; r++)
            if (t + r < run.end) of.template load<N>((t + r) * cols + c, raw[r]);
#pragma unroll
        for (int r = 0; r < S::AHEAD; r++)
            if (t + r < run.end) of.template use<N>((t + r) * cols + c, raw[r], sum);
    }
#pragma unroll
    for (int k = 0; k < S::SUMS; k++) store<N>(part + ((int64_t)blockIdx.y * S::SUMS + k) * cols + c, sum[k]);
}

/* Destinations of the sums of a column, in the order of the parts. */
enum { COLUMN_SUMS = 3 };
typedef struct column_sums {
    loose out[COLUMN_SUMS]; /* [cols]; data NULL: absent */
    int add[COLUMN_SUMS];
} column_sums;

/* out[blockIdx.y][c] (+)= the sum of the parts of column c: each warp adds every 32nd in double, then the warps' sums
 * are added in order. part [runs, gridDim.y, cols] */
static __global__ void __launch_bounds__(WARP *COLUMN_END_WARPS)
    column_end(int64_t cols, int runs, const float *part, column_sums to) {
    __shared__ double shared[COLUMN_END_WARPS][WARP];
    int which = blockIdx.y, of = gridDim.y, warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int64_t c = (int64_t)blockIdx.x * WARP + lane;
    if (!to.out[which].data) return;
    double total = 0;
    if (c < cols)
#pragma unroll 8
        for (int p = warp; p < runs; p += COLUMN_END_WARPS) total += part[((int64_t)p * of + which) * cols + c];
    shared[warp][lane] = total;
    __syncthreads();
    if (warp || c >= cols) return;
    total = to.add[which] ? loose_load(to.out[which], c) : 0.0;
    for (int w = 0; w < COLUMN_END_WARPS; w++) total += shared[w][lane];
    loose_put(to.out[which], c, (float)total, 0);
}

static void end_columns(const tri_call *call, int64_t cols, int runs, int sums, const column_sums &to) {
    queue(call, "sums of columns", column_end, dim3(blocks_for(cols, WARP), sums), WARP * COLUMN_END_WARPS, cols, runs,
          static_cast<const float *>(call->work), to);
}

/* wide_access: all operands are aligned for packs of 8. */
template <class S>
static void sum_columns(const tri_call *call, int64_t rows, int64_t cols, const S &of, int wide_access,
                        const column_sums &to) {
    int runs = column_runs(rows, cols);
    if (cols == 0) return;
    by_width(cols % WIDE == 0 && wide_access, [&](auto each) {
        unsigned groups = blocks_for(cols, each), across = blocks_for(groups, COLUMN_BLOCK);
        unsigned threads = blocks_for(blocks_for(groups, across), WARP) * WARP;
        queue(call, "sums of columns", column_parts<S, each>, dim3(across, runs), threads, rows, cols, of,
              static_cast<float *>(call->work)); /* [runs, S::SUMS, cols] */
    });
    end_columns(call, cols, runs, S::SUMS, to);
}
