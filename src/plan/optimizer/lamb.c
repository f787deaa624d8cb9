/* lamb.c - LAMB: Adam's direction r, with decay, and for each parameter that decays a step of lr * ||p|| / ||r||.
 *
 * Both norms are those of the logical parameter: each rank sums the squares of the elements that it owns, in double,
 * and where ranks of a tp group hold the same elements, only the first does; one transfer adds the sums of all
 * parameters over the ranks. Parameters that do not decay (biases, norms) are updated by runs, with the ratio 1. */
#include "plan/optimizer.h"

enum { M, V }; /* its states */

/* A step to be taken once all ratios are known. */
typedef struct step {
    int unit;              /* of the program */
    int p, m, v, sums;     /* slots; sums -1: the ratio is 1 */
    tri_attr attr;
} step;

typedef struct lamb {
    int sums;              /* slot [1, 2 * parameters that decay]; -1: none do */
    int *at;               /* [n_params] place of a parameter's two sums in it; -1: it does not decay */
    int none;              /* a slot without elements */
    step *step;
    int n_steps, cap_steps;
} lamb;

/* A slot for the sums of every parameter that decays. */
static void make_sums(tri_updating *up, lamb *l) {
    const tri_network *model = up->pass->model;
    int n = 0;
    l->at = tri__arena_alloc(up->pass->arena, (size_t)model->n_params * sizeof *l->at);
    for (int i = 0; i < model->n_params; i++) {
        l->at[i] = model->param[i].decays ? n : -1;
        n += model->param[i].decays ? 2 : 0;
    }
    l->sums = n ? tri__build_slot(&up->build, TRI_MEM_RESULT, TRI_F64, (tri_rows){.add = 1}, n, "lamb.sums") : -1;
    l->none = tri__build_view(&up->build, up->pass->unit_grad[0], 0, 1, 0, "lamb.none");
}

static void emit_moments(tri_updating *up, const tri_run *run, int sums, int counts) {
    lamb *l = up->own;
    int p = tri__run_weights(up, run), m = tri__run_state(up, M, run), v = tri__run_state(up, V, run);
    int g = tri__run_gradient(up, run);
    TRI_BUILD(&up->build, lamb_moments, tri__run_attr(up, run), m, v, counts ? sums : -1, p, g, up->hyper, up->coef,
              up->pass->out.apply);
    *TRI_PUSH(up->pass->arena, l->step, l->n_steps, l->cap_steps) =
        (step){up->build.unit, p, m, v, sums, tri__run_attr(up, run)};
}

/* A parameter of which this rank counts nothing: its sums are 0 here. */
static void emit_none(tri_updating *up, int sums) {
    lamb *l = up->own;
    for (int i = 0; i < 2; i++) {
        int sum = tri__build_view(&up->build, sums, i, 1, 1, "%s.%d", up->pass->program->slot[sums].name, i);
        TRI_BUILD(&up->build, sumsq, (tri_attr){0}, sum, l->none);
    }
}

static void emit_param(tri_updating *up, int unit, int index) {
    const tri_pass *pass = up->pass;
    const tri_param *param = &pass->model->param[index];
    const lamb *l = up->own;
    tri_range all = {param->at, param->at + param->count};
    tri_run run = {unit, tri__range_both(pass->out.state_part[unit], all), 1};
    int counts = tri__range_count(tri__tensor_once(pass, unit, run.part)) > 0;
    up->build.unit = pass->program->slot[pass->out.param[unit]].unit;
    int sums = tri__build_view(&up->build, l->sums, l->at[index], 1, 2, "lamb.sums.%s", param->name);
    if (tri__range_count(run.part)) emit_moments(up, &run, sums, counts);
    if (!counts) emit_none(up, sums);
}

/* Parameters that decay one by one, the others by runs. */
static void emit_run(tri_updating *up, const tri_run *run) {
    if (!run->decays) emit_moments(up, run, -1, 0);
}

static void emit_params(tri_updating *up) {
    const tri_network *model = up->pass->model;
    for (int i = 0; i < model->n_params; i++)
        if (model->param[i].decays) emit_param(up, model->param[i].unit, i);
}

static void emit_steps(tri_updating *up) {
    const lamb *l = up->own;
    for (const step *s = l->step; s < l->step + l->n_steps; s++) {
        up->build.unit = s->unit;
        tri_attr attr = {.eps = s->attr.eps, .decay = s->attr.decay};
        TRI_BUILD(&up->build, lamb_step, attr, s->p, s->m, s->v, up->hyper, s->sums, up->pass->out.apply);
    }
}

static void emit(tri_updating *up) {
    const tri_pass *pass = up->pass;
    lamb l = {0};
    up->own = &l;
    tri__add_state(up->pass, "m", "exp_avg.");
    tri__add_state(up->pass, "v", "exp_avg_sq.");
    make_sums(up, &l);
    tri__each_run(up, emit_run);
    emit_params(up);
    up->build.unit = -1;
    if (l.sums >= 0 && pass->n_shards > 1) tri__update_sum(up, pass->group, l.sums);
    if (l.sums >= 0 && pass->in->mesh.tp > 1)
        tri__update_sum(up, (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_TP)}, l.sums);
    emit_steps(up);
}

const tri_optimizer tri__lamb = {.name = "lamb", .emit = emit};
