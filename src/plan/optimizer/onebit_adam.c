/* onebit_adam.c - 1-bit Adam (Tang et al., 2021): AdamW in the first full_steps; then the variance stays as it is, and
 * only the momentum is exchanged, as signs (plan/signs.h). */
#include "plan/signs.h"

enum { M, V }; /* its states */

void tri__emit_onebit_adam(tri_updating *up) {
    tri_signs signs;
    tri_pass *pass = up->pass;
    int exchanges = pass->n_copies > 1;
    tri__add_state(pass, "m", "exp_avg.");
    tri__add_state(pass, "v", "exp_avg_sq.");
    if (exchanges) tri__signs_open(&signs, up, M, V);
    up->build.gates = TRI_GATE(full);
    tri__each_run(up, tri__run_adamw);
    up->build.gates = TRI_GATE(turn);
    if (exchanges) tri__signs_gather(&signs);
    up->build.gates = TRI_GATE(turn) | TRI_GATE(signs);
    if (exchanges) tri__signs_exchange(&signs, 0);
    else tri__each_run(up, tri__run_momentum);
    tri__each_run(up, tri__run_frozen);
    up->build.gates = 0;
}
