/* pass_tensor_sums.c - pass: values that all ranks of the tp axis hold: summed where they differ, counted once.
 *
 * With sequence parallelism each rank computes the norms' gradients from its own tokens: they are summed over the ranks
 * once a step. Gradients of other weights that all ranks hold are the same on each, unless they were coded on their way
 * between replicas, in blocks that begin or end with numbers of a rank's own (pass_compress.c): then the first rank's
 * are taken, and its errors. Replicated values are written to checkpoints by the first rank only, and counted in the
 * gradient norm there only. */
#include "plan/pass.h"
#include "plan/step_kinds.h"

/* Gradients of units: flat slots (-1: none), which hold the elements `part` of them, in steps of the kinds `gates`. */
typedef struct grads {
    const int *slot;
    const tri_range *part;
    uint32_t gates;
} grads;

/* The unit of a slot, and its gate where steps leave it out. */
static void set_unit(tri_builder *to, int slot) {
    to->unit = to->program->slot[slot].unit;
    to->layer = to->unit < 0 ? 0 : 1 + tri__layer_find(to->program, to->program->unit[to->unit]);
}

/* A view of elements `of` of a unit's gradients, as far as this rank has them; -1: none. */
static int grads_of(tri_builder *to, const grads *from, int unit, tri_range of, const char *label) {
    tri_range held = from->part[unit], part = tri__range_both(held, of);
    int flat = from->slot[unit];
    if (!tri__range_count(part) || flat < 0) return -1;
    set_unit(to, flat);
    return tri__build_view(to, flat, part.begin - held.begin, 1, tri__range_count(part), "%s.%s",
                           to->program->slot[flat].name, label);
}

static int is_summed(const tri_pass *pass, int unit) { return pass->tokens_summed && pass->tokens_summed[unit]; }

/* Gradients of weights that all ranks of the tp axis hold, unit by unit: `sums`, those that each forms from its own
 * tokens are summed; else those that all compute alike, or what is kept of them, are the first rank's. */
static void exchange(tri_pass *pass, const grads *from, int sums) {
    int n = 0, gives = !sums && tri__mesh_coords(&pass->in->mesh, pass->in->rank).tp == 0;
    tri_ends *ends = tri__arena_alloc(pass->arena, (size_t)pass->model->n_units * sizeof *ends); /* in flight */
    tri_builder to = {.arena = pass->arena, .program = pass->program, .mb = -1, .gates = from->gates};
    for (int u = 0; u < pass->model->n_units; u++) {
        const tri_unit *unit = &pass->model->unit[u];
        int own_tokens = pass->in->sequence_parallel && !is_summed(pass, u);
        tri_range alike = {unit->split, own_tokens ? unit->tokens : unit->count}, tokens = {unit->tokens, unit->count};
        if (sums && !own_tokens) continue;
        int slot = grads_of(&to, from, u, sums ? tokens : alike, sums ? "tokens" : "whole");
        if (slot < 0) continue;
        ends[n++] = (tri_ends){slot, gives ? slot : -1};
        tri__build_post(&to, sums ? TRI_OP_all_reduce_post : TRI_OP_broadcast_post,
                        (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_TP)}, ends[n - 1]);
    }
    for (int i = 0; i < n; i++) {
        set_unit(&to, ends[i].y);
        tri__build_wait(&to, ends[i]);
    }
}

tri_status tri__pass_tensor_sums(tri_pass *pass) {
    const tri_optimizing *how = &pass->in->optimizer;
    tri_code code = pass->in->mesh.dp > 1 ? pass->in->compression.gradients : TRI_CODE_NONE;
    uint32_t full = tri__sum_gates(how);
    int n = pass->model->n_units, is_apart = pass->local_grad && pass->local_part != pass->grad_part;
    grads summed = {pass->unit_grad, pass->grad_part, is_apart ? full : 0};
    grads local = {pass->local_grad, pass->local_part, tri__step_gates(how) & ~full}; /* not over replicas */
    if (pass->in->sequence_parallel) exchange(pass, &summed, 1);
    if (pass->in->sequence_parallel && is_apart) exchange(pass, &local, 1);
    summed.gates = full;
    if (code != TRI_CODE_NONE && code != TRI_CODE_BF16 /* which has no blocks */) {
        exchange(pass, &summed, 0);
        if (pass->error_new)
            exchange(pass, &(grads){pass->error_new, pass->out.state[pass->error].held, full}, 0);
    }
    tri_range *once = tri__arena_alloc(pass->arena, (size_t)n * sizeof *once);
    for (int u = 0; u < n; u++) once[u] = tri__tensor_once(pass, u, pass->out.save_part[u]);
    pass->out.save_part = once;
    return TRI_OK;
}
