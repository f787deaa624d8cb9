/* dry_run.h - steps through the orders of a pipeline's ranks with given times, without programs: an independent
 * reference for the closed forms of schedules and for the simulator. */
#ifndef TRI_TESTS_DRY_RUN_H
#define TRI_TESTS_DRY_RUN_H

#include "plan/schedule/schedule.h"

/* An action begins when its rank is free and its inputs have arrived, `edge` after a stage of another rank computed
 * them.
 */
typedef struct dry_times {
    double span;            /* from the first action's begin to the last one's end */
    double *busy;           /* [n_ranks] */
    double **begin;         /* [n_ranks][actions] when each action begins */
} dry_times;

/* times: [n_stages]. TRI_INTERNAL when the orders deadlock. */
tri_status dry_run(tri_arena *arena, const tri_pipeline *pipeline, const tri_actions *orders,
                   const tri_stage_time *times, double edge, dry_times *out);

/* Idle share of the ranks' time: 1 - busy / (n_ranks * span). */
double dry_bubble(const tri_pipeline *pipeline, const dry_times *dry);

#endif
