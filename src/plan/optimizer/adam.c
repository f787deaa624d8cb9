/* adam.c - Adam: decay is part of the gradient (L2), as in torch.optim.Adam. */
#include "plan/optimizer.h"

enum { M, V }; /* its states */

static void emit_run(tri_updating *up, const tri_run *run) {
    int p = tri__run_weights(up, run), m = tri__run_state(up, M, run), v = tri__run_state(up, V, run);
    int g = tri__run_gradient(up, run);
    TRI_BUILD(&up->build, adam, tri__run_attr(up, run), p, m, v, g, up->hyper, up->coef, up->pass->out.apply);
}

static void emit(tri_updating *up) {
    tri__add_state(up->pass, "m", "exp_avg.");
    tri__add_state(up->pass, "v", "exp_avg_sq.");
    tri__each_run(up, emit_run);
}

const tri_optimizer tri__adam = {.name = "adam", .emit = emit};
