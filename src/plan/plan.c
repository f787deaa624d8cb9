/* plan.c - the passes, in order. */
#include "plan/plan.h"

static tri_status plan_train(tri_arena *arena, const tri_plan_in *in, tri_planned *out, const tri_model **held) {
    tri_pass pass = {.arena = arena, .in = in, .model = in->model};
    tri__pass_forward(&pass, 1);
    tri__pass_backward(&pass);
    tri__pass_recompute(&pass);
    tri__pass_fuse(&pass);
    tri__pass_prune(&pass);
    tri__pass_schedule(&pass, in->n_mb);
    TRI_TRY(tri__pass_shard(&pass));
    tri__pass_update(&pass);
    TRI_TRY(tri__pass_precision(&pass));
    tri__pass_memory(&pass, &in->max);
    *out = pass.out;
    *held = pass.model;
    return TRI_OK;
}

static tri_status plan_infer(tri_arena *arena, const tri_plan_in *in, tri_planned *out, const tri_model **held) {
    tri_pass pass = {.arena = arena, .in = in, .model = in->model};
    tri__pass_forward(&pass, 0);
    tri__pass_fuse(&pass);
    tri__pass_prune(&pass);
    tri__pass_schedule(&pass, 1);
    TRI_TRY(tri__pass_shard(&pass));
    TRI_TRY(tri__pass_precision(&pass));
    tri__pass_memory(&pass, &in->max_infer);
    *out = pass.out;
    *held = pass.model;
    return TRI_OK;
}

tri_status tri__plan(tri_arena *arena, const tri_plan_in *in, int train, tri_plan *plan) {
    *plan = (tri_plan){0};
    if (train) TRI_TRY(plan_train(arena, in, &plan->train, &plan->model));
    return plan_infer(arena, in, &plan->infer, &plan->model);
}
