/* zero_one_adam.c - 0/1 Adam (Lu et al., 2022): AdamW's moments in the steps that update the variance, at growing
 * intervals; the momentum travels as signs in those between them (plan/signs.h). Both take the step of adamw_frozen,
 * which is limited: a momentum that was decoded goes on into the next update of the variance.
 *
 * When the variance is frozen, copies take local steps (Lu et al., algorithm 1): each with its own gradient, which
 * stands for that of all, its own momentum and weights. When they synchronise (gate sync), the mean momentum since the
 * last time travels as signs, and each takes the step of all these steps along it from the weights of that time, the
 * anchor (pass_local.c), which are the same on all copies. Weights decay with that step's rate. Steps that are not
 * local end a window of one step.
 *
 * The variance's bias correction counts its own updates (tri__variance_steps): after one of them it stands for that
 * gradient's squares, so that the first step with signs is no larger than AdamW's. An element whose first gradient is
 * in a step with signs stays masked until the next update of the variance. */
#include "plan/signs.h"
#include "plan/step_kinds.h"

enum { M, V }; /* its states */

static void emit_variance(tri_updating *up, const tri_run *run) {
    int p = tri__run_weights(up, run), m = tri__run_state(up, M, run), v = tri__run_state(up, V, run);
    int g = tri__run_gradient(up, run);
    tri_attr attr = tri__run_attr(up, run);
    attr.rate = 0; /* of the step */
    /* without LAMB's sums they are Adam's moments */
    TRI_BUILD(&up->build, lamb_moments, attr, m, v, -1, p, g, up->hyper, up->coef, up->pass->out.apply);
}

static void emit_meet(tri_updating *up, const tri_run *run) {
    const tri_planned *out = &up->pass->out;
    int anchor = tri__run_part(up, out->shown[run->unit], out->param_part[run->unit], run);
    int p = tri__run_weights(up, run), m = tri__run_state(up, M, run), v = tri__run_state(up, V, run);
    tri_attr attr = tri__run_step(up, run);
    attr.meet = 1;
    TRI_BUILD(&up->build, adamw_frozen, attr, anchor, p, m, v, up->hyper, out->apply);
}

void tri__emit_zero_one_adam(tri_updating *up) {
    tri_signs signs;
    tri_pass *pass = up->pass;
    uint32_t gates = tri__step_gates(&pass->in->optimizer), own = gates & (TRI_GATE(alone) | TRI_GATE(sync));
    int exchanges = pass->n_copies > 1, meets = exchanges && own;
    tri__add_state(pass, "m", "exp_avg.");
    tri__add_state(pass, "v", "exp_avg_sq.");
    if (exchanges) tri__signs_open(&signs, up, M, -1); /* its variance changes */
    if (meets) {
        tri__state_of_copies(pass, up->first + M, TRI_STATE_AVERAGED, signs.place, signs.n, pass->local_part);
        tri__local_weights(pass, signs.place, signs.n);
        tri__local_anchor(pass, &up->build);
    }
    up->build.gates = TRI_GATE(variance);
    tri__each_run(up, emit_variance);
    if (exchanges) tri__signs_gather(&signs);
    up->build.gates = exchanges ? gates & (TRI_GATE(signs) | TRI_GATE(sync)) : gates & ~TRI_GATE(variance);
    if (exchanges) tri__signs_exchange(&signs, own);
    else tri__each_run(up, tri__run_momentum);
    up->build.gates = meets ? TRI_GATE(alone) : gates;
    tri__each_run(up, tri__run_frozen);
    up->build.gates = gates & ~TRI_GATE(alone);
    if (meets) tri__each_run(up, emit_meet);
    up->build.gates = 0;
}

const tri_hyper tri__zero_one_hyper[TRI_HYPERS] = {TRI_HYPER_RATE, TRI_HYPER_MOMENTUM, TRI_HYPER_VARIANCE,
                                                   TRI_HYPER_SHARE};
