/* trust.h - 1-bit LAMB's trust ratios: constants as published (Li et al., 2021) and as DeepSpeed's defaults. */
#pragma once

#include "base/kernel_function.h"

#include <math.h>

#define TRI_RATIO_KEPT 0.9    /* of a ratio's average, at each full step */
#define TRI_FACTOR_LEAST 0.5  /* bounds of the factor on that average, once signs travel */
#define TRI_FACTOR_MOST 4.0
#define TRI_FACTOR_CHANGE 0.1 /* a factor is within this share of the last step's */

/* The ratio of a step along a decoded momentum: average * factor, each 1 where it is 0, but at most LAMB's own, from
 * sums [3] of lamb_refresh. */
TRI_KERNEL_FUNCTION double tri__frozen_ratio(double average, double factor, const double *sums) {
    double ratio = (average != 0 ? average : 1) * (factor != 0 ? factor : 1);
    double own = sums[1] > 0 && sums[2] > 0 ? sqrt(sums[2] / sums[1]) : ratio;
    return ratio < own ? ratio : own;
}
