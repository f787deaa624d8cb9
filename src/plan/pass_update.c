/* pass_update.c - pass: the norm of all gradients, clipping, and the optimizer (plan/optimizer.h) on what this rank
 * owns of each unit. Around the update, the control exchanges stop requests and the step's figures between ranks.
 *
 * With sharding, each rank sums the squares of its own part of a unit, and the sums are added in the group's order,
 * replicas first, then units in the model's order: every element counts once, and the norm has the same bits on all
 * ranks, however units are cut into stages. */
#include "plan/least.h"
#include "plan/optimizer.h"
#include "plan/step_kinds.h"

enum { PP = TRI_AXIS_SET(TRI_AXIS_PP), TP = TRI_AXIS_SET(TRI_AXIS_TP), DP = TRI_AXIS_SET(TRI_AXIS_DP) };

/* Posted before the norm's sums, which synchronise all ranks, and waited for after the update: by then it is
 * complete. */
static void emit_control(tri_updating *up) {
    uint32_t axes = tri__long_axes(&up->pass->in->mesh, PP | TP | DP);
    up->control = -1;
    if (!axes) return;
    up->control = TRI_BUILD_FLAT(&up->build, TRI_MEM_HOST, TRI_F64, TRI_TOLD_COUNT, "control");
    tri__build_post(&up->build, TRI_OP_control_post, (tri_attr){.axes = axes}, (tri_ends){up->control, -1});
}

/* Sends the loss, which one stage has, to all. */
static void emit_loss(tri_updating *up) {
    tri_pass *pass = up->pass;
    int root = pass->stages->pipeline.rank[pass->stages->head], has = pass->out.loss >= 0;
    if (pass->in->mesh.pp == 1) return;
    if (!has) pass->out.loss = TRI_BUILD_FLAT(&up->build, TRI_MEM_RESULT, TRI_F64, 1, "loss");
    const tri_ends loss = {pass->out.loss, has ? pass->out.loss : -1};
    tri__build_post(&up->build, TRI_OP_broadcast_post, (tri_attr){.axes = PP, .root = root}, loss);
    tri__build_wait(&up->build, loss);
}

/* A view of the figures of layer `index` with experts: unless a stage of this rank has the layer, they are 0 here. */
static void clear_figures(tri_updating *up, int all, int index, const char *unit) {
    char name[160];
    snprintf(name, sizeof name, "experts.%s", unit);
    if (tri__program_find(up->pass->program, name) >= 0) return;
    TRI_BUILD(&up->build, zero, (tri_attr){.balance = 1},
              tri__build_view(&up->build, all, 2 * index, 1, 2, "%s", name));
}

/* The experts' figures: over replicas, and of all stages. Ranks that share layers have the same. */
static void emit_experts(tri_updating *up) {
    tri_pass *pass = up->pass;
    const tri_network *model = pass->in->model;
    int64_t n = tri__model_expert_layers(model);
    uint32_t axes = tri__long_axes(&pass->in->mesh, PP | DP);
    if (!n) return;
    int all = tri__program_find(pass->program, "experts"), index = 0;
    if (all < 0) all = TRI_BUILD_FLAT(&up->build, TRI_MEM_RESULT, TRI_F64, 2 * n, "experts");
    pass->out.experts = all;
    for (int u = 0; u < model->n_units; u++)
        if (model->unit[u].experts) clear_figures(up, all, index++, model->unit[u - 1].name);
    if (axes) tri__update_reduce(up, (tri_attr){.axes = axes}, all);
}

/* Gradients whose norm is taken. */
typedef struct normed {
    const int *grad;              /* [n_units] flat slots */
    const tri_range *held, *part; /* [n_units] elements of the units in these, and those that count */
    tri_attr group;               /* ranks whose sums are added; no axes: none */
    int copies;                   /* of the model, whose gradients were not summed; 0: they were */
} normed;

