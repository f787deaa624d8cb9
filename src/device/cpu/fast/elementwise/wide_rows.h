/* wide_rows.h - rows of fp32 or bf16 matrices as fp32. Those of fp32 are where they are. Those of bf16 are a few at a
 * time in a thread's own part of the scratch space: they stay in its cache between the fp32 kernel and the roundings,
 * where copies of whole operands would pass through memory. Each output is rounded once, as half.c does. */
#pragma once

#include "device/cpu/fast/elementwise/simd_half.h"
#include "device/cpu/fast/runtime/call.h"

/* The scratch space of bf16 holds, as for half.c, a float for each element of 16-bit operands. */
typedef struct tri_wide_rows {
    const tri_call *call;
    int is_half;                 /* bf16 */
    int64_t T, h, rows;          /* all rows; columns; rows at a time */
    int threads;
    float *work;                 /* [threads,matrices,rows,h] */
    int matrices;
} tri_wide_rows;

/* Of operand k, [T,h] as `matrices` in all; work: after what else the scratch space is used for; many: rows of fp32 at
 * a time. */
static inline tri_wide_rows tri__wide_rows(const tri_call *call, int k, int matrices, void *work, int64_t enough,
                                           int64_t many) {
    enum { ROWS = 8 };
    int64_t T = call->t[k].rows, h = call->t[k].cols;
    tri_wide_rows r = {.call = call, .is_half = call->dtype[k] == TRI_BF16, .T = T, .h = h, .work = work,
                       .matrices = matrices, .rows = T < 1 ? 1 : T < ROWS ? T : ROWS};
    if (!r.is_half) r.rows = many;
    r.threads = threads_for(call, T * h, enough);
    if (r.is_half && T > 0 && r.threads > T / r.rows) r.threads = (int)(T / r.rows);
    return r;
}

/* How many rows there are from row t on. */
static inline int64_t tri__wide_count(const tri_wide_rows *r, int64_t t, int64_t end) {
    return end - t < r->rows ? end - t : r->rows;
}

/* Room for rows of operand k from row t on, as matrix `number` of the calling thread; NULL: there is no operand. */
static inline float *tri__wide_at(const tri_wide_rows *r, int number, int k, int64_t t) {
    if (k < 0 || !r->call->t[k].data) return NULL;
    if (!r->is_half) return f32(r->call, k) + t * r->h;
    return r->work + ((int64_t)omp_get_thread_num() * r->matrices + number) * r->rows * r->h;
}

/* The same with n rows in it; and rounded to where they belong. */
static inline float *tri__wide_get(const tri_wide_rows *r, int number, int k, int64_t t, int64_t n) {
    float *rows = tri__wide_at(r, number, k, t);
    if (rows && r->is_half) simd_widen(n * r->h, bf16(r->call, k) + t * r->h, rows);
    return rows;
}
static inline void tri__wide_put(const tri_wide_rows *r, const float *rows, int k, int64_t t, int64_t n) {
    if (rows && r->is_half) simd_narrow(n * r->h, rows, bf16(r->call, k) + t * r->h);
}

/* Operand k, [1,h], of which bf16 is copied to *work, which moves beyond it; NULL: there is none. */
static inline const float *tri__wide_vector(const tri_call *call, int k, float **work) {
    float *copy = *work;
    if (!call->t[k].data || call->dtype[k] != TRI_BF16) return f32(call, k);
    simd_widen(call->t[k].cols, bf16(call, k), copy);
    *work += call->t[k].cols;
    return copy;
}
