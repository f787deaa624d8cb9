/* clock.h - time. Intervals are monotonic. */
#pragma once

double tri__clock(void);       /* seconds, monotonic */
double tri__clock_wall(void);  /* seconds since 1970 */
void tri__clock_sleep(double until); /* a tri__clock() time; returns immediately if past */
