/* pass_layers.c - pass: gradients of layers that steps leave out. Where a layer is closed nothing writes the gradients
 * of its weights, and no transfer sums them: they are set to 0, once a step, on every rank, and the update goes on as
 * usual. The instruction stands before the first that uses them, so that memory is planned alike in both cases. */
#include "plan/pass.h"

/* The slot with the gradients of a unit that steps leave out, which is a bucket or a block of its own. All of them,
 * also where the update reads a shard: 1-bit optimizers read the others, and offload memory stores them as a whole. */
static int gradients_of(const tri_pass *pass, int unit) {
    return tri__slot_root(pass->program, pass->unit_grad[unit]);
}

static int first_use(const tri_program *program, int root) {
    for (int i = 0; i < program->n_instrs; i++)
        for (int k = 0; k < TRI_MAX_ARGS; k++) {
            int slot = program->instr[i].slot[k];
            if (slot >= 0 && tri__slot_root(program, slot) == root) return i;
        }
    return program->n_instrs;
}

tri_status tri__pass_layers(tri_pass *pass) {
    tri_program *program = pass->program;
    int n, n_units = pass->model->n_units;
    int *at = tri__arena_alloc(pass->arena, (size_t)n_units * sizeof *at),
        *gate = tri__arena_alloc(pass->arena, (size_t)n_units * sizeof *gate);
    tri_builder to = {.arena = pass->arena, .program = program, .mb = -1};
    for (int u = 0; u < n_units; u++) {
        gate[u] = pass->unit_grad[u] < 0 ? 0 : 1 + tri__layer_find(program, pass->model->unit[u].name);
        at[u] = gate[u] ? first_use(program, gradients_of(pass, u)) : -1;
    }
    const tri_instr *from = tri__take_instrs(program, &n);
    for (int i = 0; i <= n; i++) {
        for (int u = 0; u < n_units; u++) {
            if (at[u] != i) continue;
            to.unit = program->slot[gradients_of(pass, u)].unit, to.layer = -gate[u];
            TRI_BUILD(&to, zero, (tri_attr){0}, gradients_of(pass, u));
        }
        if (i < n) tri__build_copy(&to, &from[i]);
    }
    return TRI_OK;
}
