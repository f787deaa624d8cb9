/* pass_collect.c - pass: brings a prediction's probabilities, which each replica's last stage has, to every rank.
 *
 *   all_gather over replicas, among the ranks that computed them; broadcast along the pipeline
 *
 * Replicas have different numbers of samples, but each has room for the most: what is exchanged has the same size
 * everywhere, and every rank knows from the batch which rows hold samples. */
#include "plan/pass.h"

static void transfer(tri_builder *to, tri_op op, tri_attr group, int y, int x) {
    group.id = tri__random_id("probs"); /* slots have other names on other ranks */
    tri__build(to, op, (const int[TRI_MAX_ARGS]){y, x}, group);
    tri__build_wait(to, (tri_ends){y, x});
}

tri_status tri__pass_collect(tri_pass *pass) {
    const tri_mesh *mesh = &pass->in->mesh;
    int readers = tri__mesh_readers(mesh), cp = tri__mesh_cp(mesh); /* ranks that share tokens compute the same */
    int root = pass->stages->pipeline.rank[pass->stages->head], own = pass->out.probs;
    tri_builder to = {.arena = pass->arena, .program = pass->program, .unit = -1, .mb = -1};
    int64_t each = to.program->n_mb * to.program->max.of[TRI_SYM_N] * pass->in->model->n_classes;
    if (own < 0 || readers > 1) /* [replicas, microbatches, most samples, classes] */
        pass->out.probs = TRI_BUILD_FLAT(&to, TRI_MEM_RESULT, TRI_F32, readers * each, "probs.all");
    int all = pass->out.probs;
    if (own >= 0 && readers > 1)
        transfer(&to, TRI_OP_all_gather_post,
                 (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP), .across = cp > 1 ? cp : 0}, all, own);
    if (mesh->pp > 1)
        transfer(&to, TRI_OP_broadcast_post, (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_PP), .root = root}, all,
                 own >= 0 ? all : -1);
    return TRI_OK;
}
