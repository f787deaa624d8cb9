/* norm.c - layer normalisation and dropout: every row of the input is read and written once. The gradient of the fused
 * operation, which also needs sums, is in sums.c. */
#include "device/cpu/fast/elementwise/simd_norm.h"
#include "device/cpu/fast/elementwise/wide_rows.h"

enum { ENOUGH = 1 << 13, MANY_ROWS = 16 }; /* elements; rows */

/* Of the rows from t on. */
static tri_drop drop_from(tri_drop drop, int64_t t) {
    if (drop.key) drop.key += 2 * t;
    return drop;
}

static void norm(const tri_call *call) {
    OPERANDS(norm);
    tri_drop drop = drop_of(call, ARG(key));
    float *work = call->work, *rstd = f32(call, ARG(rstd)), factor = call->t[ARG(s)].data ? *f32(call, ARG(s)) : 1;
    const float *g = tri__wide_vector(call, ARG(g), &work), *b = tri__wide_vector(call, ARG(b), &work);
    int has_res = call->t[ARG(res)].data != NULL, has_xhat = call->t[ARG(xhat)].data != NULL;
    tri_wide_rows r = tri__wide_rows(call, ARG(x), 2 + has_res + has_xhat, work, ENOUGH, MANY_ROWS);
#pragma omp parallel for schedule(static) num_threads(r.threads)
    for (int64_t t = 0; t < r.T; t += r.rows) {
        int64_t n = tri__wide_count(&r, t, r.T);
        tri_norm_rows norm = {.drop = drop_from(drop, t), .factor = factor, .h = r.h, .g = g, .b = b,
                              .x = tri__wide_get(&r, 0, ARG(x), t, n), .res = tri__wide_get(&r, 2, ARG(res), t, n),
                              .y = tri__wide_at(&r, 1, ARG(y), t),
                              .xhat = tri__wide_at(&r, 2 + has_res, ARG(xhat), t),
                              .rstd = rstd ? rstd + t : NULL, .eps = call->attr->eps};
        simd_norm(&norm, 0, n);
        tri__wide_put(&r, norm.y, ARG(y), t, n);
        tri__wide_put(&r, norm.xhat, ARG(xhat), t, n);
    }
}

/* Alone. */
static void norm_din(const tri_call *call) {
    OPERANDS(norm_din);
    tri_wide_rows r = tri__wide_rows(call, ARG(dy), 0, NULL, ENOUGH, MANY_ROWS);
    tri_norm_din norm = {.h = r.h, .dy = f32(call, ARG(dy)), .xhat = f32(call, ARG(xhat)), .rstd = f32(call, ARG(rstd)),
                         .g = f32(call, ARG(g)), .dres = f32(call, ARG(dx)), .acc_dres = adds(call, ARG(dx))};
#pragma omp parallel for schedule(static) num_threads(r.threads)
    for (int64_t t = 0; t < r.T; t += r.rows) simd_norm_din(&norm, t, t + tri__wide_count(&r, t, r.T));
}

static void dropout(const tri_call *call) {
    OPERANDS(dropout);
    enum { to = ARG(y), from = ARG(x) };
    tri_drop drop = drop_of(call, ARG(key));
    tri_wide_rows r = tri__wide_rows(call, to, 2, call->work, ENOUGH, MANY_ROWS);
    int add = adds(call, to);
#pragma omp parallel for schedule(static) num_threads(r.threads)
    for (int64_t t = 0; t < r.T; t += r.rows) {
        int64_t n = tri__wide_count(&r, t, r.T);
        const float *x = tri__wide_get(&r, 0, from, t, n);
        float *y = add ? tri__wide_get(&r, 1, to, t, n) : tri__wide_at(&r, 1, to, t);
        tri_drop here = drop_from(drop, t);
        simd_dropout(&here, 0, n, r.h, x, y, add);
        tri__wide_put(&r, y, to, t, n);
    }
}

#define ROWS(op_, facts_) TRI_HALF_ROWS(op_, op_, facts_, {0})
TRI_FAST_ROWS(norm) = TRI_KERNEL_ROWS(
    ROWS(norm, 0), ROWS(norm, TRI_FACT_ALONE), ROWS(dropout, 0),
    {.op = TRI_OP_norm_din, .dtype = TRI_F32, .run = norm_din, .facts = TRI_FACT_ALONE});
