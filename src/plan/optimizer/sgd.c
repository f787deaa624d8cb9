/* sgd.c - stochastic gradient descent with momentum, as torch.optim.SGD; without momentum it keeps no state. */
#include "plan/optimizer.h"

enum { M }; /* its state */

static void emit_run(tri_updating *up, const tri_run *run) {
    const tri_optimizing *how = &up->pass->in->optimizer;
    tri_attr attr = tri__run_attr(up, run);
    attr.beta2 = attr.eps = 0;
    attr.nesterov = how->nesterov;
    int p = tri__run_weights(up, run), m = how->beta1 > 0 ? tri__run_state(up, M, run) : -1;
    int g = tri__run_gradient(up, run);
    TRI_BUILD(&up->build, sgd, attr, p, m, g, up->hyper, up->coef, up->pass->out.apply);
}

static void emit(tri_updating *up) {
    if (up->pass->in->optimizer.beta1 > 0) tri__add_state(up->pass, "m", "momentum_buffer.");
    tri__each_run(up, emit_run);
}

const tri_optimizer tri__sgd = {.name = "sgd", .emit = emit};
