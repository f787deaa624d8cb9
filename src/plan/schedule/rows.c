/* rows.c - the table of schedules, and functions that their files share. */
#include "plan/schedule/schedule.h"

static const tri_schedule_row rows[] = {
#define TRI_SCHEDULE(id, word, name_, ...) {.name = word, .order = tri__order_##name_, __VA_ARGS__},
#include "plan/schedule/schedules.def"
};

const tri_schedule_row *tri__schedule_row(tri_schedule_kind kind) { return &rows[kind]; }

const char *tri__schedule_names(int branches, char out[static TRI_SCHEDULE_NAMES]) {
    int n = 0;
    for (int k = 0; k < TRI_SCHEDULE_COUNT; k++)
        if (!branches || !rows[k].chain)
            n += snprintf(out + n, TRI_SCHEDULE_NAMES - (size_t)n, "%s%s", n ? ", " : "", rows[k].name);
    return out;
}

const tri_actions *tri__schedule_orders(tri_arena *arena, const tri_schedule_row *row, const tri_pipeline *pipeline) {
    tri_actions *orders = tri__arena_alloc(arena, (size_t)pipeline->n_ranks * sizeof *orders);
    for (int rank = 0; rank < pipeline->n_ranks; rank++) {
        orders[rank].arena = arena;
        row->order(pipeline, rank, &orders[rank]);
    }
    return orders;
}

int tri__rank_stages(const tri_pipeline *pipeline, int rank, int *stage) {
    int n = 0;
    for (int s = 0; s < pipeline->n_stages; s++) {
        if (pipeline->rank[s] != rank) continue;
        if (stage) stage[n] = s;
        n++;
    }
    return n;
}

int tri__rank_depth(const tri_pipeline *pipeline, int rank) {
    for (int s = pipeline->n_stages - 1; s >= 0; s--)
        if (pipeline->rank[s] == rank) return pipeline->depth[s];
    TRI_ASSERT(!"a rank without a stage");
    return -1;
}

double tri__schedule_held(const tri_pipeline *pipeline, const tri_actions *orders, int rank) {
    const tri_actions *order = &orders[rank];
    int held = 0, most = 0, stages = tri__rank_stages(pipeline, rank, NULL);
    for (int i = 0; i < order->n; i++) {
        held += order->at[i].act == TRI_ACT_F;
        if (held > most) most = held;
        held -= order->at[i].act == TRI_ACT_W || order->at[i].act == TRI_ACT_BW;
    }
    return stages ? (double)most / stages : 0;
}

int tri__schedule_rank(const tri_schedule_row *row, int stage, int n_ranks, int n_stages) {
    return row->folds && stage >= n_ranks ? n_stages - 1 - stage : stage % n_ranks;
}
