/* outlook.h - what a run will take: its programs timed with row counts of real batches, then the whole run. */
#pragma once

#include "engine/evaluate.h"
#include "sim/forecast.h"
#include "sim/timeline.h"

/* Row counts of some batches, spread over an epoch. */
typedef struct tri_sampled {
    /* [n, parts]: of each microbatch of each replica, tokens rounded up to the plan's granule; NULL: no data, every
     * microbatch counts as the largest */
    tri_counts *counts;
    int n, parts;
    double samples, tokens;  /* of a batch, the mean */
    double flops;            /* nominal, likewise */
} tri_sampled;
enum { TRI_SAMPLED = 8 };    /* batches, at most */
/* Of the sampler's current epoch, the first if none. */
void tri__sample_rows(tri_arena *arena, tri_sampler *sampler, const tri_engine *engine, tri_sampled *out);

/* A run. Its caller sets steps, epoch_steps, price and threads, as far as they are known. */
typedef struct tri_outlook {
    tri_sampled train, valid;
    tri_run_facts facts;
} tri_outlook;

/* With data: samples rows of both tables (valid NULL: there is none), and counts the checkpoints and validations that
 * the settings ask for. */
void tri__outlook_data(tri_arena *arena, const tri_settings *settings, const tri_engine *engine, tri_sampler *train,
                       tri_sampler *valid, tri_outlook *run);
/* Times the training, forward and start programs of all ranks, and forecasts the run. With several sampled batches the
 * step is the mean over them; on large meshes fewer are taken, or each microbatch counts as the largest of all
 * replicas', so that the work is bounded. *step: the timeline of a batch from the middle, in the arena; may be NULL. */
tri_status tri__outlook_run(const tri_settings *settings, tri_arena *arena, const tri_engine *engine,
                            const tri_programs *all, const tri_hardware *hardware, const tri_outlook *run,
                            tri_timeline *step, tri_forecast *out);
