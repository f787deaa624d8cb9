/* sort.c - numbers in ascending order. */
#include "base/sort.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void tri__sort_doubles(double *values, int64_t n) {
    if (n > 0) qsort(values, (size_t)n, sizeof *values, ascending);
}
