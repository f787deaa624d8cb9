/* stage.h - which stage computes which units, and which rank holds which stage. */
#pragma once

#include "plan/plan.h"

struct tri_stages {
    tri_pipeline pipeline;
    int *of_unit;           /* [units of in->model] */
    int head;               /* the stage that computes loss and probabilities: the last one */
    /* 1: stages send directly; 0: a chain, where values for later stages are forwarded by those between */
    int branches;
};

/* The stages of the plan of `in`: plans a training template of one microbatch, computes its costs and cuts it. Pure:
 * the same on every rank. tri__plan runs these stages, and all code that announces, reports or draws stages calls this
 * with the same mesh: there is no other cut. TRI_USAGE when in->staging cannot be met. */
tri_status tri__stages_plan(tri_arena *arena, const tri_plan_in *in, tri_stages *out);
/* The actions of all ranks of a pipeline, [n_ranks]. */
const tri_actions *tri__stages_orders(tri_arena *arena, const tri_plan_in *in, const tri_stages *stages);
/* The only stage of a pipeline of one rank. */
void tri__stages_one(tri_arena *arena, const tri_plan_in *in, tri_stages *out);
