/* norm_half.c - layer normalisation and dropout in bf16: as norm.c, on rows that are fp32 only in a thread's cache. */
#include "device/cpu/fast/runtime/fast.h"
#include "device/cpu/fast/elementwise/rows_half.h"

enum { ENOUGH = 1 << 13 }; /* elements */

static int64_t rows_end(const tri_half_rows *r, int64_t T, int64_t t) { return T - t < r->rows ? T : t + r->rows; }

static tri_drop drop_from(tri_drop drop, int64_t t) {
    if (drop.key) drop.key += 2 * t;
    return drop;
}

/* The operands of a norm; -1: the operation has none. */
typedef struct norm_args {
    int y, xhat, rstd, x, res, g, b;
} norm_args;

static void run_norm(const tri_call *call, const norm_args *a, tri_drop drop, float factor) {
    enum { X, RES, Y, XHAT };
    const tri_simd *simd = tri__simd();
    int64_t T = call->t[a->x].rows, h = call->t[a->x].cols;
    uint16_t *xhat = bf16(call, a->xhat), *res = a->res < 0 ? NULL : bf16(call, a->res); /* [T,h] */
    float *rstd = f32(call, a->rstd), *g = call->work, *b = g + h;                        /* [T], [h], [h] */
    simd->widen(h, bf16(call, a->g), g);
    if (bf16(call, a->b)) simd->widen(h, bf16(call, a->b), b);
    tri_half_rows r = tri__half_rows(call, T, h, 2 + (res != NULL) + (xhat != NULL), b + (bf16(call, a->b) ? h : 0),
                                     ENOUGH);
    int at[] = {[X] = 0, [Y] = 1, [RES] = 2, [XHAT] = 2 + (res != NULL)};
#pragma omp parallel for schedule(static) num_threads(r.threads)
    for (int64_t t = 0; t < T; t += r.rows) {
        int64_t n = rows_end(&r, T, t) - t;
        float *x = tri__half_rows_at(&r, at[X]), *y = tri__half_rows_at(&r, at[Y]), *z = tri__half_rows_at(&r, at[RES]),
              *unit = tri__half_rows_at(&r, at[XHAT]);
        simd->widen(n * h, bf16(call, a->x) + t * h, x);
        if (res) simd->widen(n * h, res + t * h, z);
        tri_norm_rows norm = {.drop = drop_from(drop, t), .factor = factor, .h = h, .x = x, .res = res ? z : NULL,
                              .g = g, .b = bf16(call, a->b) ? b : NULL, .y = y, .xhat = xhat ? unit : NULL,
                              .rstd = rstd ? rstd + t : NULL, .eps = call->attr->eps};
        simd->norm(&norm, 0, n);
        simd->narrow(n * h, y, bf16(call, a->y) + t * h);
        if (xhat) simd->narrow(n * h, unit, xhat + t * h);
    }
}

static void norm(const tri_call *call) {
    OPERANDS(norm);
    run_norm(call, &(norm_args){ARG(y), ARG(xhat), ARG(rstd), ARG(x), -1, ARG(g), ARG(b)}, (tri_drop){0}, 1);
}

static void dropout_add_norm(const tri_call *call) {
    OPERANDS(dropout_add_norm);
    run_norm(call, &(norm_args){ARG(y), ARG(xhat), ARG(rstd), ARG(x), ARG(res), ARG(g), ARG(b)},
             drop_of(call, ARG(key)), call->t[ARG(s)].data ? *f32(call, ARG(s)) : 1);
}

static void run_dropout(const tri_call *call, int to, int from, int key) {
    const tri_simd *simd = tri__simd();
    tri_drop drop = drop_of(call, key);
    int64_t T = call->t[to].rows, h = call->t[to].cols;
    tri_half_rows r = tri__half_rows(call, T, h, 2, call->work, ENOUGH);
#pragma omp parallel for schedule(static) num_threads(r.threads)
    for (int64_t t = 0; t < T; t += r.rows) {
        int64_t n = rows_end(&r, T, t) - t;
        float *x = tri__half_rows_at(&r, 0), *y = tri__half_rows_at(&r, 1);
        tri_drop here = drop_from(drop, t);
        simd->widen(n * h, bf16(call, from) + t * h, x);
        if (adds(call, to)) simd->widen(n * h, bf16(call, to) + t * h, y);
        simd->dropout(&here, 0, n, h, x, y, adds(call, to));
        simd->narrow(n * h, y, bf16(call, to) + t * h);
    }
}

static void dropout(const tri_call *call) {
    OPERANDS(dropout);
    run_dropout(call, ARG(y), ARG(x), ARG(key));
}

static void dropout_din(const tri_call *call) {
    OPERANDS(dropout_din);
    run_dropout(call, ARG(dx), ARG(dy), ARG(key));
}

void tri__cpu_norm_half(tri_kernel_table *table) {
    tri__kernel_table_run(table, TRI_OP_norm, 0, TRI_BF16, norm);
    tri__kernel_table_run(table, TRI_OP_dropout_add_norm, 0, TRI_BF16, dropout_add_norm);
    tri__kernel_table_run(table, TRI_OP_dropout, 0, TRI_BF16, dropout);
    tri__kernel_table_run(table, TRI_OP_dropout_din, 0, TRI_BF16, dropout_din);
}
