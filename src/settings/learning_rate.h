/* learning_rate.h - the learning rate of each step. */
#ifndef TRI_SETTINGS_LEARNING_RATE_H
#define TRI_SETTINGS_LEARNING_RATE_H

#include <stdint.h>

/* The learning rate of 0-based step s: linear warm-up, then linear decay to 0 at `steps`. */
double tri__learning_rate(double lr, int64_t warmup, int64_t steps, int64_t s);
/* Arguments: steps of warm-up and of the run, the learning rate reached and the one given. */
#define TRI_WARMUP_WORDS \
    "--warmup-steps %lld in a run of %lld: the learning rate rises until the last step and gets to %.3g only, not to " \
    "%.3g"

#endif
