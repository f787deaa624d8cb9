/* study.h - plans that are examined, not run, for the commands. */
#pragma once

#include "engine/engine.h"
#include "sim/hardware.h"
#include "study/row_counts.h"

/* All ranks' programs, planned and checked, and the inputs of the plan. */
typedef struct tri_study {
    int runs;          /* set by the caller: 1: the plan is for a run here, so the device itself is asked */
    tri_arena arena;   /* of `hardware` */
    tri_hardware hardware; /* that the plan is for: --hardware, or that of a device that is not here; name NULL: none */
    tri_assets assets;
    tri_row_source rows;
    tri_engine engine; /* of rank 0; not bound to memory */
    tri_programs all;
} tri_study;

/* Plans and checks settings->world_size ranks. beside: folder of the token store, NULL: none. *out: zeroed by the
 * caller, who closes it whatever this returns. TRI_STOPPED when `stop` (NULL: nobody asks) ended it. */
tri_status tri__study_open(const tri_settings *settings, const tri_log *log, const tri_stop *stop, const char *beside,
                           tri_study *out);
void tri__study_close(tri_study *study);
void tri__study_drop(tri_study **at); /* closes and frees one that was allocated */
/* Opens out->hardware: --hardware, or where the device's plug-in is missing, what was calibrated or is built in for it.
 * The device follows from it where none was given: settings->device is then a borrowed text, so `settings` is a copy
 * that is not freed. TRI_USAGE where the two contradict each other. Nothing for a plan that runs. */
tri_status tri__study_hardware(tri_settings *settings, tri_study *out, const tri_log *log);
/* What a plan of these settings would refuse. --precision int8 and fp8 are those of a plan for inference: *serves is
 * then 1, and they are replaced by the type of products and the computing type. */
tri_status tri__study_accept(tri_settings *settings, int *serves);

/* Plans settings->world_size ranks without touching data beyond its lengths. Prints, checks; facts as JSON (new
 * reference): per rank bytes of each class, instructions, flops a step; with --timeline or --hardware `simulation`,
 * with --csv `csv`, with --params `params` (below). `program`: text of --print-program, or NULL; the caller
 * frees it. */
tri_status tri__study_plan(const tri_settings *settings, const tri_log *log, tri_json **facts, char **program);

/* Proves printed programs: those of all ranks of a mesh, in any number of files. TRI_DATA at the first defect; the
 * message begins with file and line. facts (new reference): checked, programs: [{title, ranks, instructions, transfers,
 * peak_bytes}]. */
tri_status tri__study_check(const char *const *paths, int n, tri_json **facts);
/* Times them on --hardware (default: cpu). facts as `simulation` of a plan, without bubble and microbatches_held, which
 * only the plan knows. */
tri_status tri__study_simulate(const tri_settings *settings, const char *const *paths, int n, tri_json **facts);

/* The program after the pass --print-after, of the ranks that --print-program selects. The caller frees it. Later
 * passes are not run. */
tri_status tri__study_passes(const tri_settings *settings, const tri_log *log, char **program);

/* Before ranks are started on this machine: makes the token stores, plans and checks all ranks, and compares their
 * total need with the free memory (TRI_RESOURCE with figures). TRI_STOPPED when `stop` (may be NULL) ended it. */
tri_status tri__study_prepare(const tri_settings *settings, const tri_stop *stop);

/* ---- views of a plan in addition to its figures ---- */

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
