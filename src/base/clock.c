/* clock.c - the system's clocks in seconds. */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

static double seconds(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double tri__clock(void) { return seconds(CLOCK_MONOTONIC); }
double tri__clock_wall(void) { return seconds(CLOCK_REALTIME); }

void tri__clock_sleep(double until) {
    struct timespec time = {.tv_sec = (time_t)until, .tv_nsec = (long)((until - (double)(time_t)until) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR) {}
}
