/* alternate.c - forwards and backwards in turn: what 1F1B, interleaved 1F1B and ZB-H1 have in common.
 *
 * In a round of fewer microbatches than ranks, a stage would wait for the previous stage of its own rank. So there are
 * m / p rounds, the first ones a microbatch longer where p does not divide m: the bubble is that of full rounds for
 * every m >= p. */
#include "plan/schedule/schedule.h"

/* One rank's order: forward k is of chunk[k], backward k of the mirrored chunk (from the last), both of microbatch
 * mb[k]. */
typedef struct rounds {
    int *stage, v;     /* [v] */
    int *chunk, *mb;   /* [n] */
    int n, longest;    /* microbatches of the longest round */
} rounds;

static rounds make_rounds(const tri_pipeline *pipeline, int rank, tri_arena *arena) {
    rounds r = {.stage = tri__arena_alloc(arena, (size_t)pipeline->n_stages * sizeof(int))};
    r.v = tri__rank_stages(pipeline, rank, r.stage);
    size_t bytes = (size_t)(r.v * pipeline->n_mb) * sizeof(int);
    r.chunk = tri__arena_alloc(arena, bytes);
    r.mb = tri__arena_alloc(arena, bytes);
    int m = pipeline->n_mb, n = m >= pipeline->n_ranks ? m / pipeline->n_ranks : 1;
    r.longest = (m + n - 1) / n;
    for (int round = 0, first = 0; round < n; round++) {
        int length = m / n + (round < m % n);
        for (int i = 0; i < length * r.v; i++, r.n++) r.chunk[r.n] = i / length, r.mb[r.n] = first + i % length;
        first += length;
    }
    return r;
}

static void put(const rounds *r, tri_act act, int k, tri_actions *out) {
    tri__act(out, act, r->stage[act == TRI_ACT_F ? r->chunk[k] : r->v - 1 - r->chunk[k]], r->mb[k]);
}

void tri__alternate(const tri_pipeline *pipeline, int rank, int warm, int late, tri_actions *out) {
    rounds r = make_rounds(pipeline, rank, out->arena);
    int forward = 0, weight = 0;
    warm += (r.v - 1) * r.longest;
    while (forward < r.n && forward < warm) put(&r, TRI_ACT_F, forward++, out);
    for (int k = 0; k < r.n; k++) {
        if (forward < r.n) put(&r, TRI_ACT_F, forward++, out);
        put(&r, late < 0 ? TRI_ACT_BW : TRI_ACT_B, k, out);
        if (late >= 0 && k >= late) put(&r, TRI_ACT_W, weight++, out);
    }
    while (late >= 0 && weight < r.n) put(&r, TRI_ACT_W, weight++, out);
}
