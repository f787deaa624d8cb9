/* sums_half.c - sums over rows of bf16 matrices in double: as sums.c, on rows that are fp32 only in a thread's cache.
 * What is summed was rounded first, so that an operation alone gives the same sums. */
#include "device/cpu/cpu.h"
#include "device/cpu/fast/runtime/fast.h"
#include "device/cpu/fast/elementwise/rows_half.h"
#include "numbers/float16.h"

enum { BLOCKS = 32, BLOCK_ROWS = 16, ENOUGH = 1 << 14, MOST_SUMS = 2 }; /* as in sums.c */

/* The values of operands `sum` and `dot`: sums over the rows of matrix x, and of x * y, of the thread's rows. y and dot
 * -1: only the first. */
typedef struct summed {
    int x, y, sum, dot;
} summed;

typedef struct rows_made {
    const tri_call *call;
    tri_half_rows r;
    tri_norm_din norm; /* of dropout_add_norm_din, except for the rows */
} rows_made;

/* Computes rows t to t + n - 1, and leaves in the thread's rows what is summed. */
typedef void make_rows(const rows_made *m, int64_t t, int64_t n);

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

static void sum_rows(const rows_made *m, int64_t T, int n, const summed *of, make_rows *make) {
    const tri_call *call = m->call;
    int64_t h = m->r.h, size = (T + BLOCKS - 1) / BLOCKS > BLOCK_ROWS ? (T + BLOCKS - 1) / BLOCKS : BLOCK_ROWS;
    int64_t blocks = (T + size - 1) / size;
#pragma omp parallel num_threads(m->r.threads)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < blocks; i++) {
            int64_t end = (i + 1) * size < T ? (i + 1) * size : T;
            for (int64_t t = i * size; t < end; t += m->r.rows) {
                int64_t count = end - t < m->r.rows ? end - t : m->r.rows;
                make(m, t, count);
                for (int k = 0; k < n; k++)
                    tri__simd()->column_sums(0, count, h, tri__half_rows_at(&m->r, of[k].x),
                                             of[k].y < 0 ? NULL : tri__half_rows_at(&m->r, of[k].y),
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

/* The thread's rows of matrix k, those of operand `arg` from row t. */
static float *take_rows(const rows_made *m, int k, int arg, int64_t t, int64_t n) {
    float *to = tri__half_rows_at(&m->r, k);
    tri__simd()->widen(n * m->r.h, bf16(m->call, arg) + t * m->r.h, to);
    return to;
}

static void make_bias(const rows_made *m, int64_t t, int64_t n) { take_rows(m, 0, TRI_ARG(bias_dw, dy), t, n); }

static void bias_dw(const tri_call *call) {
    OPERANDS(bias_dw);
    int64_t T = call->t[ARG(dy)].rows, h = call->t[ARG(dy)].cols;
    if (call->dtype[ARG(dy)] != TRI_BF16) {
        tri__cpu_half_row(call);
        return;
    }
    rows_made m = {.call = call, .r = tri__half_rows(call, T, h, 1, sums_at(call, 1, h), ENOUGH)};
    sum_rows(&m, T, 1, &(summed){0, -1, ARG(db), -1}, make_bias);
}

static void make_act_din(const rows_made *m, int64_t t, int64_t n) {
    OPERANDS(act_din);
    enum { DX, DY, AT };
    const tri_simd *simd = tri__simd();
    int from = m->call->t[ARG(x)].data ? ARG(x) : ARG(y);
    float *dx = tri__half_rows_at(&m->r, DX), *dy = take_rows(m, DY, ARG(dy), t, n), *at = take_rows(m, AT, from, t, n);
    uint16_t *out = bf16(m->call, ARG(dx)) + t * m->r.h;
    if (adds(m->call, ARG(dx))) simd->widen(n * m->r.h, out, dx);
    simd->act_din((tri_activation)(m->call->attr->activation - 1), n * m->r.h, dy, at, dx, adds(m->call, ARG(dx)));
    simd->narrow(n * m->r.h, dx, out);
    simd->widen(n * m->r.h, out, dx);
}

static void act_din_db(const tri_call *call) {
    OPERANDS(act_din);
    int64_t T = call->t[ARG(dy)].rows, h = call->t[ARG(dy)].cols;
    if (call->dtype[ARG(dy)] != TRI_BF16) {
        tri__cpu_half_row(call);
        return;
    }
    rows_made m = {.call = call, .r = tri__half_rows(call, T, h, 3, sums_at(call, 1, h), ENOUGH)};
    sum_rows(&m, T, 1, &(summed){0, -1, ARG(db), -1}, make_act_din);
}

enum { DY, XHAT, DX, DRES }; /* matrices of dropout_add_norm_din */

/* Rounds n rows of matrix k to operand `arg` from row t. */
static void put_rows(const rows_made *m, int k, int arg, int64_t t, int64_t n) {
    tri__simd()->narrow(n * m->r.h, tri__half_rows_at(&m->r, k), bf16(m->call, arg) + t * m->r.h);
}

static void make_norm_din(const rows_made *m, int64_t t, int64_t n) {
    OPERANDS(dropout_add_norm_din);
    tri_norm_din norm = m->norm;
    int has_dres = bf16(m->call, ARG(dres)) != NULL;
    if (norm.drop.key) norm.drop.key += 2 * t;
    norm.rstd += t;
    norm.dy = take_rows(m, DY, ARG(dy), t, n), norm.xhat = take_rows(m, XHAT, ARG(xhat), t, n);
    norm.dx = norm.acc_dx ? take_rows(m, DX, ARG(dx), t, n) : tri__half_rows_at(&m->r, DX);
    if (has_dres) norm.dres = norm.acc_dres ? take_rows(m, DRES, ARG(dres), t, n) : tri__half_rows_at(&m->r, DRES);
    tri__simd()->norm_din(&norm, 0, n);
    put_rows(m, DX, ARG(dx), t, n);
    if (has_dres) put_rows(m, DRES, ARG(dres), t, n);
    if (m->call->t[ARG(dbias)].data) take_rows(m, DX, ARG(dx), t, n);
}

static void dropout_add_norm_din(const tri_call *call) {
    OPERANDS(dropout_add_norm_din);
    int64_t T = call->t[ARG(dy)].rows, h = call->t[ARG(dy)].cols;
    if (call->dtype[ARG(dy)] != TRI_BF16) {
        tri__cpu_half_row(call);
        return;
    }
    float *g = (float *)(void *)sums_at(call, 3, h); /* [h] */
    tri__simd()->widen(h, bf16(call, ARG(g)), g);
    rows_made m = {.call = call,
                   .r = tri__half_rows(call, T, h, bf16(call, ARG(dres)) ? 4 : 3, g + h, ENOUGH),
                   .norm = {.drop = drop_of(call, ARG(key)),
                            .factor = call->t[ARG(s)].data ? *f32(call, ARG(s)) : 1,
                            .h = h,
                            .rstd = f32(call, ARG(rstd)),
                            .g = g,
                            .acc_dx = adds(call, ARG(dx)),
                            .acc_dres = adds(call, ARG(dres))}};
    summed of[MOST_SUMS];
    int n = 0;
    if (call->t[ARG(dg)].data || call->t[ARG(db)].data) of[n++] = (summed){DY, XHAT, ARG(db), ARG(dg)};
    if (call->t[ARG(dbias)].data) of[n++] = (summed){DX, -1, ARG(dbias), -1};
    sum_rows(&m, T, n, of, make_norm_din);
}

void tri__cpu_sums_half(tri_kernel_table *table) {
    tri__kernel_table_run(table, TRI_OP_bias_dw, 0, TRI_BF16, bias_dw);
    tri__kernel_table_run(table, TRI_OP_act_din, TRI_FACT_ACT | TRI_FACT_DB, TRI_BF16, act_din_db);
    tri__kernel_table_run(table, TRI_OP_dropout_add_norm_din, 0, TRI_BF16, dropout_add_norm_din);
}
