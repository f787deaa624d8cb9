/* update.c - pass: the norm of all gradients, clipping, and AdamW on each unit.
 * Within a unit, runs of parameters that decay or do not are updated by one instruction each. */
#include "plan/plan.h"

static void emit_norm(tri_pass *pass, tri_builder *b, int *coef) {
    const tri_rows one = {.add = 1};
    int sum = tri__build_slot(b, TRI_MEM_RESULT, TRI_F64, one, 1, "grad.sumsq");
    for (int u = 0; u < pass->in->model->n_units; u++) {
        b->unit = pass->program->slot[pass->unit_grad[u]].unit;
        TRI_BUILD(b, sumsq, (tri_attr){0}, sum, pass->unit_grad[u])->acc = u > 0;
    }
    b->unit = -1;
    *coef = tri__build_slot(b, TRI_MEM_RESULT, TRI_F32, one, 1, "grad.coef");
    pass->out.apply = tri__build_slot(b, TRI_MEM_RESULT, TRI_I32, one, 1, "apply");
    pass->out.norm = tri__build_slot(b, TRI_MEM_RESULT, TRI_F64, one, 1, "grad.norm");
    TRI_BUILD(b, clip, ((tri_attr){.max_norm = (float)pass->in->max_grad_norm}), *coef, pass->out.apply, pass->out.norm, sum, -1);
}

/* Views of elements [at, at + count) of a unit's weights, moments and gradient. */
static void emit_run(tri_pass *pass, tri_builder *b, int unit, int64_t at, int64_t count, int decays, int hyper, int coef) {
    const tri_plan_in *in = pass->in;
    const int flat[4] = {pass->out.param[unit], pass->out.m[unit], pass->out.v[unit], pass->unit_grad[unit]};
    int part[4];
    for (int i = 0; i < 4; i++)
        part[i] = tri__build_view(b, flat[i], at, 1, count, "%s.+%lld", pass->program->slot[flat[i]].name, (long long)at);
    tri_attr attr = {.beta1 = (float)in->beta1, .beta2 = (float)in->beta2, .eps = (float)in->adam_eps,
                     .decay = decays ? (float)in->weight_decay : 0};
    TRI_BUILD(b, adamw, attr, part[0], part[1], part[2], part[3], hyper, coef, pass->out.apply);
}

static void emit_unit(tri_pass *pass, tri_builder *b, int unit, int hyper, int coef) {
    const tri_model *model = pass->in->model;
    const tri_unit *u = &model->unit[unit];
    const tri_param *param = &model->param[u->first];
    b->unit = pass->program->slot[pass->out.param[unit]].unit;
    pass->out.m[unit] = tri__build_slot(b, TRI_MEM_STATE, TRI_F32, (tri_rows){.add = 1}, u->count, "m.%s", u->name);
    pass->out.v[unit] = tri__build_slot(b, TRI_MEM_STATE, TRI_F32, (tri_rows){.add = 1}, u->count, "v.%s", u->name);
    for (int first = 0; first < u->n;) {
        int next = first + 1;
        while (next < u->n && param[next].decays == param[first].decays) next++;
        int64_t end = next < u->n ? param[next].at : u->count;
        emit_run(pass, b, unit, param[first].at, end - param[first].at, param[first].decays, hyper, coef);
        first = next;
    }
}

void tri__pass_update(tri_pass *pass) {
    int n_units = pass->in->model->n_units;
    tri_builder b = {.arena = pass->arena, .program = pass->program, .unit = -1, .mb = -1};
    pass->out.m = tri__arena_alloc(pass->arena, (size_t)n_units * sizeof *pass->out.m);
    pass->out.v = tri__arena_alloc(pass->arena, (size_t)n_units * sizeof *pass->out.v);
    int coef, hyper = tri__build_slot(&b, TRI_MEM_RESULT, TRI_F32, (tri_rows){.add = 1}, 4, "hyper");
    emit_norm(pass, &b, &coef);
    TRI_BUILD(&b, input, ((tri_attr){.field = TRI_FIELD_hyper}), hyper);
    for (int u = 0; u < n_units; u++) emit_unit(pass, &b, u, hyper, coef);
}
