/* views.h - views of a plan in addition to its figures: the step on described hardware, the compute order, where each
 * parameter is. */
#ifndef TRI_STUDY_VIEWS_H
#define TRI_STUDY_VIEWS_H

#include "engine/engine.h"
#include "study/row_counts.h"

/* The step of all ranks, simulated on --hardware (default: the device's row); with --timeline or --svg what each rank
 * does when. A new reference: hardware, mesh, schedule, microbatches, step_seconds, samples_per_second, computing,
 * exposed, waiting (shares of all ranks' time), predicted_bubble (what is not computing: exposed and waiting), ranks:
 * [{rank, stage, computing_seconds, exposed_seconds, waiting_seconds, moving_seconds, finish_seconds, activation_bytes,
 * microbatches_held, legs: [[kind, microbatch, begin, end], ...], transfers: [[begin, end], ...]}]; stage is the place
 * on the pipeline's axis. Where steps are of several kinds all this is of the most frequent, `kind`, except
 * samples_per_second; mean_step_seconds and kinds: [{kind, share, step_seconds, sent_bytes (of the rank that sends
 * most)
 * }] are of all. forecast: that of the run (sim/forecast.h), steps. With data the step is one of a batch from
 * the middle of an epoch, and the forecast's the mean over several. Logs the stages, as tri__staging_say. */
tri_status tri__view_simulation(const tri_settings *settings, const tri_engine *engine, const tri_programs *all,
                                const tri_row_source *rows, const tri_log *log, tri_json **out);
/* The programs that --print-program selects (one rank's, or all ranks' in order; default: rank 0's), as text that the
 * caller frees: those of --print-kind out of `all`, or with --print-after as they are after that pass. */
tri_status tri__view_programs(const tri_settings *settings, const tri_engine *engine, const tri_classes *all,
                              char **text);
/* The compute order as text, a line for each place of the pipeline. A new reference. */
tri_status tri__view_order(const tri_engine *engine, tri_json **out);
/* parameters: [{name, shape, stage, split, owners, bytes, bytes_per_rank}], stages: [{stage, units, parameters,
 * elements, bytes}]. */
tri_status tri__view_params(const tri_engine *engine, tri_json **out);

#endif
