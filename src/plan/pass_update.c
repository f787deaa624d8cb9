/* pass_update.c - pass: the norm of all gradients, clipping, and AdamW on what this rank owns of each unit. Within a
 * unit, runs of parameters that decay or do not are updated by one instruction each. Around the update, the control
 * exchanges stop requests and the step's figures between ranks.
 *
 * With sharding, each rank sums the squares of its own part of a unit, and the sums are added in the group's order,
 * replicas first, then units in the model's order: every element counts once, and the norm has the same bits on all
 * ranks, however units are cut into stages. */
#include "plan/pipeline/stage.h"
#include "base/random.h"

typedef struct update {
    tri_pass *pass;
    tri_builder build;
    int hyper, coef;      /* slots */
    int control;          /* -1: a single rank */
} update;

/* Axes beyond the replicas' on which ranks hold different elements: 0 when there are none. */
static uint32_t other_axes(const tri_mesh *mesh) {
    return (mesh->pp > 1 ? TRI_AXIS_SET(TRI_AXIS_PP) : 0) | (mesh->tp > 1 ? TRI_AXIS_SET(TRI_AXIS_TP) : 0);
}

/* All axes of more than one place; 0 for one rank. */
static uint32_t world_axes(const tri_mesh *mesh) {
    return other_axes(mesh) | (mesh->dp > 1 ? TRI_AXIS_SET(TRI_AXIS_DP) : 0);
}

/* A view of elements `part` of a unit, in a slot that holds its elements `held`. */
static int part_of(update *up, int slot, tri_range held, tri_range part) {
    int64_t count = tri__range_count(part), at = count ? part.begin - held.begin : 0;
    if (held.begin == part.begin && held.end == part.end) return slot;
    return tri__build_view(&up->build, slot, at, 1, count, "%s.own", up->pass->program->slot[slot].name);
}

static void transfer(update *up, tri_op op, tri_attr group, int y, int x, int named) {
    group.id = tri__random_id(up->pass->program->slot[named].name);
    tri__build(&up->build, op, (const int[TRI_MAX_ARGS]){y, x}, group);
}

static void sum_over(update *up, tri_attr group, int sums) {
    transfer(up, TRI_OP_all_reduce_post, group, sums, -1, sums);
    TRI_BUILD(&up->build, wait, (tri_attr){0}, sums, -1);
}

/* Posted before the norm's sums, which synchronise all ranks, and waited for after the update: by then it is
 * complete. */
static void emit_control(update *up) {
    uint32_t axes = world_axes(&up->pass->in->mesh);
    up->control = -1;
    if (!axes) return;
    up->control = tri__build_slot(&up->build, TRI_MEM_HOST, TRI_F64, (tri_rows){.add = 1}, TRI_TOLD_COUNT, "control");
    transfer(up, TRI_OP_control_post, (tri_attr){.axes = axes}, up->control, -1, up->control);
}

static void emit_control_wait(update *up) {
    up->build.unit = -1;
    if (up->control >= 0) TRI_BUILD(&up->build, wait, (tri_attr){0}, up->control, -1);
}

/* Sends the loss, which one stage has, to all. */
static void emit_loss(update *up) {
    tri_pass *pass = up->pass;
    int root = pass->stages->pipeline.rank[pass->stages->head], has = pass->out.loss >= 0;
    if (pass->in->mesh.pp == 1) return;
    if (!has) pass->out.loss = tri__build_slot(&up->build, TRI_MEM_RESULT, TRI_F64, (tri_rows){.add = 1}, 1, "loss");
    int loss = pass->out.loss, x = has ? loss : -1;
    transfer(up, TRI_OP_broadcast_post, (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_PP), .root = root}, loss, x, loss);
    TRI_BUILD(&up->build, wait, (tri_attr){0}, loss, x);
}

/* A sum of squares for each unit of the whole model; those of units that other ranks hold are 0 here. */
static void emit_norm(update *up) {
    const tri_rows one = {.add = 1};
    tri_pass *pass = up->pass;
    tri_builder *b = &up->build;
    const tri_network *all = pass->in->model, *here = pass->model;
    int sums = tri__build_slot(b, TRI_MEM_RESULT, TRI_F64, one, all->n_units, "grad.sumsq");
    int none = here->n_units < all->n_units ? tri__build_view(b, pass->unit_grad[0], 0, 1, 0, "g.none") : -1;
    for (int i = 0, u = 0; i < all->n_units; i++) {
        int is_held = u < here->n_units && here->unit[u].name == all->unit[i].name, x = none;
        b->unit = -1;
        if (is_held) {
            b->unit = pass->program->slot[pass->unit_grad[u]].unit;
            x = part_of(up, pass->unit_grad[u], pass->grad_part[u], tri__tensor_once(pass, u, pass->own[u]));
        }
        TRI_BUILD(b, sumsq, (tri_attr){0}, tri__build_view(b, sums, i, 1, 1, "grad.sumsq.%s", all->unit[i].name), x);
        u += is_held;
    }
    b->unit = -1;
    if (pass->n_shards > 1) sum_over(up, pass->group, sums);
    if (other_axes(&pass->in->mesh)) sum_over(up, (tri_attr){.axes = other_axes(&pass->in->mesh)}, sums);
    up->coef = tri__build_slot(b, TRI_MEM_RESULT, TRI_F32, one, 1, "grad.coef");
    pass->out.apply = tri__build_slot(b, TRI_MEM_RESULT, TRI_I32, one, 1, "apply");
    pass->out.norm = tri__build_slot(b, TRI_MEM_RESULT, TRI_F64, one, 1, "grad.norm");
    TRI_BUILD(b, clip, ((tri_attr){.max_norm = (float)pass->in->max_grad_norm}), up->coef, pass->out.apply,
              pass->out.norm, sums, -1);
}

