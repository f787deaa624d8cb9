/* pass_update.c - pass: the norm of all gradients, clipping, and the optimizer (plan/optimizer.h) on what this rank
 * owns of each unit. Around the update, the control exchanges stop requests and the step's figures between ranks.
 *
 * With sharding, each rank sums the squares of its own part of a unit, and the sums are added in the group's order,
 * replicas first, then units in the model's order: every element counts once, and the norm has the same bits on all
 * ranks, however units are cut into stages. */
#include "plan/local.h"
#include "plan/pipeline/stage.h"

/* All axes of more than one place; 0 for one rank. */
static uint32_t world_axes(const tri_mesh *mesh) {
    return tri__other_axes(mesh) | (mesh->dp > 1 ? TRI_AXIS_SET(TRI_AXIS_DP) : 0);
}

/* Posted before the norm's sums, which synchronise all ranks, and waited for after the update: by then it is
 * complete. */
static void emit_control(tri_updating *up) {
    uint32_t axes = world_axes(&up->pass->in->mesh);
    up->control = -1;
    if (!axes) return;
    up->control = tri__build_slot(&up->build, TRI_MEM_HOST, TRI_F64, (tri_rows){.add = 1}, TRI_TOLD_COUNT, "control");
    tri__update_transfer(up, TRI_OP_control_post, (tri_attr){.axes = axes}, up->control, -1, up->control);
}

static void emit_control_wait(tri_updating *up) {
    up->build.unit = -1;
    if (up->control >= 0) TRI_BUILD(&up->build, wait, (tri_attr){0}, up->control, -1);
}

/* Sends the loss, which one stage has, to all. */
static void emit_loss(tri_updating *up) {
    tri_pass *pass = up->pass;
    int root = pass->stages->pipeline.rank[pass->stages->head], has = pass->out.loss >= 0;
    if (pass->in->mesh.pp == 1) return;
    if (!has) pass->out.loss = tri__build_slot(&up->build, TRI_MEM_RESULT, TRI_F64, (tri_rows){.add = 1}, 1, "loss");
    int loss = pass->out.loss, x = has ? loss : -1;
    tri__update_transfer(up, TRI_OP_broadcast_post, (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_PP), .root = root}, loss,
                         x, loss);
    TRI_BUILD(&up->build, wait, (tri_attr){0}, loss, x);
}

/* A sum of squares for each unit of the whole model; those of units that other ranks hold are 0 here. */
static void emit_norm(tri_updating *up) {
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
            x = tri__update_part(up, pass->unit_grad[u], pass->grad_part[u], tri__tensor_once(pass, u, pass->own[u]));
        }
        TRI_BUILD(b, sumsq, (tri_attr){0}, tri__build_view(b, sums, i, 1, 1, "grad.sumsq.%s", all->unit[i].name), x);
        u += is_held;
    }
    b->unit = -1;
    if (pass->n_shards > 1) tri__update_sum(up, pass->group, sums);
    if (tri__other_axes(&pass->in->mesh))
        tri__update_sum(up, (tri_attr){.axes = tri__other_axes(&pass->in->mesh)}, sums);
    up->coef = tri__build_slot(b, TRI_MEM_RESULT, TRI_F32, one, 1, "grad.coef");
    pass->out.apply = tri__build_slot(b, TRI_MEM_RESULT, TRI_I32, one, 1, "apply");
    pass->out.norm = tri__build_slot(b, TRI_MEM_RESULT, TRI_F64, one, 1, "grad.norm");
    TRI_BUILD(b, clip, ((tri_attr){.max_norm = (float)pass->in->max_grad_norm}), up->coef, pass->out.apply,
              pass->out.norm, sums, -1);
    tri__local_agree(up, sums);
}

void tri__gather_parts(tri_pass *pass) {
    tri_updating up = {.pass = pass, .build = {.arena = pass->arena, .program = pass->program, .unit = -1, .mb = -1}};
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
        tri__update_transfer(&up, TRI_OP_all_gather_post, pass->group, whole, part, whole);
    }
    for (int i = 0; i < n; i++) {
        up.build.unit = pass->program->slot[ends[i].y].unit;
        TRI_BUILD(&up.build, wait, (tri_attr){0}, ends[i].y, ends[i].x);
    }
}

tri_status tri__pass_update(tri_pass *pass) {
    tri_updating up = {.pass = pass, .build = {.arena = pass->arena, .program = pass->program, .unit = -1, .mb = -1}};
    const tri_optimizer *optimizer = tri__optimizer_row(pass->in->optimizer.kind);
    if (!optimizer) return tri__fail(TRI_USAGE, "this optimizer is not available; take --optimizer adamw");
    emit_loss(&up);
    pass->out.update = pass->program->n_instrs;
    emit_control(&up);
    up.hyper = tri__build_slot(&up.build, TRI_MEM_RESULT, TRI_F32, (tri_rows){.add = 1}, 4, "hyper");
    emit_norm(&up);
    TRI_BUILD(&up.build, input, ((tri_attr){.field = TRI_FIELD_hyper}), up.hyper);
    up.first = pass->out.n_states;
    optimizer->emit(&up);
    tri__gather_parts(pass);
    emit_control_wait(&up);
    return TRI_OK;
}
