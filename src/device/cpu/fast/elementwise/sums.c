/* sums.c - sums over rows in double: gradients of biases and norms, alone or fused with the operation that writes
 * the rows, which are then in cache. The number of row blocks is fixed by the shape; partial sums are added in block
 * order. */
#include "device/cpu/fast/runtime/call.h"

enum {
    BLOCKS = 32,
    BLOCK_ROWS = 16,
    CACHED_ROWS = 8,
    ENOUGH = 1 << 14,
    MOST_SUMS = 2
}; /* the most blocks; the fewest rows of one; rows summed while in cache; elements */

/* The values of operands `sum` and `dot`, [1,h] each: the sums over rows of x [T,h], and of x * y. dot -1, y NULL: only
 * the first. Absent operands are skipped. */
typedef struct summed {
    const float *x, *y;
    int sum, dot;
} summed;

/* Computes rows t0 to t1 - 1 of the summed matrix. */
typedef void make_rows(const void *what, int64_t t0, int64_t t1);

static void end_sum(const tri_call *call, int out, const double *part, int64_t blocks, int64_t h, int64_t j) {
    if (out < 0 || !f32(call, out)) return;
    double total = 0;
    for (int64_t i = 0; i < blocks; i++) total += part[i * h + j];
    f32(call, out)[j] = (float)(adds(call, out) ? f32(call, out)[j] + total : total);
}

/* make NULL: the rows exist already. Scratch: for each of n, doubles [2,BLOCKS,h], or [BLOCKS,h] without a dot in the
 * last. */
static void sum_rows(const tri_call *call, int64_t rows, int64_t h, int n, const summed *of, make_rows *make,
                     const void *what) {
    const tri_simd *simd = tri__simd();
    int64_t size = (rows + BLOCKS - 1) / BLOCKS > BLOCK_ROWS ? (rows + BLOCKS - 1) / BLOCKS : BLOCK_ROWS;
    int64_t blocks = (rows + size - 1) / size;
    double *sums[MOST_SUMS], *dots[MOST_SUMS];
    for (int k = 0; k < n; k++) sums[k] = (double *)call->work + 2 * k * BLOCKS * h, dots[k] = sums[k] + BLOCKS * h;
#pragma omp parallel num_threads(threads_for(call, rows * h, ENOUGH))
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < blocks; i++) {
            int64_t begin = i * size, end = begin + size < rows ? begin + size : rows, step = make ? CACHED_ROWS : size;
            for (int64_t t = begin; t < end; t += step) {
                int64_t next = t + step < end ? t + step : end;
                if (make) make(what, t, next);
                for (int k = 0; k < n; k++)
                    simd->column_sums(t, next, h, of[k].x, of[k].y, sums[k] + i * h, dots[k] + i * h, t > begin);
            }
        }
#pragma omp for schedule(static)
        for (int64_t j = 0; j < h; j++)
            for (int k = 0; k < n; k++) {
                end_sum(call, of[k].sum, sums[k], blocks, h, j);
                end_sum(call, of[k].dot, dots[k], blocks, h, j);
            }
    }
}

static void bias_dw(const tri_call *call) {
    OPERANDS(bias_dw);
    sum_rows(call, call->t[ARG(dy)].rows, call->t[ARG(dy)].cols, 1, &(summed){f32(call, ARG(dy)), NULL, ARG(db), -1},
             NULL, NULL);
}

static void norm_dw(const tri_call *call) {
    OPERANDS(norm_dw);
    sum_rows(call, call->t[ARG(dy)].rows, call->t[ARG(dy)].cols, 1,
             &(summed){f32(call, ARG(dy)), f32(call, ARG(xhat)), ARG(db), ARG(dg)}, NULL, NULL);
}

static void make_norm_din(const void *what, int64_t t0, int64_t t1) { tri__simd()->norm_din(what, t0, t1); }

static void dropout_add_norm_din(const tri_call *call) {
    OPERANDS(dropout_add_norm_din);
    const float *dy = f32(call, ARG(dy)), *xhat = f32(call, ARG(xhat)); /* [T,H] */
    tri_norm_din norm = {.drop = drop_of(call, ARG(key)),
                         .factor = call->t[ARG(s)].data ? *f32(call, ARG(s)) : 1,
                         .h = call->t[ARG(dy)].cols,
                         .dy = dy,
                         .xhat = xhat,
                         .rstd = f32(call, ARG(rstd)),
                         .g = f32(call, ARG(g)),
                         .dx = f32(call, ARG(dx)),
                         .dres = f32(call, ARG(dres)),
                         .acc_dx = adds(call, ARG(dx)),
                         .acc_dres = adds(call, ARG(dres))};
    summed of[MOST_SUMS];
    int n = 0;
    if (f32(call, ARG(dg)) || f32(call, ARG(db))) of[n++] = (summed){dy, xhat, ARG(db), ARG(dg)};
    if (f32(call, ARG(dbias))) of[n++] = (summed){norm.dx, NULL, ARG(dbias), -1};
    sum_rows(call, call->t[ARG(dy)].rows, norm.h, n, of, make_norm_din, &norm);
}

typedef struct act_rows {
    tri_activation act;
    const float *dy, *at; /* [T,h] */
    float *dx;           /* [T,h] */
    int64_t h;
    int add;
} act_rows;

static void make_act_din(const void *what, int64_t t0, int64_t t1) {
    const act_rows *g = what;
    int64_t at = t0 * g->h;
    tri__simd()->act_din(g->act, (t1 - t0) * g->h, g->dy + at, g->at + at, g->dx + at, g->add);
}

static void act_din_db(const tri_call *call) {
    OPERANDS(act_din);
    act_rows rows = {(tri_activation)(call->attr->activation - 1), f32(call, ARG(dy)),
                     f32(call, call->t[ARG(x)].data ? ARG(x) : ARG(y)), f32(call, ARG(dx)), call->t[ARG(dx)].cols,
                     adds(call, ARG(dx))};
    sum_rows(call, call->t[ARG(dx)].rows, rows.h, 1, &(summed){rows.dx, NULL, ARG(db), -1}, make_act_din, &rows);
}

const tri_kernel_row tri__cpu_sums_fast[] = {
    {.op = TRI_OP_bias_dw, .dtype = TRI_F32, .run = bias_dw, .work = {.col = BLOCKS * 8}},
    {.op = TRI_OP_norm_dw, .dtype = TRI_F32, .run = norm_dw, .work = {.col = 2 * BLOCKS * 8}},
    {.op = TRI_OP_dropout_add_norm_din, .dtype = TRI_F32, .run = dropout_add_norm_din, .work = {.col = 3 * BLOCKS * 8}},
    {.op = TRI_OP_act_din, .dtype = TRI_F32, .run = act_din_db, .work = {.col = BLOCKS * 8},
     .facts = TRI_FACT_ACT | TRI_FACT_DB},
    {.run = NULL},
};