static int count_trained(const tri_network *model) {
    int n = 0;
    for (int u = 0; u < model->n_units; u++) n += !model->unit[u].frozen;
    return n;
}

/* A sum of squares for each trained unit of the whole model; those of units that other ranks hold are 0 here. */
static int emit_squares(tri_updating *up, const normed *of) {
    tri_pass *pass = up->pass;
    tri_builder *b = &up->build;
    const tri_network *all = pass->in->model, *here = pass->model;
    const char *name = of->copies ? "grad.sumsq.each" : "grad.sumsq";
    b->unit = -1;
    int n = count_trained(all);
    int sums = TRI_BUILD_FLAT(b, TRI_MEM_RESULT, TRI_F64, n, "%s", name);
    int none = count_trained(here) < n ? tri__no_elements(up, of->grad, of->copies ? "g.none.each" : "g.none") : -1;
    for (int i = 0, u = 0, at = 0; i < all->n_units; i++) {
        int is_held = u < here->n_units && here->unit[u].name == all->unit[i].name, x = none;
        b->unit = -1;
        if (all->unit[i].frozen) {
            u += is_held;
            continue;
        }
        if (is_held) {
            b->unit = pass->program->slot[of->grad[u]].unit;
            x = tri__update_part(up, of->grad[u], of->held[u], tri__tensor_once(pass, u, of->part[u]));
        }
        TRI_BUILD(b, sumsq, (tri_attr){0}, tri__build_view(b, sums, at++, 1, 1, "%s.%s", name, all->unit[i].name), x);
        u += is_held;
    }
    b->unit = -1;
    if (of->group.axes) tri__update_reduce(up, of->group, sums);
    uint32_t others = tri__long_axes(&pass->in->mesh, PP | TP); /* whose ranks hold other elements */
    if (others) tri__update_reduce(up, (tri_attr){.axes = others}, sums);
    return sums;
}

/* The norm, and from it the factor that clips and whether the step is applied. */
static void emit_clip(tri_updating *up, int sums) {
    tri_pass *pass = up->pass;
    double limit = tri__local_norm_factor(pass) * pass->in->max_grad_norm;
    TRI_BUILD(&up->build, clip, ((tri_attr){.max_norm = (float)limit}), up->coef, pass->out.apply, pass->out.norm, sums,
              -1);
}

/* Where steps exist in which gradients are not summed over copies, nobody knows the norm of their sum. Copies see other
 * samples: what differs between them is nearly uncorrelated, so that squared norms add up, as those of one sample each
 * do. (The upper bound, sqrt(n) times as much, would clip by that much too hard wherever noise outweighs the mean.)
 * Ranks that share tokens have parts of the same samples' gradients, which have something in common: the norm is then
 * too small, but never by more than sqrt(cp). With hybrid shards of a multiple of cp ranks they are summed first. */
static void emit_norm(tri_updating *up) {
    tri_pass *pass = up->pass;
    tri_builder *b = &up->build;
    const tri_optimizing *how = &pass->in->optimizer;
    normed whole = {pass->unit_grad, pass->grad_part, pass->own, pass->n_shards > 1 ? pass->group : (tri_attr){0}, 0};
    normed each = {pass->local_grad, pass->local_part, pass->local_part, {.axes = DP}, pass->n_copies};
    int has_each = pass->local_grad && pass->n_copies > 1;
    b->gates = has_each ? tri__sum_gates(how) : 0;
    int sums = emit_squares(up, &whole);
    up->coef = TRI_BUILD_FLAT(b, TRI_MEM_RESULT, TRI_F32, 1, "grad.coef");
    pass->out.apply = TRI_BUILD_FLAT(b, TRI_MEM_RESULT, TRI_I32, 1, "apply");
    pass->out.norm = TRI_BUILD_FLAT(b, TRI_MEM_RESULT, TRI_F64, 1, "grad.norm");
    emit_clip(up, sums);
    tri__local_agree(up, sums);
    b->gates = tri__step_gates(how) & ~tri__sum_gates(how);
    if (has_each) emit_clip(up, emit_squares(up, &each));
    b->gates = 0;
}

