/* adam.c - Adam: decay is part of the gradient (L2), as in torch.optim.Adam. */
#include "plan/optimizer.h"

static void emit_run(tri_updating *up, const tri_run *run) { tri__run_adam(up, run, TRI_OP_adam); }

static void emit(tri_updating *up) {
    tri__add_state(up->pass, "m", "exp_avg.");
    tri__add_state(up->pass, "v", "exp_avg_sq.");
    tri__each_run(up, emit_run);
}

const tri_optimizer tri__adam = {.name = "adam", .moments = 2, .emit = emit};
