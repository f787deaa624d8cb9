/* simd_gated.h - gated activations: y = f(a) * b for each of the activations, and the gradients of a and b. */
#pragma once

#include "device/cpu/fast/elementwise/simd_activation.h"

/* The gradients of y = f(a) * b. */
typedef struct tri_gated_din {
    int64_t n;
    const float *dy, *a, *b;     /* [n] each */
    float *da, *db;
    int acc;
} tri_gated_din;

INLINE void gated_some(tri_activation act, int64_t left, const float *a, const float *b, float *y, int n) {
    vf x[MANY], value[MANY];
    EACH(j, n) x[j] = get(a + j * VEC, left - j * VEC);
    activate(act, x, value, NULL, n);
    EACH(j, n) put(y + j * VEC, left - j * VEC, value[j] * get(b + j * VEC, left - j * VEC));
}

INLINE void gated_din_some(tri_activation act, const tri_gated_din *g, int64_t i, int64_t left, int n) {
    vf x[MANY], value[MANY], slope[MANY];
    EACH(j, n) x[j] = get(g->a + i + j * VEC, left - j * VEC);
    activate(act, x, value, slope, n);
    EACH(j, n) {
        int64_t at = i + j * VEC, rest = left - j * VEC;
        vf dy = get(g->dy + at, rest);
        put_sum(g->da + at, rest, dy * slope[j] * get(g->b + at, rest), g->acc);
        put_sum(g->db + at, rest, dy * value[j], g->acc);
    }
}

enum { GATED_AHEAD = 3 }; /* vectors at a time */

INLINE void gated_as(tri_activation act, int64_t n, const float *a, const float *b, float *y) {
    int64_t i = 0;
    for (; i + GATED_AHEAD * VEC <= n; i += GATED_AHEAD * VEC)
        gated_some(act, GATED_AHEAD * VEC, a + i, b + i, y + i, GATED_AHEAD);
    for (; i < n; i += VEC) gated_some(act, n - i, a + i, b + i, y + i, 1);
}

INLINE void gated_din_as(tri_activation act, const tri_gated_din *g) {
    int64_t i = 0;
    for (; i + GATED_AHEAD * VEC <= g->n; i += GATED_AHEAD * VEC)
        gated_din_some(act, g, i, GATED_AHEAD * VEC, GATED_AHEAD);
    for (; i < g->n; i += VEC) gated_din_some(act, g, i, g->n - i, 1);
}

SIMD void simd_gated(tri_activation which, int64_t n, const float *a, const float *b, float *y) {
#define CALL(act) gated_as(act, n, a, b, y)
    EACH_ACTIVATION(which, CALL)
#undef CALL
}

SIMD void simd_gated_din(tri_activation which, const tri_gated_din *g) {
#define CALL(act) gated_din_as(act, g)
    EACH_ACTIVATION(which, CALL)
#undef CALL
}
