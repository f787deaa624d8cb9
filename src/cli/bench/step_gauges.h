/* step_gauges.h - reads the device's clock and power while steps run (device/gauges.h). */
#pragma once

#include "base/json.h"
#include "exec/exec.h"

typedef struct tri_gauge_watch tri_gauge_watch;

/* Begins to read, in a thread; *watch is NULL on devices that have no gauges, as all other calls accept. The caller
 * frees it. */
tri_status tri__gauge_watch(tri_exec *exec, tri_gauge_watch **watch);
/* Stops to read: the calls below are made after it. */
void tri__gauge_stop(tri_gauge_watch *watch);
/* The mean clock from `begin` to `end`, seconds on tri__clock, in MHz; 0: it was not read in that time. */
double tri__gauge_clock(const tri_gauge_watch *watch, double begin, double end);
/* Adds what was read from `begin` to `end`: clock_mhz, clock_mhz_min, power_w, power_limit_w, and the share of readings
 * in which the clock was lowered, by reason. */
void tri__gauge_tell(const tri_gauge_watch *watch, double begin, double end, tri_json *to);
