/* onebit_adam.c - 1-bit Adam (Tang et al., 2021): AdamW in the first full_steps; then the variance stays as it is, and
 * only the momentum is exchanged, as signs (plan/signs.h). */
#include "plan/signs.h"

enum { M, V }; /* its states */

static void emit_full(tri_updating *up, const tri_run *run) { tri__run_adam(up, run, TRI_OP_adamw); }

/* A single copy has nothing to exchange. */
static void emit_momentum(tri_updating *up, const tri_run *run) {
    tri_attr attr = {.beta1 = (float)up->pass->in->optimizer.beta1};
    int m = tri__run_state(up, M, run), g = tri__run_gradient(up, run);
    TRI_BUILD(&up->build, momentum, attr, m, g, up->coef, up->pass->out.apply);
}

static void emit_frozen(tri_updating *up, const tri_run *run) {
    tri_attr all = tri__run_attr(up, run), attr = {.eps = all.eps, .decay = all.decay};
    int p = tri__run_weights(up, run), m = tri__run_state(up, M, run), v = tri__run_state(up, V, run);
    TRI_BUILD(&up->build, adamw_frozen, attr, p, m, v, up->hyper, up->pass->out.apply);
}

static void emit(tri_updating *up) {
    tri_signs signs;
    tri_pass *pass = up->pass;
    int exchanges = pass->n_copies > 1;
    tri__add_state(pass, "m", "exp_avg.");
    tri__add_state(pass, "v", "exp_avg_sq.");
    if (exchanges) tri__signs_open(&signs, up, M);
    up->build.gates = TRI_GATE(full);
    tri__each_run(up, emit_full);
    up->build.gates = TRI_GATE(turn);
    if (exchanges) tri__signs_gather(&signs);
    up->build.gates = TRI_GATE(turn) | TRI_GATE(signs);
    if (exchanges) tri__signs_exchange(&signs);
    else tri__each_run(up, emit_momentum);
    tri__each_run(up, emit_frozen);
    up->build.gates = 0;
}

const tri_optimizer tri__onebit_adam = {.name = "onebit-adam", .emit = emit};
