/* columns.cuh - sums over the rows of [rows, cols] matrices, deterministic in two stages: blocks sum runs of rows in fp32 into
 * parts, then the parts are added in double. The runs depend on the shape only. */
#ifndef TRI_DEVICE_CUDA_COLUMNS_CUH
#define TRI_DEVICE_CUDA_COLUMNS_CUH

#include "device/cuda/common.cuh"

enum {
    COLUMN_LANES = 32, COLUMN_WARPS = 8, /* a block: 32 x 8 threads; a warp has 1 row, a thread N columns of it */
    COLUMN_PARTS = 256,                  /* the most runs of rows */
    COLUMN_BLOCKS = 1056,                /* enough to fill the largest GPU: fixed, so that sums are the same everywhere */
    COLUMN_ROWS = 32                     /* of a run, at least */
};

/* Runs of rows. */
static inline int column_runs(int64_t rows, int64_t cols, int64_t each) {
    int64_t wanted = COLUMN_BLOCKS / blocks_for(cols, COLUMN_LANES * each), most = (rows + COLUMN_ROWS - 1) / COLUMN_ROWS;
    int64_t runs = wanted < most ? wanted : most, limit = COLUMN_PARTS;
    return (int)(runs < 1 ? 1 : runs > limit ? limit : runs);
}

/* Of each column: sum of dy, and with XHAT the sum of dy * xhat. part [runs, 1 or 2, cols] */
template <typename T, int N, bool XHAT>
static __global__ void __launch_bounds__(COLUMN_LANES *COLUMN_WARPS)
    column_parts(int64_t rows, int64_t cols, const T *dy, const T *xhat, float *part) {
    int64_t c = ((int64_t)blockIdx.x * COLUMN_LANES + threadIdx.x) * N, run = (rows + gridDim.y - 1) / gridDim.y;
    int64_t begin = blockIdx.y * run, end = begin + run < rows ? begin + run : rows;
    float sum[N] = {}, product[N] = {};
    if (c < cols) {
#pragma unroll 4
        for (int64_t t = begin + threadIdx.y; t < end; t += COLUMN_WARPS) {
            float d[N], x[N];
            load<N>(dy + t * cols + c, d);
            if (XHAT) load<N>(xhat + t * cols + c, x);
#pragma unroll
            for (int k = 0; k < N; k++) {
                sum[k] += d[k];
                if (XHAT) product[k] = fmaf(d[k], x[k], product[k]);
            }
        }
    }
    __shared__ float shared[COLUMN_WARPS][XHAT ? 2 : 1][COLUMN_LANES * N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        shared[threadIdx.y][0][threadIdx.x * N + k] = sum[k];
        if (XHAT) shared[threadIdx.y][XHAT ? 1 : 0][threadIdx.x * N + k] = product[k];
    }
    __syncthreads();
    for (int i = threadIdx.y * COLUMN_LANES + threadIdx.x; i < COLUMN_LANES * N * (XHAT ? 2 : 1); i += COLUMN_LANES * COLUMN_WARPS) {
        int which = i / (COLUMN_LANES * N), column = i % (COLUMN_LANES * N);
        int64_t to = (int64_t)blockIdx.x * COLUMN_LANES * N + column;
        float total = 0;
        for (int w = 0; w < COLUMN_WARPS; w++) total += shared[w][which][column];
        if (to < cols) part[((int64_t)blockIdx.y * (XHAT ? 2 : 1) + which) * cols + to] = total;
    }
}

/* What the sums of a column go to: one, or two that lie side by side in the parts. */
typedef struct column_sums {
    loose out[2];
    int add[2];
} column_sums;

/* out[which][c] (+)= the sum of the parts of column c: each warp adds every eighth in double, then the warps' sums are added in order. */
static __global__ void column_end(int64_t cols, int runs, const float *part, column_sums to) {
    __shared__ double shared[COLUMN_WARPS][COLUMN_LANES];
    int64_t c = (int64_t)blockIdx.x * COLUMN_LANES + threadIdx.x;
    int which = blockIdx.y, of = gridDim.y;
    double total = 0;
    if (c < cols)
#pragma unroll 8
        for (int p = threadIdx.y; p < runs; p += COLUMN_WARPS) total += part[((int64_t)p * of + which) * cols + c];
    shared[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y || c >= cols || !to.out[which].data) return;
    total = to.add[which] ? loose_load(to.out[which], c) : 0.0;
    for (int w = 0; w < COLUMN_WARPS; w++) total += shared[w][threadIdx.x];
    loose_put(to.out[which], c, (float)total, 0);
}

/* part [COLUMN_PARTS, 1 or 2, cols] */
template <typename T, bool XHAT>
static void sum_columns(const tri_call *call, int64_t rows, int64_t cols, const T *dy, const T *xhat, float *part, column_sums to) {
    dim3 block(COLUMN_LANES, COLUMN_WARPS);
    int each = cols % WIDE == 0 && aligned(dy) && aligned(xhat) ? (int)WIDE : 1, runs = column_runs(rows, cols, each);
    dim3 grid(blocks_for(cols, COLUMN_LANES * each), runs);
    if (cols == 0) return;
    if (each == WIDE) column_parts<T, WIDE, XHAT><<<grid, block, 0, stream(call)>>>(rows, cols, dy, xhat, part);
    else column_parts<T, 1, XHAT><<<grid, block, 0, stream(call)>>>(rows, cols, dy, xhat, part);
    column_end<<<dim3(blocks_for(cols, COLUMN_LANES), XHAT ? 2 : 1), block, 0, stream(call)>>>(cols, runs, part, to);
}

#endif
