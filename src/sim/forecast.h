/* forecast.h - a whole run from the times of its programs: start-up, epochs, validation, checkpoints; rates, cost,
 * energy. */
#pragma once

#include "sim/hardware.h"

/* What a run does, and what its programs take on the hardware. What is not known is 0. */
typedef struct tri_run_facts {
    double step_seconds;       /* of the training program, the mean over batches */
    double busy;               /* share of all ranks' time in it that computes */
    double start_seconds;      /* of the start program */
    double infer_seconds;      /* of the forward program: a batch of a validation */
    int ranks, threads;        /* threads: of a rank, where ranks share cores */
    int workers;               /* threads that assemble a rank's batches; 0: 1 */
    tri_dtype dtype;           /* that it computes in */
    double samples, tokens;    /* of a step */
    double loaded_samples, loaded_tokens; /* of them, assembled by the rank with the most */
    double flops;              /* nominal, of a step: of all ranks */
    int64_t steps;             /* of the run */
    int64_t epoch_steps;       /* of an epoch */
    int64_t validations, valid_batches, valid_samples; /* in the run; batches and samples of one */
    int64_t checkpoints;       /* in the run */
    double checkpoint_bytes;   /* of one, of all ranks together */
    double price;              /* of one rank for an hour */
} tri_run_facts;

/* Seconds, unless said otherwise. 0: not known. */
typedef struct tri_forecast {
    double start_program;
    double start_up;           /* until the first step: processes, memory, the start program; not reading data */
    double step;               /* with the host's work, or that of the loader if it takes longer */
    double loader;             /* of a step's batch: what the loader takes for it */
    double epoch;              /* its steps, without validation */
    double validation, checkpoint; /* one of them */
    double run;                /* all of it */
    double samples_per_second, tokens_per_second; /* while training */
    double mfu;
    double cost, cost_of_epoch; /* in the currency of the price */
    double joules;             /* of the run */
} tri_forecast;

tri_forecast tri__forecast(const tri_hardware *hardware, const tri_run_facts *facts);
/* A new reference: the fields that are known, named as above with their units (step_seconds, energy_kwh, ...). */
tri_json *tri__forecast_json(const tri_forecast *forecast);
/* Whether the hardware's figures were measured on a machine, not assumed: then predictions may be announced. */
int tri__hardware_is_measured(const tri_hardware *hardware);
