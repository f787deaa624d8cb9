/* learning_rate.h - the learning rate of each step: warm-up, then a schedule, which is a row of learning_rates.def. */
#pragma once

#include "settings/settings.h"

/* How the rate of a run goes. */
typedef struct tri_rates {
    tri_lr_schedule schedule;
    double lr, power;      /* power: of polynomial */
    int64_t warmup, steps; /* of warm-up, of the run */
} tri_rates;

/* Steps of warm-up in a run of `steps`: --warmup-steps, or else --warmup-ratio of them, rounded up. */
int64_t tri__warmup_steps(const tri_settings *s, int64_t steps);
/* The settings' rates in a run of `steps`. */
tri_rates tri__rates(const tri_settings *s, int64_t steps);
/* The learning rate of 0-based step s: linear warm-up, then the schedule. */
double tri__learning_rate(const tri_rates *rates, int64_t s);
int tri__rate_falls(tri_lr_schedule schedule); /* to 0, at the end of the run */
/* Arguments: steps of warm-up and of the run, the learning rate reached and the one given. */
#define TRI_WARMUP_WORDS \
    "--warmup-steps %lld in a run of %lld: the learning rate rises until the last step and gets to %.3g only, not to " \
    "%.3g"
