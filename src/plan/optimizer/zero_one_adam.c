/* zero_one_adam.c - 0/1 Adam (Lu et al., 2022): AdamW's moments in the steps that update the variance, at growing
 * intervals; the momentum travels as signs in those between them (plan/signs.h). Both take the step of adamw_frozen,
 * which is limited: a momentum that was decoded goes on into the next update of the variance.
 *
 * The variance's bias correction counts its own updates (tri__variance_steps): after one of them it stands for that
 * gradient's squares, so that the first step with signs is no larger than AdamW's. An element whose first gradient is
 * in a step with signs stays masked until the next update of the variance. */
#include "plan/signs.h"

enum { M, V }; /* its states */

static void emit_variance(tri_updating *up, const tri_run *run) {
    int p = tri__run_weights(up, run), m = tri__run_state(up, M, run), v = tri__run_state(up, V, run);
    int g = tri__run_gradient(up, run);
    TRI_BUILD(&up->build, lamb_moments, tri__run_attr(up, run), m, v, -1, p, g, up->hyper, up->coef,
              up->pass->out.apply); /* without LAMB's sums they are Adam's moments */
    tri__run_frozen(up, run);
}

static void emit(tri_updating *up) {
    tri_signs signs;
    tri_pass *pass = up->pass;
    int exchanges = pass->n_copies > 1;
    tri__add_state(pass, "m", "exp_avg.");
    tri__add_state(pass, "v", "exp_avg_sq.");
    if (exchanges) tri__signs_open(&signs, up, M);
    up->build.gates = TRI_GATE(variance);
    tri__each_run(up, emit_variance);
    if (exchanges) tri__signs_gather(&signs);
    up->build.gates = TRI_GATE(signs);
    if (exchanges) tri__signs_exchange(&signs);
    else tri__each_run(up, tri__run_momentum);
    tri__each_run(up, tri__run_frozen);
    up->build.gates = 0;
}

const tri_optimizer tri__zero_one_adam = {.name = "zero-one-adam", .emit = emit};
