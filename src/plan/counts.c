/* counts.c - the rows that a plan has room for: tokens rounded to what kernels, ranks and experts share. */
#include "layout/runs.h"
#include "plan/plan.h"

/* Tokens of a text in the largest microbatch. */
static int64_t most_tokens(const tri_plan_in *in, int text) {
    int64_t train = in->max.of[TRI_SYM_T0 + text], infer = in->max_infer.of[TRI_SYM_T0 + text];
    return train > infer ? train : infer;
}

/* Distinct token counts: few, so that combinations of both texts' shapes repeat soon; rounding then adds 1/32 of the
 * maximum on average. */
enum { LEVELS = 16 };

static int short_granule(const tri_plan_in *in) {
    int64_t most = 0, step = (int64_t)in->target->granule * LEVELS;
    for (int text = 0; text < in->model->n_encoders; text++) {
        double wide = (double)in->model->encoder[text].hidden_size;
        int64_t tokens = most_tokens(in, text);
        if (2 * (double)tokens * wide * wide >= in->target->short_flops) return 1;
        if (tokens > most) most = tokens;
    }
    return in->target->granule * (int)((most + step - 1) / step);
}

/* A multiple of `granule` with which every rank's products have a multiple of 16 rows (ops_fp8.def). */
static int fp8_granule(const tri_plan_in *in, int granule) {
    int rows = 16 * tri__mesh_cp(&in->mesh), all = rows;
    while (granule > 0 && all % granule) all += rows;
    return all;
}

int tri__plan_granule(const tri_plan_in *in) {
    int shared = tri__mesh_cp(&in->mesh) * (in->mesh.tp > 1 && in->sequence_parallel ? in->mesh.tp : 1);
    if (shared > 1) return in->fp8 ? fp8_granule(in, shared) : shared;
    int granule = in->target->granule > 1 && in->mesh.pp * in->mesh.tp * in->mesh.dp == 1 ? short_granule(in) : 1;
    return in->fp8 ? fp8_granule(in, granule) : granule > 0 ? granule : 1;
}

void tri__plan_share_rows(const tri_plan_in *in, tri_counts *counts, int n_mb) {
    int ep = tri__mesh_ep(&in->mesh), readers = tri__mesh_readers(&in->mesh);
    for (int i = 0; i < readers * n_mb; i++)
        for (int k = 1; k < ep; k++) { /* the others of its run */
            int reader = i / n_mb, other = reader / ep * ep + (reader + k) % ep;
            for (int sym = TRI_SYM_X0; sym <= TRI_SYM_X1; sym++) {
                int64_t rows = counts[other * n_mb + i % n_mb].of[sym];
                if (rows > counts[i].of[sym]) counts[i].of[sym] = rows;
            }
        }
}

int tri__plan_ring(const tri_plan_in *in) { return in->ring ? tri__mesh_cp(&in->mesh) : 0; }

void tri__plan_experts(const tri_network *model, tri_counts *counts) {
    for (int text = 0; text < model->n_encoders; text++) {
        int64_t windows = counts->of[TRI_SYM_W0 + text], *rows = &counts->of[TRI_SYM_X0 + text];
        const tri_capacity capacity = tri__encoder_capacity(&model->encoder[text]);
        if (!*rows)
            *rows = tri__capacity_rows(&capacity, counts->of[TRI_SYM_T0 + text],
                                       windows ? windows : counts->of[TRI_SYM_N]);
    }
}

tri_counts tri__plan_counts(const tri_plan_in *in, const tri_counts *counts) {
    int granule = tri__plan_granule(in), ring = tri__plan_ring(in);
    tri_counts out = tri__counts_rounded(counts, granule);
    tri__plan_experts(in->model, &out);
    for (int text = 0; text < 2 && ring; text++) {
        int64_t tokens = counts->of[TRI_SYM_T0 + text], windows = counts->of[TRI_SYM_W0 + text];
        if (tokens)
            out.of[TRI_SYM_T0 + text] =
                tri__ring_rows(tokens, windows ? windows : counts->of[TRI_SYM_N], ring, granule);
    }
    return out;
}
