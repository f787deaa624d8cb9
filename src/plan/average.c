/* average.c - averaged weights: an average of each unit's weights, in fp32, sharded like the optimizer's states.
 *
 * After the optimizer, `average` moves it towards the new weights (of fewer bits: their masters) by the field average,
 * which the host sets for each step: 1 - decay for an exponential average, 1 / n for the n-th of several ends of
 * epochs, 1 where it is to be the weights, 0 where it is to stay.
 *
 * The averages are the model: what is filled in and saved as weights. The weights that are trained are a state beside
 * them, `live`. For an evaluation the two change places: the exchange (start.c). */
#include "plan/optimizer.h"

#include "plan/step_kinds.h"

tri_status tri__average_check(const tri_plan_in *in) {
    if (in->average == TRI_AVERAGE_NONE || in->mesh.dp == 1 || !(tri__step_gates(&in->optimizer) & TRI_GATE(alone)))
        return TRI_OK;
    if (in->optimizer.kind == TRI_ZERO_ONE_ADAM)
        return tri__fail(TRI_USAGE,
                         "--average-weights with --optimizer zero-one-adam: copies of the model take local steps, so "
                         "that there are no common weights to average after each step: take --local-step-clipper 1, or "
                         "another optimizer");
    return tri__fail(TRI_USAGE,
                     "--average-weights with --sync-every %lld: copies of the model take local steps, so that there "
                     "are no common weights to average after each step: leave one of them out",
                     (long long)in->optimizer.sync_every);
}

static void add_states(tri_updating *up) {
    tri_pass *pass = up->pass;
    int n = pass->model->n_units, live = tri__add_state(pass, "live", "live.");
    tri_planned *out = &pass->out;
    out->state[live].absent = TRI_ABSENT_WEIGHTS;
    out->live = out->state[live].slot;
    out->shown = tri__none_yet(pass->arena, n);
    for (int u = 0; u < n; u++) {
        if (pass->unit_grad[u] < 0) continue; /* it is not trained */
        up->build.unit = pass->program->slot[out->param[u]].unit;
        out->live[u] = tri__build_part(&up->build, out->param[u], out->param_part[u], out->state_part[u], "live");
        out->shown[u] = TRI_BUILD_FLAT(&up->build, TRI_MEM_STATE, TRI_F32, tri__range_count(out->state_part[u]),
                                       "average.%s", pass->model->unit[u].name);
    }
}

/* An epoch may end with a step that fp16 skips: its weights count all the same. */
void tri__average_emit(tri_updating *up) {
    const tri_pass *pass = up->pass;
    const tri_planned *out = &pass->out;
    int always = pass->in->average == TRI_AVERAGE_LAST && pass->in->precision == TRI_F16;
    if (pass->in->average == TRI_AVERAGE_NONE) return;
    add_states(up);
    up->build.unit = -1;
    int factor = TRI_BUILD_FLAT(&up->build, TRI_MEM_RESULT, TRI_F32, 1, "average.factor");
    TRI_BUILD(&up->build, input, ((tri_attr){.field = TRI_FIELD_average}), factor);
    for (int u = 0; u < pass->model->n_units; u++) {
        if (out->shown[u] < 0 || !tri__range_count(out->state_part[u])) continue;
        up->build.unit = pass->program->slot[out->shown[u]].unit;
        TRI_BUILD(&up->build, average, (tri_attr){0}, out->shown[u], out->live[u], factor, always ? -1 : out->apply);
    }
    up->build.unit = -1;
}
