/* dry.c - runs the orders of a pipeline's ranks with given times: span, bubble, peak, or the proof that they wait for ever. */
#include "plan/schedule/schedule.h"

/* An action of one stage and microbatch. */
typedef struct run {
    double begin, end;           /* end < 0: not yet known */
    double length;               /* of its computing */
    double pause;                /* the share of it that was done when it waited on its way; 1: it did not */
} run;

typedef struct dry {
    const tri_pipeline *pipeline;
    const tri_stage_time *time;
    double hop;
    run *forward, *backward;     /* [n_stages * n_mb]; backward: gradients of inputs, or of both */
} dry;

static run *run_of(const dry *d, const tri_action *a, int stage) {
    return &(a->act == TRI_ACT_F ? d->forward : d->backward)[stage * d->pipeline->n_mb + a->mb];
}

/* When a share of an action is done. */
static double done_at(const run *r, double share) {
    return share <= r->pause ? r->begin + share * r->length : r->end - (1 - share) * r->length;
}

/* What a feed brings to an action of its taker (backward: of its giver): when, and the share of the action that needs it not. Returns 0
 * where that is not known yet. */
static int arrival(const dry *d, const tri_action *a, int feed, double *at, double *share) {
    const tri_pipeline *p = d->pipeline;
    int back = a->act != TRI_ACT_F, from = p->feed[feed][back], to = p->feed[feed][!back];
    tri_feed_share whole = {1, 0, 1}, of = p->share ? p->share[feed] : whole;
    const run *giver = run_of(d, a, from);
    if (giver->end < 0) return 0;
    *at = done_at(giver, back ? of.returned : of.made) + (p->rank[from] == p->rank[to] ? 0 : d->hop);
    *share = back ? 0 : of.needed;
    return 1;
}

static double length(const dry *d, const tri_action *a) {
    const tri_stage_time *t = &d->time[a->stage];
    return a->act == TRI_ACT_F ? t->forward : a->act == TRI_ACT_B ? t->input : a->act == TRI_ACT_W ? t->weight : t->input + t->weight;
}

/* Times an action that can begin when its rank is free; 0: something that it needs is not known yet. */
static int time_action(const dry *d, const tri_action *a, double free, run *out) {
    const tri_pipeline *p = d->pipeline;
    const run *forward = &d->forward[a->stage * p->n_mb + a->mb], *backward = &d->backward[a->stage * p->n_mb + a->mb];
    *out = (run){.begin = free, .length = length(d, a), .pause = 1};
    if (a->act != TRI_ACT_F && (forward->end < 0 || (a->act == TRI_ACT_W && backward->end < 0))) return 0;
    double at, share;
    for (int pass = 0; pass < 2; pass++) { /* what it needs at its begin, then what it waits for on its way */
        for (int i = 0; i < p->n_feeds && a->act != TRI_ACT_W; i++) {
            if (p->feed[i][a->act == TRI_ACT_F] != a->stage) continue;
            if (!arrival(d, a, i, &at, &share)) return 0;
            if (pass == 0 && share == 0 && at > out->begin) out->begin = at;
            double end = at + (1 - share) * out->length;
            if (pass == 1 && share > 0 && end > out->end) out->end = end, out->pause = share;
        }
        if (pass == 0) out->end = out->begin + out->length;
    }
    return 1;
}

/* Runs a rank from action *at on until one is not ready; *free is when the rank is. */
static void run_rank(const dry *d, const tri_actions *order, int *at, double *free, double *begin, double *busy) {
    run timed;
    for (; *at < order->n && time_action(d, &order->at[*at], *free, &timed); ++*at) {
        const tri_action *a = &order->at[*at];
        begin[*at] = timed.begin;
        *busy += timed.length;
        *free = timed.end;
        if (a->act != TRI_ACT_W) *run_of(d, a, a->stage) = timed;
    }
}

/* Activations live from the forward to the gradient of weights. */
static double peak_of(const tri_actions *order, int n_own_stages) {
    int held = 0, most = 0;
    for (int i = 0; i < order->n; i++) {
        held += order->at[i].act == TRI_ACT_F;
        if (held > most) most = held;
        held -= order->at[i].act == TRI_ACT_W || order->at[i].act == TRI_ACT_BW;
    }
    return n_own_stages ? (double)most / n_own_stages : 0;
}

static tri_status stuck(const tri_pipeline *pipeline, const tri_actions *orders, const int *at) {
    for (int rank = 0; rank < pipeline->n_ranks; rank++) {
        if (at[rank] == orders[rank].n) continue;
        const tri_action *a = &orders[rank].at[at[rank]];
        return tri__fail(TRI_INTERNAL, "the pipeline's order never ends: its rank %d waits before the %s of microbatch %d in stage %d",
                         rank, a->act == TRI_ACT_F ? "forward" : "backward", a->mb, a->stage);
    }
    return TRI_OK;
}

tri_status tri__schedule_dry(tri_arena *arena, const tri_pipeline *pipeline, const tri_actions *orders, const tri_stage_time *times,
                             double hop, tri_dry *out) {
    int n = pipeline->n_ranks, cells = pipeline->n_stages * pipeline->n_mb, moved = 1;
    dry d = {.pipeline = pipeline, .time = times, .hop = hop};
    d.forward = tri__arena_alloc(arena, (size_t)cells * sizeof *d.forward);
    d.backward = tri__arena_alloc(arena, (size_t)cells * sizeof *d.backward);
    for (int i = 0; i < cells; i++) d.forward[i].end = d.backward[i].end = -1;
    *out = (tri_dry){.busy = tri__arena_alloc(arena, (size_t)n * sizeof *out->busy),
                     .peak = tri__arena_alloc(arena, (size_t)n * sizeof *out->peak),
                     .begin = tri__arena_alloc(arena, (size_t)n * sizeof *out->begin)};
    int *at = tri__arena_alloc(arena, (size_t)n * sizeof *at);
    double *free = tri__arena_alloc(arena, (size_t)n * sizeof *free);
    for (int rank = 0; rank < n; rank++) {
        out->begin[rank] = tri__arena_alloc(arena, (size_t)orders[rank].n * sizeof **out->begin);
        out->peak[rank] = peak_of(&orders[rank], tri__rank_stages(pipeline, rank, NULL));
    }
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

double tri__dry_bubble(const tri_pipeline *pipeline, const tri_dry *dry) {
    double busy = 0;
    for (int rank = 0; rank < pipeline->n_ranks; rank++) busy += dry->busy[rank];
    return dry->span > 0 ? 1 - busy / (pipeline->n_ranks * dry->span) : 0;
}