/* Errors of coded gradients: those of a step that is not applied are those of the step before. */
static void emit_errors(tri_updating *up) {
    const tri_pass *pass = up->pass;
    for (int u = 0; u < pass->model->n_units && pass->error_new; u++) {
        if (pass->error_new[u] < 0) continue;
        up->build.unit = pass->program->slot[pass->out.param[u]].unit;
        up->build.layer = 1 + tri__layer_find(pass->program, pass->model->unit[u].name); /* closed: nothing was coded */
        TRI_BUILD(&up->build, commit, (tri_attr){0}, pass->out.state[pass->error].slot[u], pass->error_new[u],
                  pass->out.apply);
    }
    up->build.unit = -1, up->build.layer = 0;
}

void tri__gather_parts(tri_pass *pass, int frozen_too) {
    tri_builder build = {.arena = pass->arena, .program = pass->program, .unit = -1, .mb = -1};
    if (pass->sharding.kind != TRI_SHARD_ZERO1 && pass->sharding.kind != TRI_SHARD_ZERO2) return;
    tri_ends *ends = tri__arena_alloc(pass->arena, (size_t)pass->model->n_units * sizeof *ends);
    int n = 0;
    for (int u = 0; u < pass->model->n_units; u++) {
        int whole = tri__slot_root(pass->program, pass->out.param[u]);
        tri_sharers of = tri__unit_sharers(pass, u);
        if (pass->model->unit[u].frozen && !frozen_too) continue;
        if (of.n == 1 || (n && ends[n - 1].y == whole)) continue; /* it is all here; another unit of the same block */
        const tri_slot *slot = &pass->program->slot[whole];
        tri_range own = tri__shard(slot->cols, of.n, of.place);
        build.unit = slot->unit;
        int part = tri__build_view(&build, whole, own.begin, 1, own.end - own.begin, "%s.own", slot->name);
        ends[n++] = (tri_ends){whole, part};
        tri__build_post(&build, TRI_OP_all_gather_post, of.group, ends[n - 1]);
    }
    for (int i = 0; i < n; i++) {
        build.unit = pass->program->slot[ends[i].y].unit;
        tri__build_wait(&build, ends[i]);
    }
}

static const tri_hyper usual_hyper[TRI_HYPERS] = {TRI_HYPER_RATE, TRI_HYPER_MOMENTUM, TRI_HYPER_VARIANCE,
                                                  TRI_HYPER_STEPS};

tri_status tri__pass_update(tri_pass *pass) {
    tri_updating up = {.pass = pass, .build = {.arena = pass->arena, .program = pass->program, .unit = -1, .mb = -1}};
    const tri_optimizer *optimizer = tri__optimizer_row(pass->in->optimizer.kind);
    emit_loss(&up);
    emit_experts(&up);
    pass->out.update = pass->program->n_instrs;
    emit_control(&up);
    up.hyper = TRI_BUILD_FLAT(&up.build, TRI_MEM_RESULT, TRI_F32, 4, "hyper");
    emit_norm(&up);
    emit_errors(&up);
    TRI_BUILD(&up.build, input, ((tri_attr){.field = TRI_FIELD_hyper}), up.hyper);
    up.first = pass->out.n_states;
    pass->out.hyper = optimizer->hyper ? optimizer->hyper : usual_hyper;
    optimizer->emit(&up);
    tri__average_emit(&up);
    tri__gather_parts(pass, 0);
    up.build.unit = -1;
    if (up.control >= 0) tri__build_wait(&up.build, (tri_ends){up.control, -1});
    return TRI_OK;
}

void tri__least_update(const tri_plan_in *in, tri_least *least) {
    int states = tri__optimizer_moments(in->optimizer.kind) + (in->average != TRI_AVERAGE_NONE);
    least->bytes[TRI_MEM_STATE] += 4.0 * states * least->trained;
}
