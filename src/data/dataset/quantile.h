/* quantile.h - maps numbers to a standard normal distribution by rank, like scikit-learn's QuantileTransformer. */
#pragma once

#include <stdint.h>

/* Quantiles 0, 1/(m-1), ..., 1 of n > 0 sorted values, m = min(n, TRI_QUANTILES_MAX), linear between values; returns
 * m. */
int tri__quantiles_fit(const double *sorted, int64_t n, double *quantile);
/* Quantiles 0, 1/(m-1), ..., 1, m of them; m > 1 where n is. */
void tri__quantiles_at(const double *sorted, int64_t n, int m, double *quantile);
/* The normal quantile of a value's rank, within +-5.1993. */
double tri__quantile_normal(double value, const double *quantile, int m);
/* The inverse of the standard normal distribution function, 0 < p < 1 (Wichura 1988, AS 241). */
double tri__normal_inverse(double p);
