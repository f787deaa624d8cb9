/* pass_expert.c - pass: expert parallelism: runs of ep replicas share the experts of each layer that has any.
 *
 * A replica holds E / ep experts of each such layer. Others have the same ones: those at the same place of their run,
 * over which these experts' gradients are summed and their state is sharded (tri__unit_sharers). */
#include "plan/plan.h"
#include "plan/step_kinds.h"

static tri_status check_numbers(const tri_plan_in *in) {
    int ep = tri__mesh_ep(&in->mesh), any = 0;
    for (int u = 0; u < in->model->n_units; u++) {
        const tri_unit *unit = &in->model->unit[u];
        if (unit->experts % ep)
            return tri__fail(TRI_USAGE,
                             "--ep-size %d: the %lld experts of %s cannot be shared by %d ranks evenly; take a size "
                             "that divides %lld",
                             ep, (long long)unit->experts, unit->name, ep, (long long)unit->experts);
        any |= unit->experts > 0;
    }
    if (any) return TRI_OK;
    return tri__fail(TRI_USAGE,
                     "--ep-size %d: no layer of the model has experts to share; give num_experts in an encoder's "
                     "object, or leave the option out",
                     ep);
}

/* What counts on all replicas holding the same weights. */
static tri_status check_training(const tri_plan_in *in) {
    int ep = tri__mesh_ep(&in->mesh);
    if (in->sharding.kind == TRI_SHARD_HYBRID && in->sharding.size > 1 && in->sharding.size < in->mesh.dp)
        return tri__fail(TRI_USAGE,
                         "--shard hybrid with --ep-size %d: replicas that share experts have no common copy of them "
                         "to shard within a run: take --shard zero3",
                         ep);
    if (in->compression.gradients != TRI_CODE_NONE)
        return tri__fail(TRI_USAGE,
                         "--compress-gradients %s with --ep-size %d: gradients of experts are summed over other ranks "
                         "than the rest, which compression does not do: leave one out",
                         tri__code_name(in->compression.gradients), ep);
    if (tri__is_onebit(in->optimizer.kind))
        return tri__fail(TRI_USAGE,
                         "--ep-size %d with a 1-bit optimizer: momenta of experts are of other ranks than the rest, "
                         "which signs do not sum: take --optimizer adamw or lamb",
                         ep);
    if (in->optimizer.sync_every > 1)
        return tri__fail(TRI_USAGE,
                         "--sync-every %lld with --ep-size %d: ranks that share experts step together: leave one out",
                         (long long)in->optimizer.sync_every, ep);
    return TRI_OK;
}

tri_status tri__pass_expert(tri_pass *pass) {
    TRI_TRY(check_numbers(pass->in));
    if (pass->training) TRI_TRY(check_training(pass->in));
    return TRI_OK;
}
