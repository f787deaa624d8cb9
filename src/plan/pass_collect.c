/* pass_collect.c - pass: brings a prediction's probabilities, which each replica's last stage has, to every rank.
 *
 *   all_gather over replicas, among the ranks that computed them; broadcast along the pipeline
 *
 * Replicas have different numbers of samples, but each has room for the most: what is exchanged has the same size
 * everywhere, and every rank knows from the batch which rows hold samples. */
#include "plan/pass.h"
#include "base/random.h"

typedef struct collect {
    tri_pass *pass;
    tri_builder build;
} collect;

/* A slot for the probabilities of `replicas` replicas: [replicas, microbatches, most samples, classes]. */
static int probs_of(collect *c, int replicas, const char *name) {
    const tri_program *program = c->pass->program;
    int64_t each = program->n_mb * program->max.of[TRI_SYM_N] * c->pass->in->model->n_classes;
    return TRI_BUILD_FLAT(&c->build, TRI_MEM_RESULT, TRI_F32, replicas * each, "%s", name);
}

static void transfer(collect *c, tri_op op, tri_attr group, int y, int x) {
    group.id = tri__random_id("probs"); /* slots have other names on other ranks */
    tri__build(&c->build, op, (const int[TRI_MAX_ARGS]){y, x}, group);
    TRI_BUILD(&c->build, wait, (tri_attr){0}, y, x);
}

tri_status tri__pass_collect(tri_pass *pass) {
    const tri_mesh *mesh = &pass->in->mesh;
    int readers = tri__mesh_readers(mesh), cp = tri__mesh_cp(mesh); /* ranks that share tokens compute the same */
    int root = pass->stages->pipeline.rank[pass->stages->head], own = pass->out.probs;
    collect c = {.pass = pass, .build = {.arena = pass->arena, .program = pass->program, .unit = -1, .mb = -1}};
    if (own < 0 || readers > 1) pass->out.probs = probs_of(&c, readers, "probs.all");
    int all = pass->out.probs;
    if (own >= 0 && readers > 1)
        transfer(&c, TRI_OP_all_gather_post,
                 (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP), .across = cp > 1 ? cp : 0}, all, own);
    if (mesh->pp > 1)
        transfer(&c, TRI_OP_broadcast_post, (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_PP), .root = root}, all,
                 own >= 0 ? all : -1);
    return TRI_OK;
}
