/* onebit_lamb.c - 1-bit LAMB (Li et al., 2021): LAMB in the first full_steps; then only the momentum is exchanged, as
 * signs (plan/signs.h), and a parameter's trust ratio is the average of those that it had, times a factor.
 *
 *   full   as lamb.c; the average takes up each ratio
 *   turn   the variance v is frozen; `fresh` continues it, from gradients that the momentum's change stands for
 *   signs  factor = the largest (sqrt(v) + eps) / (sqrt(fresh) + eps) of the parameter's elements: what a variance that
 *          is too large now costs. It counts as far as the step is Adam's and not decay, and changes little by little
 *
 * As DeepSpeed's OnebitLamb, but that moments are corrected for their beginning at 0, as in lamb.c, and that the
 * average begins with the first ratio, not at 0; parameters that do not decay have the ratio 1. In place of DeepSpeed's
 * fixed bounds a ratio is at most LAMB's own for the step, ||p|| / ||direction||: an average of ratios is ruled by
 * steps with small gradients, so that a larger one would step many times as far as LAMB ever does, and the weights grow
 * without end. DeepSpeed scales the momenta of each parameter to one size; here elements have units (signs.h). Masked
 * elements have no say in factors, and an element's step without decay is at most the rate times the ratio. */
#include "plan/optimizer/lamb.h"
#include "plan/signs.h"

enum { M = TRI_LAMB_M, V = TRI_LAMB_V, FRESH }; /* its states; and those of averages, factors and errors */

typedef struct onebit {
    tri_updating *up;
    tri_lamb lamb;
    tri_signs signs;
    int average, factor; /* slots [1, lamb.n] */
    int sums, most;      /* slots [1, 3 * lamb.n] and [1, lamb.n]: lamb_refresh's; -1: no parameter decays */
    int *view;           /* [n_params] slots of a parameter's three sums */
    int *old;            /* [n_params] the momentum before the step, of what this rank updates; -1 */
} onebit;

static void begin(onebit *o, tri_updating *up) {
    tri_pass *pass = up->pass;
    *o = (onebit){.up = up};
    tri__lamb_open(up, &o->lamb);
    tri__add_state(pass, "fresh", "exp_avg_sq_fresh.");
    tri__add_numbers(pass, &up->build, "average", "lamb_coeff_freeze.", &o->average);
    tri__add_numbers(pass, &up->build, "factor", "last_factor.", &o->factor);
    o->sums = o->most = -1;
    if (o->lamb.n) {
        const tri_rows one = {.add = 1};
        o->sums = tri__build_slot(&up->build, TRI_MEM_RESULT, TRI_F64, one, 3 * o->lamb.n, "lamb.frozen");
        o->most = tri__build_slot(&up->build, TRI_MEM_RESULT, TRI_F64, one, o->lamb.n, "lamb.most");
    }
    o->view = tri__arena_alloc(pass->arena, (size_t)pass->model->n_params * sizeof *o->view);
    o->old = tri__arena_alloc(pass->arena, (size_t)pass->model->n_params * sizeof *o->old);
}

/* A parameter's n numbers of a slot that has as many for each. */
static int param_view(const onebit *o, int slot, int n, int param) {
    tri_builder *to = &o->up->build;
    return tri__build_view(to, slot, n * o->lamb.at[param], 1, n, "%s.%s", to->program->slot[slot].name,
                           o->up->pass->model->param[param].name);
}

/* The slot as a row of n numbers for each parameter. */
static int rows_of(const onebit *o, int slot, int n) {
    tri_builder *to = &o->up->build;
    return tri__build_view(to, slot, 0, o->lamb.n, n, "%s.rows", to->program->slot[slot].name);
}

static void begin_fresh(void *with, const tri_lamb_param *param) {
    tri_updating *up = ((onebit *)with)->up;
    if (!tri__range_count(param->run.part)) return;
    int fresh = tri__run_state(up, FRESH, &param->run), v = tri__run_state(up, V, &param->run);
    TRI_BUILD(&up->build, cast, (tri_attr){0}, fresh, v);
}

