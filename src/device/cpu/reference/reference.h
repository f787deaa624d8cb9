/* reference.h - how reference kernels access their operands.
 *
 * Reference kernels are the specification of the operations: plain, serial, and exact where that is cheap: they compute
 * in double and round once when they store. OPERANDS and ARG name the operands as ops.def does. */
#pragma once

#include "device/activation.h"
#include "device/cpu/cpu.h"
#include "device/operands.h"

static inline float *f32(const tri_call *call, int k) { return call->t[k].data; }
static inline double *f64(const tri_call *call, int k) { return call->t[k].data; }
static inline const int32_t *i32(const tri_call *call, int k) { return call->t[k].data; }

static inline int adds(const tri_call *call, int k) { return (call->acc >> k) & 1; }

/* Whether a step is applied; an operand that is left out stands for 1. */
static inline int applies(const tri_call *call, int apply) { return !call->t[apply].data || *i32(call, apply); }

/* Writes element i of operand k, or adds to it if the instruction accumulates. Does nothing if the operand is
 * absent. */
static inline void store(const tri_call *call, int k, int64_t i, double value) {
    float *out = f32(call, k);
    if (out) out[i] = (float)(adds(call, k) ? out[i] + value : value);
}

/* Zeroes an operand that is not accumulated into. */
static inline void clear(const tri_call *call, int k) {
    int64_t n = adds(call, k) ? 0 : call->t[k].rows * call->t[k].cols;
    for (int64_t i = 0; i < n; i++) f32(call, k)[i] = 0;
}

/* Operand sum [1,H] = sum_t x [T,H]; with y, the sum of x * y. */
static inline void sum_rows(const tri_call *call, int sum, const float *x, const float *y, int64_t T, int64_t H) {
    for (int64_t c = 0; c < H; c++) {
        double total = 0;
        for (int64_t t = 0; t < T; t++) total += y ? (double)x[t * H + c] * y[t * H + c] : x[t * H + c];
        store(call, sum, c, total);
    }
}

/* The activation of an operation that may have one. */
static inline double activated(const tri_call *call, double h) {
    int32_t of = call->attr->activation;
    return of ? activation_at((tri_activation)(of - 1), h) : h;
}

/* The dropout factor of one value of row t: 0, or 1 / (1 - p). key [T,2] may be absent when p is 0. */
static inline double keep(const tri_call *call, const int32_t *key, int64_t t, int64_t feature) {
    if (call->attr->p == 0) return 1;
    uint32_t threshold = tri__random_threshold(call->attr->p);
    tri_random random = tri__philox(call->seed, call->attr->id, call->step, (uint32_t)key[2 * t],
                                    (uint32_t)key[2 * t + 1], (uint32_t)(feature / 8));
    return tri__random_decision(&random, feature % 8) < threshold ? 0 : tri__random_scale(threshold);
}
