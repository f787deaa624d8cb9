/* simd_activation.h - activations of feed-forward layers and their derivatives: GELU by the normal distribution's tail
 * or by tanh, SiLU; and tanh. */
#ifndef TRI_DEVICE_CPU_FAST_ELEMENTWISE_SIMD_ACTIVATION_H
#define TRI_DEVICE_CPU_FAST_ELEMENTWISE_SIMD_ACTIVATION_H

#include "device/cpu/fast/runtime/simd.h"
#include "program/op.h"

/* 1 / (1 + 2^-z) */
INLINE void vec_logistic(vf *z, int n) {
    EACH(j, n) z[j] = vec_min(all(126.0f), -z[j]);
    vec_exp2(z, n);
    EACH(j, n) z[j] = 1.0f / (1.0f + z[j]);
}

/* f(x) and its slope at x; slope NULL: not computed. act is a constant wherever this is called. */
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
            value[j] = vec_max((vf){0}, x[j]);
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
    }
}

INLINE void put_sum(float *to, int64_t left, vf v, int acc) { put(to, left, acc ? v + get(to, left) : v); }

INLINE void activate_some(tri_activation act, int64_t left, const float *x, float *y, int n) {
    vf v[MANY], value[MANY];
    EACH(j, n) v[j] = get(x + j * VEC, left - j * VEC);
    activate(act, v, value, NULL, n);
    EACH(j, n) put(y + j * VEC, left - j * VEC, value[j]);
}

INLINE void activate_din_some(tri_activation act, int64_t left, const float *dy, const float *x, float *dx, int acc,
                              int n) {
    vf v[MANY], value[MANY], slope[MANY];
    EACH(j, n) v[j] = get(x + j * VEC, left - j * VEC);
    activate(act, v, value, slope, n);
    EACH(j, n) put_sum(dx + j * VEC, left - j * VEC, get(dy + j * VEC, left - j * VEC) * slope[j], acc);
}

#define ACTIVATION(name, act)                                                                                          \
    SIMD void simd_##name(int64_t n, const float *x, float *y) {                                                       \
        int64_t i = 0;                                                                                                 \
        for (; i + AHEAD * VEC <= n; i += AHEAD * VEC) activate_some(act, AHEAD * VEC, x + i, y + i, AHEAD);           \
        for (; i < n; i += VEC) activate_some(act, n - i, x + i, y + i, 1);                                            \
    }                                                                                                                  \
    SIMD void simd_##name##_din(int64_t n, const float *dy, const float *x, float *dx, int acc) {                      \
        int64_t i = 0;                                                                                                 \
        for (; i + AHEAD * VEC <= n; i += AHEAD * VEC)                                                                 \
            activate_din_some(act, AHEAD * VEC, dy + i, x + i, dx + i, acc, AHEAD);                                    \
        for (; i < n; i += VEC) activate_din_some(act, n - i, dy + i, x + i, dx + i, acc, 1);                          \
    }
ACTIVATION(gelu, TRI_ACTIVATION_GELU)
ACTIVATION(gelu_tanh, TRI_ACTIVATION_GELU_TANH)
ACTIVATION(silu, TRI_ACTIVATION_SILU)
#undef ACTIVATION

SIMD void simd_tanh(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i += VEC) put(y + i, n - i, vec_tanh(get(x + i, n - i)));
}

#endif
