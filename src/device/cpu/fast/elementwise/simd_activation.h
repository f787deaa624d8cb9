/* simd_activation.h - activations of feed-forward layers and their derivatives: GELU by the normal distribution's tail
 * or by tanh, SiLU, ReLU; and tanh. */
#pragma once

#include "device/activation.h"
#include "device/cpu/fast/runtime/simd.h"

/* 1 / (1 + 2^-z) */
INLINE void vec_logistic(vf *z, int n) {
    EACH(j, n) z[j] = vec_min(all(126.0f), -z[j]);
    vec_exp2(z, n);
    EACH(j, n) z[j] = 1.0f / (1.0f + z[j]);
}

/* One number at a time. */
INLINE void activate_each(tri_activation act, const vf *x, vf *value, vf *slope, int n) {
    EACH(j, n) {
        vf of = x[j], by = x[j];
        for (int i = 0; i < VEC; i++) {
            of[i] = (float)activation_at(act, x[j][i]);
            by[i] = (float)activation_din(act, 1, activation_by_result(act) ? of[i] : x[j][i]);
        }
        value[j] = of;
        if (slope) slope[j] = by;
    }
}
INLINE void activate_din_each(tri_activation act, vf *dy, const vf *at, int n) {
    EACH(j, n)
        for (int i = 0; i < VEC; i++) dy[j][i] = (float)activation_din(act, dy[j][i], at[j][i]);
}

/* f(x) and its slope at x; slope NULL: not computed. Activations that have no case here are computed by
 * device/activation.h, one number at a time. act is a constant wherever this is called, or one branch a call. */
INLINE void activate(tri_activation act, const vf *x, vf *value, vf *slope, int n) {
    const float density = 0.398942280401432678f;       /* 1 / sqrt(2 pi) */
    const float factor = 1.59576912160573071f, cubic = 0.044715f; /* 2 sqrt(2 / pi) */
    vf s[MANY], bell[MANY];
    switch (act) {
    case TRI_ACTIVATION_GELU:
        vec_tail(x, s, bell, n);
        EACH(j, n) { /* x Phi(x) = max(x, 0) - |x| Phi(-|x|): no cancellation on either side */
            value[j] = vec_max((vf){0}, x[j]) - vec_abs(x[j]) * s[j];
            if (!slope) continue;
            vi positive = x[j] > 0;
            slope[j] = masked(1.0f - s[j], positive) + masked(s[j], ~positive) + x[j] * bell[j] * density;
        }
        return;
    case TRI_ACTIVATION_GELU_TANH:
        EACH(j, n) s[j] = (x[j] * x[j] * cubic + 1.0f) * x[j] * (factor * log2_e);
        vec_logistic(s, n);
        EACH(j, n) {
            value[j] = x[j] * s[j];
            if (slope) slope[j] = s[j] + value[j] * (1.0f - s[j]) * (x[j] * x[j] * (3 * cubic) + 1.0f) * factor;
        }
        return;
    case TRI_ACTIVATION_RELU:
        EACH(j, n) {
            value[j] = masked(x[j], ~(x[j] < 0)); /* NaN stays NaN */
            if (slope) slope[j] = masked(all(1.0f), x[j] > 0);
        }
        return;
    case TRI_ACTIVATION_SILU:
        EACH(j, n) s[j] = x[j] * log2_e;
        vec_logistic(s, n);
        EACH(j, n) {
            value[j] = x[j] * s[j];
            if (slope) slope[j] = s[j] * (1.0f + x[j] * (1.0f - s[j]));
        }
        return;
    case TRI_ACTIVATION_TANH:
        EACH(j, n) {
            value[j] = vec_tanh(x[j]);
            if (slope) slope[j] = 1.0f - value[j] * value[j];
        }
        return;
    default: activate_each(act, x, value, slope, n);
    }
}

/* dy becomes dy * f'; `at` is x or, of an activation by_result, f(x). */
INLINE void activate_din(tri_activation act, vf *dy, const vf *at, int n) {
    vf value[MANY], slope[MANY];
    if (act == TRI_ACTIVATION_RELU) {
        EACH(j, n) dy[j] = masked(dy[j], at[j] > 0);
        return;
    }
    if (activation_by_result(act)) {
        activate_din_each(act, dy, at, n);
        return;
    }
    activate(act, at, value, slope, n);
    EACH(j, n) dy[j] *= slope[j];
}

INLINE void put_sum(float *to, int64_t left, vf v, int acc) { put(to, left, acc ? v + get(to, left) : v); }

INLINE void activate_some(tri_activation act, int64_t left, const float *x, float *y, int n) {
    vf v[MANY], value[MANY];
    EACH(j, n) v[j] = get(x + j * VEC, left - j * VEC);
    activate(act, v, value, NULL, n);
    EACH(j, n) put(y + j * VEC, left - j * VEC, value[j]);
}

INLINE void activate_din_some(tri_activation act, int64_t left, const float *dy, const float *at, float *dx, int acc,
                              int n) {
    vf v[MANY], d[MANY];
    EACH(j, n) v[j] = get(at + j * VEC, left - j * VEC), d[j] = get(dy + j * VEC, left - j * VEC);
    activate_din(act, d, v, n);
    EACH(j, n) put_sum(dx + j * VEC, left - j * VEC, d[j], acc);
}

INLINE void act_as(tri_activation act, int64_t n, const float *x, float *y) {
    int64_t i = 0;
    for (; i + AHEAD * VEC <= n; i += AHEAD * VEC) activate_some(act, AHEAD * VEC, x + i, y + i, AHEAD);
    for (; i < n; i += VEC) activate_some(act, n - i, x + i, y + i, 1);
}

INLINE void act_din_as(tri_activation act, int64_t n, const float *dy, const float *at, float *dx, int acc) {
    int64_t i = 0;
    for (; i + AHEAD * VEC <= n; i += AHEAD * VEC)
        activate_din_some(act, AHEAD * VEC, dy + i, at + i, dx + i, acc, AHEAD);
    for (; i < n; i += VEC) activate_din_some(act, n - i, dy + i, at + i, dx + i, acc, 1);
}

/* CALL(act) with a constant, so that the loops are compiled for it. */
#define EACH_ACTIVATION(act, CALL)                                              \
    switch (act) {                                                              \
    case TRI_ACTIVATION_GELU: CALL(TRI_ACTIVATION_GELU); break;                 \
    case TRI_ACTIVATION_GELU_TANH: CALL(TRI_ACTIVATION_GELU_TANH); break;       \
    case TRI_ACTIVATION_RELU: CALL(TRI_ACTIVATION_RELU); break;                 \
    case TRI_ACTIVATION_SILU: CALL(TRI_ACTIVATION_SILU); break;                 \
    default: CALL(act);                                                         \
    }

/* y = f(x) */
SIMD void simd_act(tri_activation which, int64_t n, const float *x, float *y) {
#define CALL(act) act_as(act, n, x, y)
    EACH_ACTIVATION(which, CALL)
#undef CALL
}

/* dx = dy * f'; `at` is x or, of an activation by_result, y. */
SIMD void simd_act_din(tri_activation which, int64_t n, const float *dy, const float *at, float *dx, int acc) {
#define CALL(act) act_din_as(act, n, dy, at, dx, acc)
    EACH_ACTIVATION(which, CALL)
#undef CALL
}
