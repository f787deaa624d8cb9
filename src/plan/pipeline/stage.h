/* stage.h - which stage computes which units, and which rank holds which stage. */
#ifndef TRI_PLAN_PIPELINE_STAGE_H
#define TRI_PLAN_PIPELINE_STAGE_H

#include "plan/plan.h"

struct tri_stages {
    tri_pipeline pipeline;
    int *of_unit;           /* [units of in->model] */
    tri_stage_time *time;   /* [n_stages] as the cut weighed them: seconds, or FLOPs where the target knows no rate */
    int head;               /* the stage that computes loss and probabilities: the last one */
    int branches; /* stages hand over directly; 0: a row, in which what goes further than the next is handed on */
};

/* Cuts the model of `in` for one step's program. `program`: the template of one microbatch of training that costs are
 * taken from; its unit i is unit i of in->model. Pure: the same on every rank. TRI_USAGE when in->staging cannot be
 * honoured. */
tri_status tri__stages_make(tri_arena *arena, const tri_plan_in *in, const tri_program *program, tri_stages *out);
/* The actions of all ranks of a pipeline, [n_ranks]. */
const tri_actions *tri__stages_orders(tri_arena *arena, const tri_plan_in *in, const tri_stages *stages);
/* The same for a plan that was never made: forward and backward of one microbatch are written for it. For the planner's
 * words, timelines, and choosing a shape. */
tri_status tri__stages_plan(tri_arena *arena, const tri_plan_in *in, tri_stages *out);

/* The only stage of a pipeline of one rank, without times. */
void tri__stages_one(tri_arena *arena, const tri_plan_in *in, tri_stages *out);

#endif
