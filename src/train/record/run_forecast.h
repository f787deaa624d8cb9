/* run_forecast.h - what a run was predicted to take, beside what it took: in START's facts and in the summary. */
#pragma once

#include "sim/forecast.h"

enum { TRI_PREDICTED_STEPS = 1024 }; /* whose times are kept */

typedef struct tri_run_prediction {
    int is_made;             /* 0: it could not be, or this is not the first rank */
    int is_measured;         /* the hardware's figures were measured on a machine, not assumed */
    char hardware[256];
    tri_forecast forecast;   /* of this process: from the step at which it begins */
    double made_in;          /* seconds that it took to make */
    double seconds[TRI_PREDICTED_STEPS]; /* of the last steps, in turn */
    int64_t n;               /* steps taken */
} tri_run_prediction;

/* For a session that is about to begin; sets its prediction. Never fails a run: what cannot be predicted is not. Logs
 * the prediction where hardware is measured. */
void tri__prediction_make(tri_session *session);
void tri__prediction_step(tri_run_prediction *prediction, double seconds);
/* A new reference: hardware, origin, the forecast's fields; with measured > 0 seconds from the first step to the end,
 * also what was measured and the errors, predicted over measured - 1. NULL: no prediction. */
tri_json *tri__prediction_json(const tri_run_prediction *prediction, double measured);
