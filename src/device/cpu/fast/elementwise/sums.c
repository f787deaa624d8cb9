/* sums.c - sums over rows in double: gradients of biases and norms, alone or fused with the operation that writes the
 * rows, which are then in cache. What is summed was rounded first, so that an operation alone gives the same sums. The
 * number of row blocks is fixed by the shape; partial sums are added in block order. */
#include "device/cpu/fast/elementwise/simd_activation.h"
#include "device/cpu/fast/elementwise/simd_norm.h"
#include "device/cpu/fast/elementwise/wide_rows.h"

/* The most blocks; the fewest rows of one; rows that are summed while in cache, and those that are only read. */
enum { BLOCKS = 32, BLOCK_ROWS = 16, CACHED_ROWS = 8, READ_ROWS = 64 };
enum { ENOUGH = 1 << 14, MOST_SUMS = 2, MOST_MATRICES = 4 }; /* elements */

/* The values of operands `sum` and `dot`, [1,h] each: the sums over rows of matrix x, and of x * y. y and dot -1: only
 * the first. Absent operands are skipped. */
typedef struct summed {
    int x, y, sum, dot;
} summed;

typedef struct making {
    tri_wide_rows r;
    tri_norm_din norm; /* of dropout_add_norm_din, except for the rows */
} making;

/* Computes rows t to t + n - 1; row[k]: where those of matrix k are. */
typedef void make_rows(const making *m, int64_t t, int64_t n, float *row[MOST_MATRICES]);

static void end_sum(const tri_call *call, int out, const double *part, int64_t blocks, int64_t h, int64_t j) {
    if (out < 0 || !call->t[out].data) return;
    double total = 0;
    uint16_t *half = call->dtype[out] == TRI_BF16 ? bf16(call, out) + j : NULL;
    float *wide = half ? NULL : f32(call, out) + j;
    for (int64_t i = 0; i < blocks; i++) total += part[i * h + j];
    if (adds(call, out)) total += half ? tri__from_bf16(*half) : *wide;
    if (half) *half = tri__to_bf16((float)total);
    else *wide = (float)total;
}

/* Partial sums, doubles [2 MOST_SUMS,BLOCKS,h] as far as they are used, begin the scratch space. */
static double *sums_at(const tri_call *call, int k, int64_t h) { return (double *)call->work + k * BLOCKS * h; }

static void sum_rows(const making *m, int n, const summed *of, make_rows *make) {
    const tri_call *call = m->r.call;
    int64_t T = m->r.T, h = m->r.h;
    int64_t size = (T + BLOCKS - 1) / BLOCKS > BLOCK_ROWS ? (T + BLOCKS - 1) / BLOCKS : BLOCK_ROWS;
    int64_t blocks = (T + size - 1) / size;
#pragma omp parallel num_threads(m->r.threads)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < blocks; i++) {
            int64_t end = (i + 1) * size < T ? (i + 1) * size : T;
            for (int64_t t = i * size; t < end; t += m->r.rows) {
                int64_t count = tri__wide_count(&m->r, t, end);
                float *row[MOST_MATRICES];
                make(m, t, count, row);
                for (int k = 0; k < n; k++)
                    simd_column_sums(0, count, h, row[of[k].x], of[k].y < 0 ? NULL : row[of[k].y],
                                     sums_at(call, 2 * k, h) + i * h, sums_at(call, 2 * k + 1, h) + i * h,
                                     t > i * size);
            }
        }
#pragma omp for schedule(static)
        for (int64_t j = 0; j < h; j++)
            for (int k = 0; k < n; k++) {
                end_sum(call, of[k].sum, sums_at(call, 2 * k, h), blocks, h, j);
                end_sum(call, of[k].dot, sums_at(call, 2 * k + 1, h), blocks, h, j);
            }
    }
}

static void make_bias(const making *m, int64_t t, int64_t n, float *row[MOST_MATRICES]) {
    row[0] = tri__wide_get(&m->r, 0, TRI_ARG(bias_dw, dy), t, n);
}

static void bias_dw(const tri_call *call) {
    OPERANDS(bias_dw);
    making m = {.r = tri__wide_rows(call, ARG(dy), 1, sums_at(call, 1, call->t[ARG(dy)].cols), ENOUGH, READ_ROWS)};
    sum_rows(&m, 1, &(summed){0, -1, ARG(db), -1}, make_bias);
}

static void make_norm(const making *m, int64_t t, int64_t n, float *row[MOST_MATRICES]) {
    OPERANDS(norm_dw);
    row[0] = tri__wide_get(&m->r, 0, ARG(dy), t, n), row[1] = tri__wide_get(&m->r, 1, ARG(xhat), t, n);
}

