/* sort.h - numbers in ascending order. */
#ifndef TRI_BASE_SORT_H
#define TRI_BASE_SORT_H

#include <stdint.h>

/* None of them NaN. */
void tri__sort_doubles(double *values, int64_t n);

#endif
