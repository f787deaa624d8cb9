/* pass_tensor_sums.c - pass: values that all ranks of the tp axis hold: summed where they differ, counted once.
 *
 * With sequence parallelism each rank computes the norms' gradients from its own tokens: they are summed over the ranks
 * once a step. Replicated values are written to checkpoints by the first rank only, and counted in the gradient norm
 * there only. */
#include "plan/plan.h"
#include "base/random.h"

tri_range tri__tensor_once(const tri_pass *pass, int unit, tri_range part) {
    if (tri__mesh_coords(&pass->in->mesh, pass->in->rank).tp == 0) return part;
    return tri__range_both(part, (tri_range){0, pass->model->unit[unit].split});
}

static void sum_tokens(tri_pass *pass) {
    int n = 0, *sums = tri__arena_alloc(pass->arena, (size_t)pass->model->n_units * sizeof *sums); /* slots in flight */
    tri_builder to = {.arena = pass->arena, .program = pass->program, .mb = -1};
    for (int u = 0; u < pass->model->n_units; u++) {
        const tri_unit *unit = &pass->model->unit[u];
        tri_range held = pass->grad_part[u], part = tri__range_both(held, (tri_range){unit->tokens, unit->count});
        if (!tri__range_count(part)) continue;
        int flat = pass->unit_grad[u];
        to.unit = pass->program->slot[flat].unit;
        int slot = tri__build_view(&to, flat, part.begin - held.begin, 1, tri__range_count(part), "%s.tokens",
                                   pass->program->slot[flat].name);
        tri_attr group = {.axes = TRI_AXIS_SET(TRI_AXIS_TP), .id = tri__random_id(pass->program->slot[slot].name)};
        TRI_BUILD(&to, all_reduce_post, group, slot);
        sums[n++] = slot;
    }
    for (int i = 0; i < n; i++) {
        to.unit = pass->program->slot[sums[i]].unit;
        TRI_BUILD(&to, wait, (tri_attr){0}, sums[i], -1);
    }
}

tri_status tri__pass_tensor_sums(tri_pass *pass) {
    if (pass->in->sequence_parallel) sum_tokens(pass);
    int n = pass->model->n_units;
    tri_range *once = tri__arena_alloc(pass->arena, (size_t)n * sizeof *once);
    for (int u = 0; u < n; u++) once[u] = tri__tensor_once(pass, u, pass->out.save_part[u]);
    pass->out.save_part = once;
    return TRI_OK;
}
