/* gelu.h - the Gaussian error linear unit (Hendrycks and Gimpel, 2016), by erf as in BERT, and its derivative. */
#ifndef TRI_DEVICE_CPU_REFERENCE_GELU_H
#define TRI_DEVICE_CPU_REFERENCE_GELU_H

#include <math.h>

/* erfc keeps its relative accuracy far below 0, where 1 + erf loses it. */
static inline double normal_cdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
static inline double normal_density(double x) { return 0.5 * M_SQRT1_2 * M_2_SQRTPI * exp(-0.5 * x * x); }

static inline double gelu_at(double x) { return x * normal_cdf(x); }
static inline double gelu_slope(double x) { return normal_cdf(x) + x * normal_density(x); }

#endif
