/* gelu.h - the Gaussian error linear unit (Hendrycks and Gimpel, 2016), by erf as in BERT, by tanh, and by a logistic
 * function (SiLU); and their derivatives. */
#ifndef TRI_DEVICE_CPU_REFERENCE_GELU_H
#define TRI_DEVICE_CPU_REFERENCE_GELU_H

#include <math.h>

/* erfc keeps its relative accuracy far below 0, where 1 + erf loses it. */
static inline double normal_cdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
static inline double normal_density(double x) { return 0.5 * M_SQRT1_2 * M_2_SQRTPI * exp(-0.5 * x * x); }

static inline double gelu_at(double x) { return x * normal_cdf(x); }
static inline double gelu_slope(double x) { return normal_cdf(x) + x * normal_density(x); }

/* The other two are x / (1 + exp(-z)): z = x, or this one, as (1 + tanh(z / 2)) / 2 = 1 / (1 + exp(-z)). */
static inline double gelu_tanh_power(double x) { return M_SQRT2 * M_2_SQRTPI * (x + 0.044715 * x * x * x); }
static inline double logistic(double z) { return 1 / (1 + exp(-z)); }

static inline double gelu_tanh_at(double x) { return x * logistic(gelu_tanh_power(x)); }
static inline double gelu_tanh_slope(double x) {
    double s = logistic(gelu_tanh_power(x));
    return s + x * s * (1 - s) * M_SQRT2 * M_2_SQRTPI * (1 + 3 * 0.044715 * x * x);
}
static inline double silu_at(double x) { return x * logistic(x); }
static inline double silu_slope(double x) {
    double s = logistic(x);
    return s * (1 + x * (1 - s));
}

#endif
