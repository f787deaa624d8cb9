/* rows_half.h - rows of bf16 matrices as fp32, a few at a time, in a thread's own part of the scratch space: they stay
 * in its cache between the fp32 kernel and the roundings, where copies of whole operands would pass through memory.
 * Each output is rounded once, as half.c does. */
#ifndef TRI_DEVICE_CPU_FAST_ELEMENTWISE_ROWS_HALF_H
#define TRI_DEVICE_CPU_FAST_ELEMENTWISE_ROWS_HALF_H

#include "device/cpu/fast/runtime/call.h"

#ifdef _OPENMP
#include <omp.h>
#else /* one thread */
static inline int omp_get_thread_num(void) { return 0; }
#endif

enum { TRI_HALF_ROWS = 8 }; /* at a time */

/* The scratch space holds, as for half.c, a float for each element of 16-bit operands. */
typedef struct tri_half_rows {
    int64_t h, rows;             /* columns; rows at a time */
    int threads;
    float *work;                 /* [threads,matrices,rows,h] */
    int matrices;
} tri_half_rows;

/* `matrices` of the operands are bf16 [T,h]; work: after what else the scratch space is used for. */
static inline tri_half_rows tri__half_rows(const tri_call *call, int64_t T, int64_t h, int matrices, void *work,
                                           int64_t enough) {
    int64_t rows = T < 1 ? 1 : T < TRI_HALF_ROWS ? T : TRI_HALF_ROWS;
    tri_half_rows r = {.h = h, .rows = rows, .work = work, .matrices = matrices};
    r.threads = threads_for(call, T * h, enough);
    if (T > 0 && r.threads > T / r.rows) r.threads = (int)(T / r.rows);
    return r;
}

/* The calling thread's rows of matrix k. */
static inline float *tri__half_rows_at(const tri_half_rows *r, int k) {
    return r->work + ((int64_t)omp_get_thread_num() * r->matrices + k) * r->rows * r->h;
}

static inline uint16_t *bf16(const tri_call *call, int k) { return call->t[k].data; }

#endif