static void norm_dw(const tri_call *call) {
    OPERANDS(norm_dw);
    making m = {.r = tri__wide_rows(call, ARG(dy), 2, sums_at(call, 2, call->t[ARG(dy)].cols), ENOUGH, READ_ROWS)};
    sum_rows(&m, 1, &(summed){0, 1, ARG(db), ARG(dg)}, make_norm);
}

static void make_act_din(const making *m, int64_t t, int64_t n, float *row[MOST_MATRICES]) {
    OPERANDS(act_din);
    enum { DX, DY, AT };
    const tri_call *call = m->r.call;
    int add = adds(call, ARG(dx)), from = call->t[ARG(x)].data ? ARG(x) : ARG(y);
    float *dx = add ? tri__wide_get(&m->r, DX, ARG(dx), t, n) : tri__wide_at(&m->r, DX, ARG(dx), t);
    simd_act_din((tri_activation)(call->attr->activation - 1), n * m->r.h, tri__wide_get(&m->r, DY, ARG(dy), t, n),
                 tri__wide_get(&m->r, AT, from, t, n), dx, add);
    tri__wide_put(&m->r, dx, ARG(dx), t, n);
    row[0] = tri__wide_get(&m->r, DX, ARG(dx), t, n);
}

static void act_din_db(const tri_call *call) {
    OPERANDS(act_din);
    making m = {.r = tri__wide_rows(call, ARG(dy), 3, sums_at(call, 1, call->t[ARG(dy)].cols), ENOUGH, CACHED_ROWS)};
    sum_rows(&m, 1, &(summed){0, -1, ARG(db), -1}, make_act_din);
}

enum { DY, XHAT, DX, DRES }; /* matrices of dropout_add_norm_din */

static void make_norm_din(const making *m, int64_t t, int64_t n, float *row[MOST_MATRICES]) {
    OPERANDS(norm_din);
    const tri_wide_rows *r = &m->r;
    tri_norm_din norm = m->norm;
    if (norm.drop.key) norm.drop.key += 2 * t;
    norm.rstd += t;
    norm.dy = row[DY] = tri__wide_get(r, DY, ARG(dy), t, n);
    norm.xhat = row[XHAT] = tri__wide_get(r, XHAT, ARG(xhat), t, n);
    norm.dx = norm.acc_dx ? tri__wide_get(r, DX, ARG(dx), t, n) : tri__wide_at(r, DX, ARG(dx), t);
    norm.dres = norm.acc_dres ? tri__wide_get(r, DRES, ARG(dres), t, n) : tri__wide_at(r, DRES, ARG(dres), t);
    simd_norm_din(&norm, 0, n);
    tri__wide_put(r, norm.dx, ARG(dx), t, n);
    tri__wide_put(r, norm.dres, ARG(dres), t, n);
    if (r->call->t[ARG(dbias)].data) row[DX] = tri__wide_get(r, DX, ARG(dx), t, n);
}

static void dropout_add_norm_din(const tri_call *call) {
    OPERANDS(norm_din);
    float *work = (float *)(void *)sums_at(call, 3, call->t[ARG(dy)].cols);
    const float *g = tri__wide_vector(call, ARG(g), &work);
    making m = {.r = tri__wide_rows(call, ARG(dy), call->t[ARG(dres)].data ? 4 : 3, work, ENOUGH, CACHED_ROWS),
                .norm = {.drop = drop_of(call, ARG(key)), .factor = call->t[ARG(s)].data ? *f32(call, ARG(s)) : 1,
                         .h = call->t[ARG(dy)].cols, .rstd = f32(call, ARG(rstd)), .g = g,
                         .acc_dx = adds(call, ARG(dx)), .acc_dres = adds(call, ARG(dres))}};
    summed of[MOST_SUMS];
    int n = 0;
    if (call->t[ARG(dg)].data || call->t[ARG(db)].data) of[n++] = (summed){DY, XHAT, ARG(db), ARG(dg)};
    if (call->t[ARG(dbias)].data) of[n++] = (summed){DX, -1, ARG(dbias), -1};
    sum_rows(&m, n, of, make_norm_din);
}

#define ROWS(op_, run_, sums, facts_) TRI_HALF_ROWS(op_, run_, facts_, {.col = (sums) * BLOCKS * 8})
TRI_FAST_ROWS(sums) = TRI_KERNEL_ROWS(
    ROWS(bias_dw, bias_dw, 1, 0),
    ROWS(act_din, act_din_db, 1, TRI_FACT_ACT | TRI_FACT_DB),
    ROWS(norm_din, dropout_add_norm_din, 3, 0),
    {.op = TRI_OP_norm_dw, .dtype = TRI_F32, .run = norm_dw, .work = {.col = 2 * BLOCKS * 8}});
