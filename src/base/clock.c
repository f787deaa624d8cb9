/* clock.c - the system's clocks in seconds. */
#include "base/clock.h"

#include <time.h>

static double seconds(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double tri__clock(void) { return seconds(CLOCK_MONOTONIC); }
double tri__clock_wall(void) { return seconds(CLOCK_REALTIME); }
