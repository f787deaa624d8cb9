/* trust.h - constants of 1-bit LAMB's trust ratios, as published (Li et al., 2021) and as DeepSpeed's defaults. */
#ifndef TRI_LAYOUT_TRUST_H
#define TRI_LAYOUT_TRUST_H

#define TRI_RATIO_KEPT 0.9    /* of a ratio's average, at each full step */
#define TRI_FACTOR_LEAST 0.5  /* bounds of the factor on that average, once signs travel */
#define TRI_FACTOR_MOST 4.0
#define TRI_FACTOR_CHANGE 0.1 /* a factor is within this share of the last step's */

#endif
