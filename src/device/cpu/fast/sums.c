/* sums.c - sums over rows in double: bias and norm gradients. Rows are cut into a number of blocks that the shape fixes;
 * partial sums are added in the blocks' order. */
#include "device/cpu/fast/call.h"

enum { BLOCKS = 32, BLOCK_ROWS = 16, ENOUGH = 1 << 14 }; /* at most; at least, rows; elements */

static void sum_rows(const tri_call *call, int sum, int dot, int dy, int xhat) {
    const tri_simd *simd = tri__simd();
    int64_t rows = call->t[dy].rows, h = call->t[dy].cols;
    int64_t size = (rows + BLOCKS - 1) / BLOCKS > BLOCK_ROWS ? (rows + BLOCKS - 1) / BLOCKS : BLOCK_ROWS;
    int64_t blocks = (rows + size - 1) / size;
    double *sums = call->work, *dots = sums + BLOCKS * h; /* [BLOCKS,h] */
    const float *from = f32(call, dy), *other = xhat < 0 ? NULL : f32(call, xhat);
#pragma omp parallel num_threads(threads_for(call, rows * h, ENOUGH))
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < blocks; i++)
            simd->column_sums(i * size, (i + 1) * size < rows ? (i + 1) * size : rows, h, from, other, sums + i * h,
                              dots + i * h);
#pragma omp for schedule(static)
        for (int64_t j = 0; j < h; j++)
            for (int k = 0; k < (other ? 2 : 1); k++) {
                const double *part = k ? dots : sums;
                double total = 0;
                for (int64_t i = 0; i < blocks; i++) total += part[i * h + j];
                int out = k ? dot : sum;
                f32(call, out)[j] = (float)(adds(call, out) ? f32(call, out)[j] + total : total);
            }
    }
}

static void bias_dw(const tri_call *call) {
    enum { DB, DY };
    sum_rows(call, DB, -1, DY, -1);
}

static void norm_dw(const tri_call *call) {
    enum { DG, DB, DY, XHAT };
    sum_rows(call, DB, DG, DY, XHAT);
}

const tri_kernel_row tri__cpu_sums_fast[] = {
    {.op = TRI_OP_bias_dw, .dtype = TRI_F32, .run = bias_dw, .work = {.col = BLOCKS * 8}},
    {.op = TRI_OP_norm_dw, .dtype = TRI_F32, .run = norm_dw, .work = {.col = 2 * BLOCKS * 8}},
    {.run = NULL},
};
