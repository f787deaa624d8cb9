/* measure.h - the clock and the order that the bench programs share. */
#ifndef TRI_BENCH_MEASURE_H
#define TRI_BENCH_MEASURE_H

#include "base/clock.h"

#include <time.h>

/* Seconds: CPU time for one thread, so that other work on the machine does not count; wall time for more. */
static inline double bench_clock(int threads) {
    struct timespec now;
    if (threads > 1) return tri__clock();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline int bench_ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif
