/* norm.c - layer normalisation and dropout: every row of the input is one work item, read and written once. The
 * gradient of the fused operation, which also needs sums, is in sums.c. */
#include "device/cpu/fast/elementwise/simd_norm.h"
#include "device/cpu/fast/runtime/call.h"

enum { ROWS = 16, ENOUGH = 1 << 13 }; /* rows of a range; elements */

static int64_t range_end(int64_t rows, int64_t t) { return rows - t < ROWS ? rows : t + ROWS; }

static void run_norm(const tri_call *call, const tri_norm_rows *norm, int64_t rows) {
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * norm->h, ENOUGH))
    for (int64_t t = 0; t < rows; t += ROWS) simd_norm(norm, t, range_end(rows, t));
}

static void run_dropout(const tri_call *call, int to, int from, int key) {
    tri_drop drop = drop_of(call, key);
    int64_t rows = call->t[to].rows, h = call->t[to].cols;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * h, ENOUGH))
    for (int64_t t = 0; t < rows; t += ROWS)
        simd_dropout(&drop, t, range_end(rows, t), h, f32(call, from), f32(call, to), adds(call, to));
}

static void norm(const tri_call *call) {
    OPERANDS(norm);
    run_norm(call,
             &(tri_norm_rows){.h = call->t[ARG(x)].cols,
                              .x = f32(call, ARG(x)),
                              .g = f32(call, ARG(g)),
                              .b = f32(call, ARG(b)),
                              .y = f32(call, ARG(y)),
                              .xhat = f32(call, ARG(xhat)),
                              .rstd = f32(call, ARG(rstd)),
                              .eps = call->attr->eps},
             call->t[ARG(x)].rows);
}

static void norm_din(const tri_call *call) {
    OPERANDS(norm_din);
    tri_norm_din norm = {.h = call->t[ARG(dy)].cols,
                         .dy = f32(call, ARG(dy)),
                         .xhat = f32(call, ARG(xhat)),
                         .rstd = f32(call, ARG(rstd)),
                         .g = f32(call, ARG(g)),
                         .dres = f32(call, ARG(dx)),
                         .acc_dres = adds(call, ARG(dx))};
    int64_t rows = call->t[ARG(dy)].rows;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * norm.h, ENOUGH))
    for (int64_t t = 0; t < rows; t += ROWS) simd_norm_din(&norm, t, range_end(rows, t));
}

static void dropout(const tri_call *call) {
    OPERANDS(dropout);
    run_dropout(call, ARG(y), ARG(x), ARG(key));
}

static void dropout_din(const tri_call *call) {
    OPERANDS(dropout_din);
    run_dropout(call, ARG(dx), ARG(dy), ARG(key));
}

static void dropout_add_norm(const tri_call *call) {
    OPERANDS(dropout_add_norm);
    run_norm(call,
             &(tri_norm_rows){.drop = drop_of(call, ARG(key)),
                              .factor = call->t[ARG(s)].data ? *f32(call, ARG(s)) : 1,
                              .h = call->t[ARG(x)].cols,
                              .x = f32(call, ARG(x)),
                              .res = f32(call, ARG(res)),
                              .g = f32(call, ARG(g)),
                              .b = f32(call, ARG(b)),
                              .y = f32(call, ARG(y)),
                              .xhat = f32(call, ARG(xhat)),
                              .rstd = f32(call, ARG(rstd)),
                              .eps = call->attr->eps},
             call->t[ARG(x)].rows);
}

TRI_FAST_ROWS(norm) = {
    {.op = TRI_OP_norm, .dtype = TRI_F32, .run = norm},
    {.op = TRI_OP_norm_din, .dtype = TRI_F32, .run = norm_din},
    {.op = TRI_OP_dropout, .dtype = TRI_F32, .run = dropout},
    {.op = TRI_OP_dropout_din, .dtype = TRI_F32, .run = dropout_din},
    {.op = TRI_OP_dropout_add_norm, .dtype = TRI_F32, .run = dropout_add_norm},
    {.run = NULL},
};
