/* choose_trial.c - plans and simulates one layout. */
#include "study/choose_trial.h"

#include "engine/accept.h"
#include "engine/staging.h"

#include <math.h>
#include <string.h>

/* Bytes by class of the rank that needs most. */
static void find_need(const tri_choose_room *room, const tri_programs *all, tri_candidate *out) {
    int64_t most = -1;
    out->need = tri__room_most(all, room->by);
    for (int rank = 0; rank < all->world; rank++) {
        int64_t bytes[TRI_MEM_COUNT] = {0}, sum = 0;
        for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
            for (int kind = 0; kind < TRI_PROGRAMS; kind++) {
                if (!all->of[kind].n) continue;
                const tri_program *p = tri__class_of(&all->of[kind], rank, NULL)->program;
                if (!(p->offload >> mem & 1) && p->bytes[mem] > bytes[mem]) bytes[mem] = p->bytes[mem];
            }
            sum += bytes[mem];
        }
        if (sum <= most) continue;
        most = sum;
        memcpy(out->bytes, bytes, sizeof bytes);
    }
}

/* Figures of the mean step: where kinds differ, in the proportions of the most frequent one. */
static void find_times(const tri_timeline *line, const tri_classes *ranks, tri_candidate *out) {
    double all = line->world * line->seconds / line->mean;
    out->seconds = line->mean;
    for (int rank = 0; rank < line->world; rank++) {
        const tri_rank_timeline *r = tri__timeline_of(line, rank);
        out->computing += r->busy / all, out->exposed += r->exposed / all;
    }
    out->exposed = fmin(out->exposed, out->seconds - out->computing); /* one lane may compute while the other waits */
    out->waiting = out->seconds - out->computing - out->exposed;
    for (int i = 0; i < ranks->n; i++) {
        double bytes[TRI_COLLECTIVE_COUNT], sum = 0;
        tri__program_sent(ranks->at[i].program, bytes);
        for (int kind = 0; kind < TRI_COLLECTIVE_COUNT; kind++) sum += bytes[kind];
        if (sum > out->sent) out->sent = sum;
    }
}

static int64_t tokens_of(const tri_counts *c) { return c->of[TRI_SYM_T0] + c->of[TRI_SYM_T1]; }

/* [n_mb] Each microbatch as that of the replica with most tokens, which the others wait for: the mean of sampled
 * batches. So replicas stay alike, and are timed once. */
static tri_counts *slowest_rows(tri_arena *arena, const tri_sampled *sampled, const tri_plan_in *in) {
    tri_counts *out = tri__arena_alloc(arena, (size_t)in->n_mb * sizeof *out);
    for (int mb = 0; mb < in->n_mb; mb++) {
        for (int batch = 0; batch < sampled->n; batch++) {
            const tri_counts *of = &sampled->counts[batch * sampled->parts + mb], *most = of;
            for (int replica = 1; replica < tri__mesh_readers(&in->mesh); replica++)
                if (tokens_of(&of[replica * in->n_mb]) > tokens_of(most)) most = &of[replica * in->n_mb];
            for (int sym = TRI_SYM_T0; sym < TRI_SYM_COUNT; sym++) {
                out[mb].of[sym] += most->of[sym];
                out[mb].squares[sym] += most->squares[sym] / sampled->n;
            }
        }
        for (int sym = TRI_SYM_T0; sym < TRI_SYM_COUNT; sym++)
            out[mb].of[sym] = (out[mb].of[sym] + sampled->n - 1) / sampled->n;
        out[mb] = tri__plan_counts(in, &out[mb]);
    }
    return out;
}

/* The training programs first: most layouts that do not fit fail here, and need not be simulated. Evaluation's are
 * planned only for those that may be reported. */
static tri_status try_layout(tri_arena *arena, void *data) {
    tri_layout_trial *t = data;
    const tri_chooser *c = t->chooser;
    tri_layout_settings settings;
    tri_plan_in in;
    tri_timeline line;
    tri_programs all = {.world = tri__layout_world(&t->of.layout)};
    tri_classes infer[TRI_PROGRAMS];
    TRI_TRY(tri__layout_input(c, &t->of.layout, t->global_batch, &t->rows.max, arena, &settings, &in));
    TRI_TRY(tri__engine_accept(&settings.settings));
    TRI_TRY(tri__accept_steps(&settings.settings, in.optimizer.steps));
    TRI_TRY(tri__plan_kinds(arena, &in, 1, 1u << TRI_TRAIN | 1u << TRI_START, all.of));
    find_need(&t->room, &all, &t->of);
    if (t->of.need > t->room.bytes) return TRI_OK;
    tri_costs costs = tri__staging_costs(arena, &in, &c->hardware);
    costs.threads = (int)c->settings.threads;
    if (t->rows.sampled.counts) costs.counts = slowest_rows(arena, &t->rows.sampled, &in), costs.n_counts = in.n_mb;
    TRI_TRY(tri__timeline(arena, &all.of[TRI_TRAIN], &costs, &line));
    if (line.mean <= t->beat) {
        TRI_TRY(tri__plan_kinds(arena, &in, 1, 1u << TRI_INFER, infer));
        all.of[TRI_INFER] = infer[TRI_INFER];
        find_need(&t->room, &all, &t->of);
        if (t->of.need > t->room.bytes) return TRI_OK;
    }
    find_times(&line, &all.of[TRI_TRAIN], &t->of);
    return TRI_OK;
}

void tri__layout_try(void *context, int i) {
    tri_layout_trial *t = (tri_layout_trial *)context + i;
    t->status = tri__arena_scratch(try_layout, t);
    if (t->status != TRI_OK) memcpy(t->words, tri_error(), TRI_ERROR_BYTES);
}
