/* pass_expert.c - pass: expert parallelism: runs of ep replicas share the experts of each layer that has any.
 *
 * A replica holds E / ep experts of each such layer. Others have the same ones: those at the same place of their run,
 * over which these experts' gradients are summed and their state is sharded (tri__unit_sharers). Rows for experts,
 * which are in the order of experts, travel to their owners and back:
 *
 *   dispatch        [E][X/E, H]         rows_swap -> [ep, of a run's ranks][E / ep][X/E, H]
 *   linear_experts  of the own experts, of which each has ep runs of rows
 *   combine         [E][X/E, H]         rows_swap <-
 *
 * So does `from`, which tells empty places from others. All ranks of a run have the same X: the largest of theirs,
 * which each knows before the step (data/dataset/loader.c). Gradients are sums over all samples of a run, and need no
 * factor. Programs of all places are alike; only which experts the weights are of differs. */
#include "plan/pass.h"
#include "plan/step_kinds.h"

typedef struct expert {
    tri_pass *pass;
    tri_builder to; /* the program itself: instructions are written anew, slots are added */
    int ep;
    int *there;     /* [slots] the slot of what a run's ranks have sent instead of it; -1: it stays */
} expert;

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

/* The rows of `x` with their owners, or back with those who sent them. */
static int exchange(expert *e, int x, const char *suffix) {
    const tri_slot s = e->to.program->slot[x];
    int y = TRI_BUILD_SAME(&e->to, s, "%s.%s", s.name, suffix);
    TRI_BUILD(&e->to, rows_swap, ((tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP), .within = e->ep}), y, x);
    return y;
}

static void rewrite(expert *e, tri_instr instr) {
    tri__build_as(&e->to, &instr);
    if (instr.attr.experts) {
        instr.attr.members /= e->ep, instr.attr.groups = e->ep;
        for (int k = 0; k < TRI_MAX_ARGS; k++)
            if (instr.slot[k] >= 0 && e->there[instr.slot[k]] >= 0) instr.slot[k] = e->there[instr.slot[k]];
    }
    if (instr.op == TRI_OP_combine)
        TRI_SLOT(&instr, combine, x) = exchange(e, TRI_SLOT(&instr, combine, x), "back");
    tri__build_copy(&e->to, &instr);
    if (instr.op != TRI_OP_dispatch) return;
    int from = TRI_SLOT(&instr, dispatch, from), y = TRI_SLOT(&instr, dispatch, y);
    e->there[from] = exchange(e, from, "there");
    e->there[y] = exchange(e, y, "there");
}

/* The flat slots of units, and their views, become those of this rank's experts. */
static void cut_weights(expert *e, const tri_network *held) {
    tri_program *program = e->to.program;
    const tri_network *whole = e->pass->in->model;
    for (int u = 0; u < whole->n_units; u++) {
        int flat = e->pass->forward.unit_slot[u];
        if (!whole->unit[u].experts) continue;
        program->slot[flat].cols = held->unit[u].count;
        for (int s = 0; s < program->n_slots; s++) {
            tri_slot *view = &program->slot[s];
            if (view->parent != flat) continue;
            view->parent_at = held->param[tri__forward_param(e->pass, program, s)].at;
            view->rows.add /= e->ep;
        }
    }
}

tri_status tri__pass_expert(tri_pass *pass) {
    tri_program *program = pass->program;
    int n, ep = tri__mesh_ep(&pass->in->mesh);
    TRI_TRY(check_numbers(pass->in));
    if (pass->training) TRI_TRY(check_training(pass->in));
    expert e = {.pass = pass, .to = {.arena = pass->arena, .program = program}, .ep = ep};
    e.there = tri__none_yet(pass->arena, program->n_slots);
    tri_holder holder = tri__plan_holder(pass->in);
    const tri_network *held = tri__model_part(pass->arena, pass->in->model, NULL,
                                              (tri_holder){1, 0, holder.ep, holder.ep_place});
    cut_weights(&e, held);
    pass->model = pass->forward.model = held;
    const tri_instr *from = tri__take_instrs(program, &n);
    for (int i = 0; i < n; i++) rewrite(&e, from[i]);
    return TRI_OK;
}
