/* views.h - what a plan can show beside its figures: the step on described hardware, the compute order, every
 * parameter's place. */
#ifndef TRI_STUDY_VIEWS_H
#define TRI_STUDY_VIEWS_H

#include "engine/engine.h"

/* The step of all ranks, simulated on --hardware (left out: the device's row); with --timeline or --svg what each rank
 * does when. A new reference: hardware, mesh, schedule, microbatches, step_seconds, samples_per_second, computing,
 * exposed, waiting (shares of all ranks' time), predicted_bubble (what is not computing: exposed and waiting), ranks:
 * [{rank, stage, computing_seconds, exposed_seconds, waiting_seconds, moving_seconds, finish_seconds, activation_bytes,
 * microbatches_held, legs: [[kind, microbatch, begin, end], ...], transfers: [[begin, end], ...]}]; stage is the place
 * on the pipeline's axis. */
tri_status tri__view_simulation(const tri_settings *settings, const tri_engine *engine, const tri_programs *all,
                                tri_json **out);
/* The programs that --print-program asks for (a rank's, all ranks' one after the other, left out: rank 0's), in text
 * that the caller frees: out of `all`, those of --print-kind, or with --print-after as they stand after that pass. */
tri_status tri__view_programs(const tri_settings *settings, const tri_plan_in *in, const tri_classes *all, char **text);
/* The compute order as text, a line for each place of the pipeline. A new reference. */
tri_status tri__view_order(const tri_engine *engine, tri_json **out);
/* parameters: [{name, shape, stage, split, owners, bytes, bytes_per_rank}], stages: [{stage, units, parameters,
 * elements, bytes}]. */
tri_status tri__view_params(const tri_engine *engine, tri_json **out);

#endif
