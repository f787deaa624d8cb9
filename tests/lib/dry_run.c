/* dry_run.c - see dry_run.h. */
#include "tests/lib/dry_run.h"

typedef struct dry {
    const tri_pipeline *pipeline;
    const tri_stage_time *time;
    double edge;
    double *forward, *backward;  /* [n_stages * n_mb] when it ended: outputs, gradients of inputs; < 0: not yet */
} dry;

/* When the output of one stage arrives at another; < 0: not yet. */
static double arrival(const dry *d, const double *ended, int from, int to, int mb) {
    double at = ended[from * d->pipeline->n_mb + mb];
    return at < 0 || d->pipeline->rank[from] == d->pipeline->rank[to] ? at : at + d->edge;
}

/* When an action can begin; < 0: not yet known. */
static double ready(const dry *d, const tri_action *a) {
    const tri_pipeline *p = d->pipeline;
    int own = a->stage * p->n_mb + a->mb;
    double at = a->act == TRI_ACT_F ? 0 : a->act == TRI_ACT_W ? d->backward[own] : d->forward[own];
    if (a->act == TRI_ACT_W) return at;
    for (int i = 0; i < p->n_feeds && at >= 0; i++) {
        int giver = p->feed[i][a->act != TRI_ACT_F], taker = p->feed[i][a->act == TRI_ACT_F];
        if (taker != a->stage) continue;
        double there = arrival(d, a->act == TRI_ACT_F ? d->forward : d->backward, giver, taker, a->mb);
        if (there < 0) return there;
        if (there > at) at = there;
    }
    return at;
}

static double length(const dry *d, const tri_action *a) {
    const tri_stage_time *t = &d->time[a->stage];
    return a->act == TRI_ACT_F   ? t->forward
           : a->act == TRI_ACT_B ? t->input
           : a->act == TRI_ACT_W ? t->weight
                                 : t->input + t->weight;
}

/* Runs a rank from action *at on until one is not ready; *free is when the rank is. */
static void run_rank(const dry *d, const tri_actions *order, int *at, double *free, double *begin, double *busy) {
    for (; *at < order->n; ++*at) {
        const tri_action *a = &order->at[*at];
        double from = ready(d, a);
        if (from < 0) return;
        begin[*at] = from > *free ? from : *free;
        *busy += length(d, a);
        *free = begin[*at] + length(d, a);
        int own = a->stage * d->pipeline->n_mb + a->mb;
        if (a->act == TRI_ACT_F) d->forward[own] = *free;
        else if (a->act != TRI_ACT_W) d->backward[own] = *free;
    }
}

static tri_status stuck(const tri_pipeline *pipeline, const tri_actions *orders, const int *at) {
    for (int rank = 0; rank < pipeline->n_ranks; rank++) {
        if (at[rank] == orders[rank].n) continue;
        const tri_action *a = &orders[rank].at[at[rank]];
        return tri__fail(
            TRI_INTERNAL,
            "the pipeline's order never ends: its rank %d waits before the %s of microbatch %d in stage %d", rank,
            a->act == TRI_ACT_F ? "forward" : "backward", a->mb, a->stage);
    }
    return TRI_OK;
}

tri_status dry_run(tri_arena *arena, const tri_pipeline *pipeline, const tri_actions *orders,
                   const tri_stage_time *times, double edge, dry_times *out) {
    int n = pipeline->n_ranks, cells = pipeline->n_stages * pipeline->n_mb, moved = 1;
    dry d = {.pipeline = pipeline, .time = times, .edge = edge};
    d.forward = tri__arena_alloc(arena, (size_t)cells * sizeof *d.forward);
    d.backward = tri__arena_alloc(arena, (size_t)cells * sizeof *d.backward);
    for (int i = 0; i < cells; i++) d.forward[i] = d.backward[i] = -1;
    *out = (dry_times){.busy = tri__arena_alloc(arena, (size_t)n * sizeof *out->busy),
                       .begin = tri__arena_alloc(arena, (size_t)n * sizeof *out->begin)};
    int *at = tri__arena_alloc(arena, (size_t)n * sizeof *at);
    double *free = tri__arena_alloc(arena, (size_t)n * sizeof *free);
    for (int rank = 0; rank < n; rank++)
        out->begin[rank] = tri__arena_alloc(arena, (size_t)orders[rank].n * sizeof **out->begin);
    while (moved) {
        moved = 0;
        for (int rank = 0; rank < n; rank++) {
            int from = at[rank];
            run_rank(&d, &orders[rank], &at[rank], &free[rank], out->begin[rank], &out->busy[rank]);
            moved |= at[rank] > from;
        }
    }
    for (int rank = 0; rank < n; rank++)
        if (free[rank] > out->span) out->span = free[rank];
    return stuck(pipeline, orders, at);
}

double dry_bubble(const tri_pipeline *pipeline, const dry_times *dry) {
    double busy = 0;
    for (int rank = 0; rank < pipeline->n_ranks; rank++) busy += dry->busy[rank];
    return dry->span > 0 ? 1 - busy / (pipeline->n_ranks * dry->span) : 0;
}