static void keep_old(void *with, const tri_lamb_param *param) {
    const onebit *o = with;
    tri_builder *to = &o->up->build;
    int64_t count = tri__range_count(param->run.part);
    o->old[param->index] = -1;
    if (!count) return;
    o->old[param->index] = tri__build_slot(to, TRI_MEM_ACT, TRI_F32, (tri_rows){.add = 1}, count, "m.old.%s",
                                           o->up->pass->model->param[param->index].name);
    TRI_BUILD(to, cast, (tri_attr){0}, o->old[param->index], tri__run_state(o->up, M, &param->run));
}

static void refresh(void *with, const tri_lamb_param *param) {
    const onebit *o = with;
    tri_updating *up = o->up;
    const tri_run *run = &param->run;
    int sums = o->view[param->index] = param_view(o, o->sums, 3, param->index);
    int most = param_view(o, o->most, 1, param->index);
    if (tri__range_count(run->part)) {
        int p = tri__run_weights(up, run), m = tri__run_state(up, M, run), v = tri__run_state(up, V, run);
        tri_attr attr = tri__run_attr(up, run);
        attr.rate = 0; /* of the step */
        TRI_BUILD(&up->build, lamb_refresh, attr, tri__run_state(up, FRESH, run), most,
                  param->counts ? sums : -1, p, m, o->old[param->index], v, up->hyper, up->pass->out.apply);
    } else tri__lamb_zero(up, most, 0);
    for (int k = 0; k < 3 && !param->counts; k++) tri__lamb_zero(up, sums, k);
}

static void take_step(void *with, const tri_lamb_param *param) {
    const onebit *o = with;
    tri_updating *up = o->up;
    if (!tri__range_count(param->run.part)) return;
    int p = tri__run_weights(up, &param->run), m = tri__run_state(up, M, &param->run),
        v = tri__run_state(up, V, &param->run);
    int average = param_view(o, o->average, 1, param->index), factor = param_view(o, o->factor, 1, param->index);
    tri_attr attr = tri__run_step(up, &param->run);
    attr.frozen = 1;
    TRI_BUILD(&up->build, lamb_step, attr, p, m, v, up->hyper, average, factor,
              o->view[param->index], up->pass->out.apply);
}

static void step_others(tri_updating *up, const tri_run *run) {
    if (!run->decays) tri__run_frozen(up, run);
}

static void emit_full(onebit *o) {
    tri_updating *up = o->up;
    tri__lamb_moments(up);
    if (o->lamb.n)
        TRI_BUILD(&up->build, lamb_average, (tri_attr){0}, o->average, rows_of(o, o->lamb.sums, 2),
                  up->pass->out.apply);
    tri__lamb_steps(up);
    up->build.unit = -1;
}

static void emit_signs(onebit *o) {
    tri_updating *up = o->up;
    tri__each_decaying(up, o, keep_old);
    if (up->pass->n_copies > 1) tri__signs_exchange(&o->signs, 0);
    else tri__each_run(up, tri__run_momentum);
    tri__each_decaying(up, o, refresh);
    tri__lamb_reduce(up, o->sums, 0);
    tri__lamb_reduce(up, o->most, 1);
    if (o->lamb.n)
        TRI_BUILD(&up->build, lamb_factor, (tri_attr){0}, o->factor, rows_of(o, o->sums, 3), o->most,
                  up->pass->out.apply);
    tri__each_decaying(up, o, take_step);
    tri__each_run(up, step_others);
}

void tri__emit_onebit_lamb(tri_updating *up) {
    onebit o;
    int exchanges = up->pass->n_copies > 1;
    begin(&o, up);
    if (exchanges) tri__signs_open(&o.signs, up, M, V);
    up->build.gates = TRI_GATE(full);
    emit_full(&o);
    up->build.gates = TRI_GATE(turn);
    tri__each_decaying(up, &o, begin_fresh);
    if (exchanges) tri__signs_gather(&o.signs);
    up->build.gates = TRI_GATE(turn) | TRI_GATE(signs);
    emit_signs(&o);
    up->build.gates = 0;
}
