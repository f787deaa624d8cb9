/* activation.h - the formulas of activations, for kernels of every device: the Gaussian error linear unit (Hendrycks
 * and Gimpel, 2016) by erf as in BERT, and by tanh; SiLU; ReLU; tanh. NaN stays NaN: clipping detects it.
 *
 * Reference kernels compute these, in double. A device whose kernels have a faster form of one (simd_activation.h,
 * activation.cuh) says so there; all others run by these formulas. */
#pragma once

#include "program/op.h"

#include <math.h>

#ifdef __CUDACC__
#define TRI_ACTIVATION_FUNCTION static __host__ __device__ inline
#else
#define TRI_ACTIVATION_FUNCTION static inline
#endif

/* Whether a slope is computed from the result. */
TRI_ACTIVATION_FUNCTION int activation_by_result(tri_activation act) {
    switch (act) {
#define TRI_ACTIVATION(NAME, name, flops, slope, by_result, config) \
    case TRI_ACTIVATION_##NAME: return by_result;
#include "program/activation.def"
    default: return 0;
    }
}

/* erfc keeps its relative accuracy far below 0, where 1 + erf loses it. */
TRI_ACTIVATION_FUNCTION double normal_cdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
TRI_ACTIVATION_FUNCTION double normal_density(double x) { return 0.5 * M_SQRT1_2 * M_2_SQRTPI * exp(-0.5 * x * x); }

/* The GELU by tanh is x / (1 + exp(-z)) of this one, as (1 + tanh(z / 2)) / 2 = 1 / (1 + exp(-z)). */
TRI_ACTIVATION_FUNCTION double gelu_tanh_power(double x) {
    return M_SQRT2 * M_2_SQRTPI * (x + 0.044715 * x * x * x);
}
TRI_ACTIVATION_FUNCTION double logistic_at(double z) { return 1 / (1 + exp(-z)); }

/* y = f(x) */
TRI_ACTIVATION_FUNCTION double activation_at(tri_activation act, double x) {
    switch (act) {
    case TRI_ACTIVATION_GELU: return x * normal_cdf(x);
    case TRI_ACTIVATION_GELU_TANH: return x * logistic_at(gelu_tanh_power(x));
    case TRI_ACTIVATION_RELU: return x < 0 ? 0 : x;
    case TRI_ACTIVATION_SILU: return x * logistic_at(x);
    case TRI_ACTIVATION_TANH: return tanh(x);
    case TRI_ACTIVATION_COUNT: break;
    }
    return 0;
}

/* dx = dy * f'(x); `at` is x or, of an activation by_result, y. */
TRI_ACTIVATION_FUNCTION double activation_din(tri_activation act, double dy, double at) {
    double s;
    switch (act) {
    case TRI_ACTIVATION_GELU: return dy * (normal_cdf(at) + at * normal_density(at));
    case TRI_ACTIVATION_GELU_TANH:
        s = logistic_at(gelu_tanh_power(at));
        return dy * (s + at * s * (1 - s) * M_SQRT2 * M_2_SQRTPI * (1 + 3 * 0.044715 * at * at));
    case TRI_ACTIVATION_RELU: return at > 0 ? dy : 0;
    case TRI_ACTIVATION_SILU:
        s = logistic_at(at);
        return dy * (s * (1 + at * (1 - s)));
    case TRI_ACTIVATION_TANH: return dy * (1 - at * at);
    case TRI_ACTIVATION_COUNT: break;
    }
    return 0;
}
