/* adamw.c - AdamW: decay beside the gradient. With weights of fewer bits, pass precision makes it adamw_copy. */
#include "plan/optimizer.h"

static void emit_run(tri_updating *up, const tri_run *run) { tri__run_adam(up, run, TRI_OP_adamw); }

static void emit(tri_updating *up) {
    tri__add_state(up->pass, "m", "exp_avg.");
    tri__add_state(up->pass, "v", "exp_avg_sq.");
    tri__each_run(up, emit_run);
}

const tri_optimizer tri__adamw = {.name = "adamw", .moments = 2, .emit = emit};
