/* peaks.h - the fastest products that this machine has shown, in a file that src/cli names: a peak that was measured
 * while others used the cores is too low, and the next run would be compared with another one. */
#pragma once

#include "base/json.h"

enum { TRI_PEAK_KEY = 200 };

/* The FLOP/s kept for a key; 0: none. A file that is missing or damaged has none. path NULL: nothing is kept. */
double tri__peak_kept(const char *path, const char *key);
/* Keeps it if it is higher. A file that cannot be written is not an error: the next run measures again. */
void tri__peak_keep(const char *path, const char *key, double flops);
