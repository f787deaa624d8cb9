/* plan.c - the passes, in order. */
#include "plan/stage.h"

static tri_status plan_train(tri_arena *arena, const tri_plan_in *in, const tri_stages *stages, tri_planned *out, const tri_model **held) {
    tri_pass pass = {.arena = arena, .in = in, .model = in->model, .stages = stages};
    tri__pass_forward(&pass, 1);
    TRI_TRY(tri__pass_tensor(&pass));
    tri__pass_backward(&pass);
    tri__pass_recompute(&pass);
    tri__pass_fuse(&pass);
    tri__pass_prune(&pass);
    tri__pass_tensor_lower(&pass);
    TRI_TRY(tri__pass_schedule(&pass, in->n_mb));
    TRI_TRY(tri__pass_shard(&pass));
    tri__pass_tensor_sums(&pass);
    tri__pass_update(&pass);
    TRI_TRY(tri__pass_precision(&pass));
    tri__pass_memory(&pass, &in->max);
    *out = pass.out;
    *held = pass.model;
    return TRI_OK;
}

static tri_status plan_infer(tri_arena *arena, const tri_plan_in *in, const tri_stages *stages, tri_planned *out, const tri_model **held) {
    tri_pass pass = {.arena = arena, .in = in, .model = in->model, .stages = stages};
    tri__pass_forward(&pass, 0);
    TRI_TRY(tri__pass_tensor(&pass));
    tri__pass_fuse(&pass);
    tri__pass_prune(&pass);
    tri__pass_tensor_lower(&pass);
    TRI_TRY(tri__pass_schedule(&pass, 1));
    TRI_TRY(tri__pass_shard(&pass));
    TRI_TRY(tri__pass_precision(&pass));
    tri__pass_memory(&pass, &in->max_infer);
    *out = pass.out;
    *held = pass.model;
    return TRI_OK;
}

int tri__plan_granule(const tri_plan_in *in) {
    int granule = in->target->granule > 1 ? in->target->granule : 1;
    return in->mesh.tp > 1 && in->sequence_parallel ? granule * in->mesh.tp : granule;
}

tri_status tri__plan(tri_arena *arena, const tri_plan_in *asked, int train, tri_plan *plan) {
    tri_plan_in in = *asked;
    tri_stages stages;
    *plan = (tri_plan){0};
    in.max = tri__counts_rounded(&asked->max, tri__plan_granule(asked));
    in.max_infer = tri__counts_rounded(&asked->max_infer, tri__plan_granule(asked));
    if (in.mesh.pp > 1) TRI_TRY(tri__stages_plan(arena, &in, &stages));
    else tri__stages_one(arena, &in, &stages);
    if (train) TRI_TRY(plan_train(arena, &in, &stages, &plan->train, &plan->model));
    return plan_infer(arena, &in, &stages, &plan->infer, &plan->model);
}
