/* zbv.c - ZBV: two stages a rank, laid out as a V, so that rank 0 has both ends of the chain: a = stage r, b = stage
 * 2p-1-r. With equal times a rank never waits between its first and its last action. Written for at least 2p-1
 * microbatches; with fewer, the actions of missing ones are skipped. */
#include "plan/schedule/schedule.h"

typedef struct zbv {
    const tri_pipeline *pipeline;
    int stage[2];       /* a, b */
    int done[3][2];     /* microbatches done by F, B, W of each */
    tri_actions *out;
} zbv;

enum { A, B };

static void next(zbv *z, tri_act act, int which) {
    int mb = z->done[act][which]++;
    if (mb < z->pipeline->n_mb) tri__act(z->out, act, z->stage[which], mb);
}

void tri__order_zbv(const tri_pipeline *pipeline, int rank, tri_actions *out) {
    int p = pipeline->n_ranks, n = pipeline->n_mb > 2 * p - 1 ? pipeline->n_mb : 2 * p - 1;
    zbv z = {.pipeline = pipeline, .stage = {rank, 2 * p - 1 - rank}, .out = out};
    for (int i = 0; i < 2 * (p - rank) - 1; i++) next(&z, TRI_ACT_F, A);
    for (int i = 0; i < rank; i++) next(&z, TRI_ACT_F, B), next(&z, TRI_ACT_F, A);
    for (int i = 0; i < p - rank; i++) next(&z, TRI_ACT_F, B), next(&z, TRI_ACT_B, B), next(&z, TRI_ACT_W, B);
    while (z.done[TRI_ACT_F][B] < n) {
        if (z.done[TRI_ACT_F][A] < n) next(&z, TRI_ACT_F, A);
        next(&z, TRI_ACT_B, A), next(&z, TRI_ACT_W, A);
        next(&z, TRI_ACT_F, B), next(&z, TRI_ACT_B, B), next(&z, TRI_ACT_W, B);
    }
    for (int i = 0; i < rank; i++) next(&z, TRI_ACT_B, A), next(&z, TRI_ACT_B, B);
    for (int i = 0; i < p - rank; i++) next(&z, TRI_ACT_B, A), next(&z, TRI_ACT_W, A);
    while (z.done[TRI_ACT_W][B] < n) next(&z, TRI_ACT_W, B);
    while (z.done[TRI_ACT_W][A] < n) next(&z, TRI_ACT_W, A);
}
