/* zero_one_adam.c - 0/1 Adam (Lu et al., 2022): AdamW in the steps that update the variance, at growing intervals; the
 * momentum travels as signs in those between them (plan/signs.h).
 *
 * The variance's bias correction counts its own updates (tri__variance_steps): after one of them it stands for that
 * gradient's squares, so that the first step with signs is no larger than AdamW's. An element whose first gradient is
 * in a step with signs stays masked until the next update of the variance. */
#include "plan/signs.h"

enum { M, V }; /* its states */

static void emit_variance(tri_updating *up, const tri_run *run) { tri__run_adam(up, run, TRI_OP_adamw); }

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
