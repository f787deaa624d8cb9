/* norm.c - layer normalisation and dropout: every row of the input is one piece of work, read and written once. sums.c
 * has the gradient of the fused one, which is summed, too. */
#include "device/cpu/fast/call.h"

enum { ROWS = 16, ENOUGH = 1 << 13 }; /* rows of a range; elements */

static int64_t range_end(int64_t rows, int64_t t) { return rows - t < ROWS ? rows : t + ROWS; }

static void run_norm(const tri_call *call, const tri_norm_rows *norm, int64_t rows) {
    const tri_simd *simd = tri__simd();
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * norm->h, ENOUGH))
    for (int64_t t = 0; t < rows; t += ROWS) simd->norm(norm, t, range_end(rows, t));
}

static void run_dropout(const tri_call *call, int to, int from, int key) {
    const tri_simd *simd = tri__simd();
    tri_drop drop = drop_of(call, key);
    int64_t rows = call->t[to].rows, h = call->t[to].cols;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * h, ENOUGH))
    for (int64_t t = 0; t < rows; t += ROWS)
        simd->dropout(&drop, t, range_end(rows, t), h, f32(call, from), f32(call, to), adds(call, to));
}

static void norm(const tri_call *call) {
    enum { Y, XHAT, RSTD, X, G, B };
    run_norm(call,
             &(tri_norm_rows){.h = call->t[X].cols,
                              .x = f32(call, X),
                              .g = f32(call, G),
                              .b = f32(call, B),
                              .y = f32(call, Y),
                              .xhat = f32(call, XHAT),
                              .rstd = f32(call, RSTD),
                              .eps = call->attr->eps},
             call->t[X].rows);
}

static void norm_din(const tri_call *call) {
    enum { DX, DY, XHAT, RSTD, G };
    const tri_simd *simd = tri__simd();
    tri_norm_din norm = {.h = call->t[DY].cols, .dy = f32(call, DY), .xhat = f32(call, XHAT), .rstd = f32(call, RSTD),
                         .g = f32(call, G), .dres = f32(call, DX), .acc_dres = adds(call, DX)};
    int64_t rows = call->t[DY].rows;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * norm.h, ENOUGH))
    for (int64_t t = 0; t < rows; t += ROWS) simd->norm_din(&norm, t, range_end(rows, t));
}

static void dropout(const tri_call *call) {
    enum { Y, X, KEY };
    run_dropout(call, Y, X, KEY);
}

static void dropout_din(const tri_call *call) {
    enum { DX, DY, KEY };
    run_dropout(call, DX, DY, KEY);
}

static void dropout_add_norm(const tri_call *call) {
    enum { Y, XHAT, RSTD, X, RES, G, B, KEY };
    run_norm(call,
             &(tri_norm_rows){.drop = drop_of(call, KEY),
                              .h = call->t[X].cols,
                              .x = f32(call, X),
                              .res = f32(call, RES),
                              .g = f32(call, G),
                              .b = f32(call, B),
                              .y = f32(call, Y),
                              .xhat = f32(call, XHAT),
                              .rstd = f32(call, RSTD),
                              .eps = call->attr->eps},
             call->t[X].rows);
}

const tri_kernel_row tri__cpu_norm_fast[] = {
    {.op = TRI_OP_norm, .dtype = TRI_F32, .run = norm},
    {.op = TRI_OP_norm_din, .dtype = TRI_F32, .run = norm_din},
    {.op = TRI_OP_dropout, .dtype = TRI_F32, .run = dropout},
    {.op = TRI_OP_dropout_din, .dtype = TRI_F32, .run = dropout_din},
    {.op = TRI_OP_dropout_add_norm, .dtype = TRI_F32, .run = dropout_add_norm},
    {.run = NULL},
};
