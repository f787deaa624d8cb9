/* outlook.h - what a run will take: its programs timed with row counts of real batches, then the whole run. */
#ifndef TRI_ENGINE_COST_OUTLOOK_H
#define TRI_ENGINE_COST_OUTLOOK_H

#include "engine/evaluate.h"
#include "sim/forecast.h"
#include "sim/timeline.h"

/* Row counts of some batches, spread over an epoch. */
typedef struct tri_sampled {
    tri_counts *counts;      /* [n, parts]: of each microbatch of each replica, tokens rounded up to the plan's granule;
                                NULL: no data, every microbatch counts as the largest */
    int n, parts;
    double samples, tokens;  /* of a batch, the mean */
    double flops;            /* nominal, likewise */
} tri_sampled;
enum { TRI_SAMPLED = 8 };    /* batches, at most */
/* Of the sampler's current epoch, the first if none. */
void tri__sample_rows(tri_arena *arena, tri_sampler *sampler, const tri_engine *engine, tri_sampled *out);

/* The run. What is not known is 0. */
typedef struct tri_outlook {
    tri_sampled train, valid;
    int64_t steps, epoch_steps, validations, valid_samples, checkpoints;
    double price;            /* of one rank for an hour */
    int threads;             /* of a rank; 0: as the hardware's cores and ranks of a node give them */
} tri_outlook;

/* Fills in checkpoints and validations that the settings ask for, from steps and epoch_steps. */
void tri__outlook_count(const tri_settings *settings, tri_outlook *run);
/* Times the training, forward and start programs of all ranks, and forecasts the run. With several sampled batches the
 * step is the mean over them; on large meshes fewer are taken, or each microbatch counts as the largest of all
 * replicas', so that the work is bounded. *step: the timeline of a batch from the middle, in the arena; may be NULL. */
tri_status tri__outlook_run(const tri_settings *settings, tri_arena *arena, const tri_engine *engine,
                            const tri_programs *all, const tri_hardware *hardware, const tri_outlook *run,
                            tri_timeline *step, tri_forecast *out);

#endif