/* Updates elements `run` of a unit: views of its weights, moments and gradient. */
static void emit_run(update *up, int unit, tri_range run, int decays) {
    tri_pass *pass = up->pass;
    const int flat[4] = {pass->out.param[unit], pass->out.m[unit], pass->out.v[unit], pass->unit_grad[unit]};
    const tri_range held[4] = {pass->out.param_part[unit], pass->out.state_part[unit], pass->out.state_part[unit],
                               pass->grad_part[unit]};
    int part[4];
    for (int i = 0; i < 4; i++)
        part[i] = tri__build_view(&up->build, flat[i], run.begin - held[i].begin, 1, run.end - run.begin, "%s.+%lld",
                                  pass->program->slot[flat[i]].name, (long long)run.begin);
    const tri_optimizing *how = &pass->in->optimizer;
    tri_attr attr = {.beta1 = (float)how->beta1, .beta2 = (float)how->beta2, .eps = (float)how->eps,
                     .decay = decays ? (float)how->weight_decay : 0};
    TRI_BUILD(&up->build, adamw, attr, part[0], part[1], part[2], part[3], up->hyper, up->coef, pass->out.apply);
}

static void emit_unit(update *up, int unit) {
    tri_pass *pass = up->pass;
    const tri_network *model = pass->model;
    const tri_unit *u = &model->unit[unit];
    const tri_param *param = &model->param[u->first];
    tri_range state = pass->out.state_part[unit];
    tri_builder *b = &up->build;
    b->unit = pass->program->slot[pass->out.param[unit]].unit;
    pass->out.m[unit] = tri__build_slot(b, TRI_MEM_STATE, TRI_F32, (tri_rows){.add = 1}, state.end - state.begin,
                                        "m.%s", u->name);
    pass->out.v[unit] = tri__build_slot(b, TRI_MEM_STATE, TRI_F32, (tri_rows){.add = 1}, state.end - state.begin,
                                        "v.%s", u->name);
    for (int first = 0; first < u->n;) {
        int next = first + 1;
        while (next < u->n && param[next].decays == param[first].decays) next++;
        tri_range run = tri__range_both(state, (tri_range){param[first].at, next < u->n ? param[next].at : u->count});
        if (run.begin < run.end) emit_run(up, unit, run, param[first].decays);
        first = next;
    }
}

void tri__gather_parts(tri_pass *pass) {
    update up = {.pass = pass, .build = {.arena = pass->arena, .program = pass->program, .unit = -1, .mb = -1}};
    if (pass->sharding.kind != TRI_SHARD_ZERO1 && pass->sharding.kind != TRI_SHARD_ZERO2) return;
    tri_ends *ends = tri__arena_alloc(pass->arena, (size_t)pass->model->n_units * sizeof *ends);
    int place = tri__transfer_place(&pass->in->mesh, pass->in->rank, &pass->group), n = 0;
    for (int u = 0; u < pass->model->n_units; u++) {
        int whole = tri__slot_root(pass->program, pass->out.param[u]);
        if (n && ends[n - 1].y == whole) continue; /* another unit of the same block */
        const tri_slot *slot = &pass->program->slot[whole];
        tri_range own = tri__shard(slot->cols, pass->n_shards, place);
        up.build.unit = slot->unit;
        int part = tri__build_view(&up.build, whole, own.begin, 1, own.end - own.begin, "%s.own", slot->name);
        ends[n++] = (tri_ends){whole, part};
        transfer(&up, TRI_OP_all_gather_post, pass->group, whole, part, whole);
    }
    for (int i = 0; i < n; i++) {
        up.build.unit = pass->program->slot[ends[i].y].unit;
        TRI_BUILD(&up.build, wait, (tri_attr){0}, ends[i].y, ends[i].x);
    }
}

tri_status tri__pass_update(tri_pass *pass) {
    int n_units = pass->model->n_units;
    update up = {.pass = pass, .build = {.arena = pass->arena, .program = pass->program, .unit = -1, .mb = -1}};
    pass->out.m = tri__arena_alloc(pass->arena, (size_t)n_units * sizeof *pass->out.m);
    pass->out.v = tri__arena_alloc(pass->arena, (size_t)n_units * sizeof *pass->out.v);
    emit_loss(&up);
    pass->out.update = pass->program->n_instrs;
    emit_control(&up);
    up.hyper = tri__build_slot(&up.build, TRI_MEM_RESULT, TRI_F32, (tri_rows){.add = 1}, 4, "hyper");
    emit_norm(&up);
    TRI_BUILD(&up.build, input, ((tri_attr){.field = TRI_FIELD_hyper}), up.hyper);
    for (int u = 0; u < n_units; u++) emit_unit(&up, u);
    tri__gather_parts(pass);
    emit_control_wait(&up);
    return TRI_OK;
}
