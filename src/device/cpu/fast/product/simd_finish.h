/* simd_finish.h - what follows a bf16 product while a row of its sums is in the L1 cache: bias, rounding, an activation
 * or its gradient, in one pass. */
#pragma once

#include "device/cpu/fast/elementwise/simd_activation.h"
#include "device/cpu/fast/elementwise/simd_half.h"
#include "device/cpu/fast/product/gemm_half.h"

enum { FINISH = 4 * VEC }; /* elements at a time */

INLINE void get_finish(const uint16_t *from, vf v[4]) { get_bf16(from, v), get_bf16(from + 2 * VEC, v + 2); }

INLINE void put_finish(uint16_t *to, const vf v[4]) { put_rounded(to, v), put_rounded(to + 2 * VEC, v + 2); }

/* FINISH elements from i on; activated, slope: constants that say which of the row's operands are present, with the
 * activation `act`, which is a constant, too, or one branch a call. */
INLINE void finish_some(const tri_half_row *r, const float *sum, int64_t i, tri_activation act, int activated,
                        int slope) {
    vf v[4], x[4];
    uint16_t rounded[FINISH] __attribute__((aligned(64))), *y = !slope && r->y ? r->y + i : rounded;
    EACH(j, 4) v[j] = load(sum + i + j * VEC);
    if (r->bias) {
        get_finish(r->bias + i, x);
        EACH(j, 4) v[j] += x[j];
    }
    if (r->add) {
        get_finish(r->y + i, x);
        EACH(j, 4) v[j] += x[j];
    }
    put_finish(y, v);
    if (activated) {
        get_finish(y, v);
        activate(act, v, x, NULL, 4);
        put_finish(r->activated + i, x);
    }
    if (slope) {
        get_finish(y, v);
        get_finish(r->slope_at + i, x);
        activate_din(act, v, x, 4);
        put_finish(r->y + i, v);
    }
}

/* All whole runs of FINISH elements; returns where the rest begins. */
INLINE int64_t finish_as(tri_activation act, const tri_half_row *r, int64_t n, const float *sum) {
    int64_t i = 0;
    if (r->activated)
        for (; i + FINISH <= n; i += FINISH) finish_some(r, sum, i, act, 1, 0);
    else
        for (; i + FINISH <= n; i += FINISH) finish_some(r, sum, i, act, 0, 1);
    return i;
}

static int64_t finish_runs(const tri_half_row *r, int64_t n, const float *sum) {
    int64_t i = 0;
    if (!r->activated && !r->slope_at)
        for (; i + FINISH <= n; i += FINISH) finish_some(r, sum, i, r->act, 0, 0);
    else
#define CALL(act) i = finish_as(act, r, n, sum)
        EACH_ACTIVATION(r->act, CALL)
#undef CALL
    return i;
}

/* The last elements, fewer than FINISH, from i on: in copies filled up with zeros. */
static void finish_rest(const tri_half_row *r, int64_t i, int64_t n, const float *sum) {
    float sums[FINISH] = {0};
    uint16_t part[4][FINISH] = {{0}};
    size_t bytes = (size_t)(n - i) * sizeof **part;
    tri_half_row rest = {.add = r->add, .act = r->act};
    memcpy(sums, sum + i, (size_t)(n - i) * sizeof *sums);
    if (r->bias) rest.bias = memcpy(part[0], r->bias + i, bytes);
    if (r->y) rest.y = r->add ? memcpy(part[1], r->y + i, bytes) : part[1];
    if (r->activated) rest.activated = part[2];
    if (r->slope_at) rest.slope_at = memcpy(part[3], r->slope_at + i, bytes);
    finish_runs(&rest, FINISH, sums);
    if (r->y) memcpy(r->y + i, part[1], bytes);
    if (r->activated) memcpy(r->activated + i, part[2], bytes);
}

void PER_ISA(tri__finish_half)(const tri_half_row *r, int64_t n, const float *sum) {
    int64_t i = finish_runs(r, n, sum);
    if (i < n) finish_rest(r, i, n, sum);
}
