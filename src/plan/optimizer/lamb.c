/* lamb.c - LAMB: Adam's direction r, with decay, and for each parameter that decays a step of lr * ||p|| / ||r||.
 *
 * Both norms are those of the logical parameter: each rank sums the squares of the elements that it owns, in double,
 * and where ranks of a tp group hold the same elements, only the first does; one transfer adds the sums of all
 * parameters over the ranks. Parameters that do not decay (biases, norms) are updated by runs, with the ratio 1. */
#include "plan/optimizer/lamb.h"

/* A slot for the sums of every parameter that decays. */
static void make_sums(tri_updating *up, tri_lamb *l) {
    const tri_network *model = up->pass->model;
    size_t n_params = (size_t)model->n_params;
    l->at = tri__arena_alloc(up->pass->arena, n_params * sizeof *l->at);
    l->view = tri__arena_alloc(up->pass->arena, n_params * sizeof *l->view);
    for (int i = 0; i < model->n_params; i++) {
        l->at[i] = model->param[i].decays ? l->n++ : -1;
        l->view[i] = -1;
    }
    l->sums = l->n ? tri__build_slot(&up->build, TRI_MEM_RESULT, TRI_F64, (tri_rows){.add = 1}, 2 * l->n, "lamb.sums")
                   : -1;
    l->none = tri__no_elements(up, up->pass->unit_grad, "lamb.none");
}

void tri__lamb_open(tri_updating *up, tri_lamb *l) {
    *l = (tri_lamb){0};
    up->own = l;
    tri__add_state(up->pass, "m", "exp_avg.");
    tri__add_state(up->pass, "v", "exp_avg_sq.");
    make_sums(up, l);
}

static void emit_moments(tri_updating *up, const tri_run *run, int sums, int counts) {
    tri_lamb *l = up->own;
    int p = tri__run_weights(up, run), m = tri__run_state(up, TRI_LAMB_M, run), v = tri__run_state(up, TRI_LAMB_V, run);
    int g = tri__run_gradient(up, run);
    tri_attr attr = tri__run_attr(up, run);
    attr.rate = 0; /* of the step */
    TRI_BUILD(&up->build, lamb_moments, attr, m, v, counts ? sums : -1, p, g, up->hyper, up->coef,
              up->pass->out.apply);
    *TRI_PUSH(up->pass->arena, l->step, l->n_steps, l->cap_steps) =
        (tri_lamb_step){up->build.unit, p, m, v, sums, tri__run_step(up, run)};
}

void tri__lamb_zero(tri_updating *up, int slot, int k) {
    const tri_lamb *l = up->own;
    const tri_program *program = up->pass->program;
    const char *name = tri__arena_print(up->pass->arena, "%s.%d", program->slot[slot].name, k);
    int one = program->gates ? tri__program_find(program, name) : -1; /* another kind of step has it */
    if (one < 0) one = tri__build_view(&up->build, slot, k, 1, 1, "%s", name);
    TRI_BUILD(&up->build, sumsq, (tri_attr){0}, one, l->none);
}

static void emit_param(void *with, const tri_lamb_param *param) {
    tri_updating *up = with;
    tri_lamb *l = up->own;
    int sums = l->view[param->index] = tri__build_view(&up->build, l->sums, 2 * l->at[param->index], 1, 2,
                                                       "lamb.sums.%s", up->pass->model->param[param->index].name);
    if (tri__range_count(param->run.part)) emit_moments(up, &param->run, sums, param->counts);
    for (int k = 0; k < 2 && !param->counts; k++) tri__lamb_zero(up, sums, k);
}

/* Parameters that decay one by one, the others by runs. */
static void emit_run(tri_updating *up, const tri_run *run) {
    if (!run->decays) emit_moments(up, run, -1, 0);
}

/* Whether replicas share out nothing but experts. */
static int shares_experts_alone(const tri_pass *pass) {
    return pass->sharding.kind == TRI_SHARD_NONE && tri__mesh_ep(&pass->in->mesh) > 1;
}

/* The sums of a run of ranks that share experts: experts are other ones on each rank, all else counts once. */
static int is_counted_here(const tri_pass *pass, int unit) {
    return !shares_experts_alone(pass) || pass->model->unit[unit].experts ||
           !tri__mesh_expert(&pass->in->mesh, pass->in->rank);
}

void tri__each_decaying(tri_updating *up, void *with, void (*emit)(void *with, const tri_lamb_param *param)) {
    const tri_pass *pass = up->pass;
    for (int i = 0; i < pass->model->n_params; i++) {
        const tri_param *param = &pass->model->param[i];
        int unit = param->unit;
        if (!param->decays) continue;
        tri_range all = {param->at, param->at + param->count};
        tri_run run = {unit, tri__range_both(pass->out.state_part[unit], all), 1, param->rate};
        up->build.unit = pass->program->slot[pass->out.param[unit]].unit;
        int counts = tri__range_count(tri__tensor_once(pass, unit, run.part)) > 0;
        emit(with, &(tri_lamb_param){i, run, counts && is_counted_here(pass, unit)});
    }
    up->build.unit = -1;
}

void tri__lamb_reduce(tri_updating *up, int slot, int most) {
    const tri_pass *pass = up->pass;
    const tri_attr experts = {.most = most, .axes = TRI_AXIS_SET(TRI_AXIS_DP), .within = tri__mesh_ep(&pass->in->mesh)},
                   tp = {.most = most, .axes = TRI_AXIS_SET(TRI_AXIS_TP)};
    tri_attr shards = pass->group;
    shards.most = most;
    if (slot < 0) return;
    if (pass->n_shards > 1 && pass->sharding.kind != TRI_SHARD_NONE) tri__update_reduce(up, shards, slot);
    if (shares_experts_alone(pass)) tri__update_reduce(up, experts, slot);
    if (pass->in->mesh.tp > 1) tri__update_reduce(up, tp, slot);
}

void tri__lamb_moments(tri_updating *up) {
    const tri_lamb *l = up->own;
    tri__each_run(up, emit_run);
    tri__each_decaying(up, up, emit_param);
    tri__lamb_reduce(up, l->sums, 0);
}

void tri__lamb_steps(tri_updating *up) {
    const tri_lamb *l = up->own;
    for (const tri_lamb_step *s = l->step; s < l->step + l->n_steps; s++) {
        up->build.unit = s->unit;
        TRI_BUILD(&up->build, lamb_step, s->attr, s->p, s->m, s->v, up->hyper, -1, -1, s->sums, up->pass->out.apply);
    }
}

void tri__emit_lamb(tri_updating *up) {
    tri_lamb l;
    tri__lamb_open(up, &l);
    tri__lamb_moments(up);
    tri__lamb_steps(up);
}
