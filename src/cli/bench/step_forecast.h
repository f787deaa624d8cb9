/* step_forecast.h - what the simulator says of a session's step. */
#ifndef TRI_CLI_BENCH_STEP_FORECAST_H
#define TRI_CLI_BENCH_STEP_FORECAST_H

#include "sim/hardware.h"
#include "train/session.h"

/* Seconds of a step like the last one, with the row counts of its microbatches; one rank. */
tri_status tri__step_predict(const tri_session *session, const tri_hardware *hardware, double *seconds);

#endif
