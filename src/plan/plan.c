/* plan.c - the passes, in order. */
#include "plan/stage.h"

static tri_status plan_train(tri_arena *arena, const tri_plan_in *in, const tri_stages *stages, tri_planned *out,
                             const tri_model **held) {
    tri_pass pass = {.arena = arena, .in = in, .model = in->model, .stages = stages};
    tri__pass_forward(&pass, 1);
    tri__pass_backward(&pass);
    tri__pass_recompute(&pass);
    tri__pass_fuse(&pass);
    tri__pass_prune(&pass);
    TRI_TRY(tri__pass_schedule(&pass, in->n_mb));
    TRI_TRY(tri__pass_shard(&pass));
    tri__pass_update(&pass);
    TRI_TRY(tri__pass_precision(&pass));
    tri__pass_memory(&pass, &in->max);
    *out = pass.out;
    *held = pass.model;
    return TRI_OK;
}

static tri_status plan_infer(tri_arena *arena, const tri_plan_in *in, const tri_stages *stages, tri_planned *out,
                             const tri_model **held) {
    tri_pass pass = {.arena = arena, .in = in, .model = in->model, .stages = stages};
    tri__pass_forward(&pass, 0);
    tri__pass_fuse(&pass);
    tri__pass_prune(&pass);
    TRI_TRY(tri__pass_schedule(&pass, 1));
    TRI_TRY(tri__pass_shard(&pass));
    TRI_TRY(tri__pass_precision(&pass));
    tri__pass_memory(&pass, &in->max_infer);
    *out = pass.out;
    *held = pass.model;
    return TRI_OK;
}

tri_status tri__plan(tri_arena *arena, const tri_plan_in *in, int train, tri_plan *plan) {
    tri_stages stages;
    *plan = (tri_plan){0};
    if (in->mesh.pp > 1) TRI_TRY(tri__stages_plan(arena, in, &stages));
    else tri__stages_one(arena, in, &stages);
    if (train) TRI_TRY(plan_train(arena, in, &stages, &plan->train, &plan->model));
    return plan_infer(arena, in, &stages, &plan->infer, &plan->model);
}
