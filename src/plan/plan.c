/* plan.c - one rank's programs: resolves the input, then runs the passes. */
#include "plan/optimizer.h"

/* What mixtures of experts are not built for. */
static tri_status check_experts(const tri_plan_in *in) {
    const char *option = tri__mesh_cp(&in->mesh) > 1                ? "--cp-size"
                         : in->mesh.tp > 1 && in->sequence_parallel ? "--sequence-parallel"
                         : in->quantize != TRI_F32      ? "quantisation (--quantize, or --precision int8 or fp8)"
                         : in->optimizer.sync_every > 1 ? "--sync-every"
                         : in->optimizer.kind == TRI_ZERO_ONE_ADAM ? "--optimizer zero-one-adam"
                                                                   : NULL;
    int64_t layers = tri__model_expert_layers(in->model);
    if (!option || !layers) return TRI_OK;
    return tri__fail(TRI_USAGE,
                     "%s is not built for mixtures of experts, which this model has in %lld layer%s: leave it out",
                     option, (long long)layers, layers == 1 ? "" : "s");
}

/* Every name of float_layers is a weight of the model, and one that would be quantised. */
static tri_status check_float_layers(tri_arena *arena, const tri_plan_in *in) {
    const tri_network *model = in->model;
    const char **names = tri__arena_alloc(arena, (size_t)model->n_params * sizeof *names);
    for (int p = 0; p < model->n_params; p++) names[p] = model->param[p].name;
    for (int i = 0; i < in->float_layers.n; i++) {
        const char *asked = in->float_layers.at[i];
        int p = 0;
        while (p < model->n_params && strcmp(names[p], asked) != 0) p++;
        if (p < model->n_params && tri__weight_quantizes(asked, &model->param[p].shape)) continue;
        if (p < model->n_params)
            return tri__fail(TRI_USAGE,
                             "--float-layers %s: is never quantised; only weights of the encoders' dense layers and "
                             "tables are",
                             asked);
        const char *near = tri__text_nearest(asked, names, model->n_params);
        return tri__fail(TRI_USAGE, "--float-layers %s: the model has no such weight; %s%s", asked,
                         near ? "the nearest is " : "trident plan --params lists them", near ? near : "");
    }
    return TRI_OK;
}

tri_status tri__plan_resolve(tri_arena *arena, const tri_plan_in *asked, tri_plan_in *in, tri_stages *stages) {
    *in = *asked;
    TRI_TRY(check_float_layers(arena, in));
    TRI_TRY(check_experts(in));
    TRI_TRY(tri__average_check(in));
    in->max = tri__plan_counts(asked, &asked->max);
    in->max_infer = tri__plan_counts(asked, &asked->max_infer);
    int64_t *samples = &in->max_infer.of[TRI_SYM_N], granule = tri__mesh_readers(&in->mesh) > 1 ? TRI_SHARD_GRANULE : 1;
    *samples = (*samples + granule - 1) / granule * granule; /* replicas' probabilities are equal shards: `collect` */
    if (in->mesh.pp > 1) return tri__stages_plan(arena, in, stages);
    tri__stages_one(arena, in, stages);
    return TRI_OK;
}

static tri_status run_all(tri_pass *pass, const tri_pass_row *last) {
    for (int scope = TRI_SCOPE_TENSOR; scope <= TRI_SCOPE_REPLICA; scope++)
        TRI_TRY(tri__passes_run(pass, (tri_scope)scope, last));
    return TRI_OK;
}

/* starts: the start program is that of this program's weights. */
static tri_status plan_one(tri_arena *arena, const tri_plan_in *in, const tri_stages *stages, int training, int starts,
                           tri_rank_plan *plan) {
    tri_pass pass = {.arena = arena, .in = in, .model = in->model, .stages = stages, .training = training,
                     .serving = starts && !training};
    tri_planned *out = training ? &plan->train : &plan->infer;
    TRI_TRY(run_all(&pass, NULL));
    *out = pass.out;
    out->program = pass.program;
    if (!out->waited) out->waited = out->update;
    plan->model = pass.model;
    if (!starts) return TRI_OK;
    TRI_TRY(tri__plan_start(&pass, &plan->start, &plan->filling));
    return tri__plan_exchange(&pass, &plan->exchange);
}

tri_status tri__plan(tri_arena *arena, const tri_plan_in *asked, int train, tri_rank_plan *plan) {
    tri_plan_in in;
    tri_stages stages;
    *plan = (tri_rank_plan){0};
    TRI_TRY(tri__plan_resolve(arena, asked, &in, &stages));
    if (train) TRI_TRY(plan_one(arena, &in, &stages, 1, 1, plan));
    return plan_one(arena, &in, &stages, 0, !train, plan);
}

tri_status tri__plan_until(tri_arena *arena, const tri_plan_in *asked, tri_plan_part part, const tri_pass_row *last,
                           int *ran, tri_program **program) {
    tri_plan_in in;
    tri_stages stages;
    TRI_TRY(tri__plan_resolve(arena, asked, &in, &stages));
    tri_pass pass = {.arena = arena, .in = &in, .model = in.model, .stages = &stages,
                     .training = part == TRI_PART_TRAIN, .serving = part == TRI_PART_SERVE};
    TRI_TRY(run_all(&pass, last));
    *ran = last->when(&pass);
    *program = pass.program;
    return TRI_OK;
}
