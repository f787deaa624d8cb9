/* run_forecast.h - what a run was predicted to take, beside what it took: in START's facts and in the summary. */
#ifndef TRI_TRAIN_RECORD_RUN_FORECAST_H
#define TRI_TRAIN_RECORD_RUN_FORECAST_H

#include "base/log.h"
#include "data/dataset/sampler.h"
#include "engine/engine.h"
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

/* A run about to begin. */
typedef struct tri_predicted_run {
    const tri_settings *settings;
    const tri_engine *engine;
    const tri_programs *programs; /* of all ranks */
    tri_sampler *sampler;
    const tri_dataset *valid; /* NULL: none */
    int64_t steps, epoch_steps; /* still to take; of an epoch */
} tri_predicted_run;

/* Never fails a run: what cannot be predicted is not. Logs the prediction where hardware is measured. */
void tri__prediction_make(const tri_predicted_run *run, const tri_log *log, tri_run_prediction *out);
void tri__prediction_step(tri_run_prediction *prediction, double seconds);
/* A new reference: hardware, origin, the forecast's fields; with measured > 0 seconds from the first step to the end,
 * also what was measured and the errors, predicted over measured - 1. NULL: no prediction. */
tri_json *tri__prediction_json(const tri_run_prediction *prediction, double measured);

#endif
