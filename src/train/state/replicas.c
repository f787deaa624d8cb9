/* replicas.c - ranks that hold the same weights compare hashes of them, to find a flipped bit and name its rank. */
#include "train/session.h"

typedef struct held {
    uint64_t what, bits; /* hashes of which elements a rank holds, and of their values */
} held;

/* Kinds of weights, hashed separately: in fp32, tensors that tensor-parallel ranks replicate, and shares of the others;
 * then weights that compute beside these, 16-bit ones or those that averages are of, which may be whole where masters
 * or averages are sharded: those of experts, which ranks share, and the others. */
enum { SORTS = 4 };

static int is_part(const tri_piece *piece) {
    for (int d = 0; d < piece->shape.n; d++)
        if (piece->slice.extent[d] != piece->shape.dim[d]) return 1;
    return 0;
}

static held hash_weights(const tri_engine *engine, int parts) {
    held h = {0};
    for (int i = 0; i < engine->n_weights; i++) {
        const tri_piece *piece = &engine->weights[i];
        if (is_part(piece) != parts) continue;
        int64_t range[] = {piece->slice.begin, piece->slice.end};
        h.what = tri__hash64(h.what, piece->slice.start, sizeof piece->slice.start);
        h.what = tri__hash64(h.what, piece->name, strlen(piece->name));
        h.what = tri__hash64(h.what, range, sizeof range);
        h.bits = tri__hash64(h.bits, piece->data, (size_t)(range[1] - range[0]) * tri__dtype_bytes(piece->dtype));
    }
    return h;
}

static held hash_computing(const tri_engine *engine, int experts) {
    const tri_planned *p = &engine->plan.train;
    const tri_network *model = engine->plan.model;
    tri_coords at = tri__mesh_coords(&engine->place.mesh, engine->place.rank);
    int place = experts ? tri__mesh_expert(&engine->place.mesh, engine->place.rank) : 0;
    held h = {.what = (uint64_t)(at.tp + place * engine->place.mesh.tp)};
    if (p->copies) return h; /* they are a copy's own; what copies share are the anchors, in fp32 */
    for (int unit = 0; (p->master || p->shown) && unit < model->n_units; unit++) {
        if ((model->unit[unit].experts > 0) != experts) continue;
        tri_range part = p->param_part[unit];
        const void *weights = tri__exec_slot(engine->exec, engine->train, p->param[unit]); /* [part] */
        h.what = tri__hash64(h.what, model->unit[unit].name, strlen(model->unit[unit].name));
        h.what = tri__hash64(h.what, &part, sizeof part);
        h.bits = tri__hash64(h.bits, weights, (size_t)tri__range_count(part) * tri__dtype_bytes(engine->in.precision));
    }
    return h;
}

/* The faulty rank is the one that agrees with the fewest; of two that differ, it cannot be known which is right. */
static tri_status judge(const held (*all)[SORTS], int n, int sort, int64_t step) {
    int odd = -1, fewest = 0, of = 0;
    for (int r = 0; r < n; r++) {
        int holders = 0, alike = 0; /* of the same elements as rank r's; with the same bits */
        for (int k = 0; k < n; k++)
            if (all[k][sort].what == all[r][sort].what) holders++, alike += all[k][sort].bits == all[r][sort].bits;
        if (alike < holders && (odd < 0 || alike < fewest)) odd = r, fewest = alike, of = holders;
    }
    if (odd < 0) return TRI_OK;
    if (2 * fewest < of)
        return tri__fail(TRI_DISAGREE, "step %lld: rank %d holds other weights than the %d ranks that should hold the "
                         "same: memory or a computation went wrong there. Start again from the last checkpoint, "
                         "without that machine if it happens again", (long long)step, odd, of - fewest);
    return tri__fail(TRI_DISAGREE,
                     "step %lld: rank %d and others hold different weights where they should be the same, %d of %d "
                     "agree with it. Start again from the last checkpoint", (long long)step, odd, fewest, of);
}

tri_status tri__session_compare_replicas(tri_session *s) {
    tri_world *world = s->place.world;
    if (!world) return TRI_OK;
    TRI_TRY(tri__engine_fetch(&s->engine));
    int n = tri_world_size(world);
    held mine[SORTS] = {hash_weights(&s->engine, 0), hash_weights(&s->engine, 1), hash_computing(&s->engine, 0),
                        hash_computing(&s->engine, 1)};
    TRI_OWNED(tri__free_at) held(*all)[SORTS] = calloc((size_t)n, sizeof *all);
    if (!all) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(tri_all_gather(tri_group_world(world), mine, all, 2 * SORTS, NULL, TRI_I64));
    for (int sort = 0; sort < SORTS; sort++) TRI_TRY(judge((const held(*)[SORTS])all, n, sort, s->at.step));
    return TRI_OK;
}
