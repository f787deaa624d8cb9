/* columns.cuh - sums over the rows of [rows, cols] matrices, deterministic in two stages: blocks sum runs of rows in fp32 into
 * parts, then the parts are added in double. The runs depend on the shape only. */
#ifndef TRI_DEVICE_CUDA_COLUMNS_CUH
#define TRI_DEVICE_CUDA_COLUMNS_CUH

#include "device/cuda/common.cuh"

enum {
    COLUMN_LANES = 32, COLUMN_WARPS = 8, /* a block: 32 x 8 threads; a warp has 1 row, a thread N columns of it */
    COLUMN_PARTS = 64                    /* runs of rows */
};

/* Of each column: sum of dy, and with XHAT the sum of dy * xhat. part [COLUMN_PARTS, 1 or 2, cols] */
template <typename T, int N, bool XHAT>
static __global__ void column_parts(int64_t rows, int64_t cols, const T *dy, const T *xhat, float *part) {
    int64_t c = ((int64_t)blockIdx.x * COLUMN_LANES + threadIdx.x) * N, run = (rows + COLUMN_PARTS - 1) / COLUMN_PARTS;
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

/* out[c] (+)= the sum of the parts of column c; `which` of `of` interleaved sums. */
static __global__ void column_end(int64_t cols, const float *part, int which, int of, loose out, int add) {
    int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    double total = add ? loose_load(out, c) : 0.0;
#pragma unroll 8
    for (int p = 0; p < COLUMN_PARTS; p++) total += part[((int64_t)p * of + which) * cols + c];
    loose_put(out, c, (float)total, 0);
}

template <typename T, bool XHAT>
static void sum_columns(const tri_call *call, int64_t rows, int64_t cols, const T *dy, const T *xhat, float *part) {
    dim3 block(COLUMN_LANES, COLUMN_WARPS);
    if (cols % 4 == 0 && aligned(dy) && aligned(xhat))
        column_parts<T, 4, XHAT><<<dim3(blocks_for(cols, COLUMN_LANES * 4), COLUMN_PARTS), block, 0, stream(call)>>>(rows, cols, dy, xhat, part);
    else
        column_parts<T, 1, XHAT><<<dim3(blocks_for(cols, COLUMN_LANES), COLUMN_PARTS), block, 0, stream(call)>>>(rows, cols, dy, xhat, part);
}
static void end_columns(const tri_call *call, int64_t cols, const float *part, int which, int of, loose out, int add) {
    if (out.data) column_end<<<blocks_for(cols, 64), 64, 0, stream(call)>>>(cols, part, which, of, out, add);
}

#endif
