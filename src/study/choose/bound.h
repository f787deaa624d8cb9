/* bound.h - lower bounds of a layout's step time and memory, from little planning.
 *
 * One microbatch is planned and simulated on one pipeline rank (for each size of microbatch, tp, type and
 * recomputation), which gives the seconds of each unit. What a step takes at least follows:
 *
 *   quick   the computing of all stages, shared evenly by the pipeline's ranks
 *   close   the schedule's order of the plan's own stages, with those seconds and without sends; then the gradients'
 *           transfers: after the backward that makes the first of them, on one link, and before the update; gathers of
 *           sharded weights. Where ranks move data themselves (no overlap), computing and moving add up
 *
 * Orders are fixed, so the time of a schedule never falls when something in it takes longer: what is left out (sends
 * between stages, small transfers, contention) can only raise it. */
#ifndef TRI_STUDY_CHOOSE_BOUND_H
#define TRI_STUDY_CHOOSE_BOUND_H

#include "study/choose/core.h"

typedef struct tri_bounds tri_bounds;

/* In the arena. */
tri_bounds *tri__bounds_open(tri_arena *arena, tri_chooser *chooser, int64_t global_batch, int threads);
/* Row counts of a layout's microbatches; counted once, after which threads may ask again. */
tri_status tri__bounds_rows(tri_bounds *bounds, const tri_layout *layout, tri_layout_rows *out);
/* Plans what the bounds of these layouts need: in parallel, each thing once. TRI_USAGE of a single layout is kept: its
 * bound is infinite, and tri__bounds_refusal says why. */
tri_status tri__bounds_prepare(tri_bounds *bounds, const tri_layout *const *layouts, int n, int close);
/* Seconds; `close` as prepared. INFINITY: the planner refuses the layout. From one thread at a time. */
double tri__bounds_seconds(tri_bounds *bounds, const tri_layout *layout, int close);
const char *tri__bounds_refusal(const tri_bounds *bounds); /* of the planner, the first; NULL: none */
/* Bytes that the rank that needs most needs at least: weights, gradients, optimizer state; activations of a stage.
 * After tri__bounds_prepare. */
int64_t tri__bounds_bytes(const tri_bounds *bounds, const tri_layout *layout);

#endif
