/* sort.h - numbers in ascending order. */
#pragma once

#include <stdint.h>

/* None of them NaN. */
void tri__sort_doubles(double *values, int64_t n);
