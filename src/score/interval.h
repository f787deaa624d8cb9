/* interval.h - 95 % intervals of shares, by formula: what resampling cannot give where all rows agree. */
#pragma once

#include <stdint.h>

typedef struct tri_interval {
    double low, high; /* NaN: there is none */
} tri_interval;

extern const tri_interval tri__interval_none;

/* Of the share hits / n (Wilson, 1927): the shares whose distance from it is within 1.96 of their own standard errors.
 * None where n is 0. */
tri_interval tri__interval_share(int64_t hits, int64_t n);
/* Of F1. hits: rows of a class that are called it; either: rows that are of the class or called it. With j the share of
 * these that are both, F1 = 2 j / (1 + j): the ends of j's interval give those of F1. */
tri_interval tri__interval_f1(int64_t hits, int64_t either);
