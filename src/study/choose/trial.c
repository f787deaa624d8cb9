/* trial.c - plans and simulates one layout. */
#include "study/choose/choose_parts.h"

#include "engine/accept_settings.h"
#include "engine/staging.h"
#include "plan/step_kinds.h"

/* Bytes by class of the rank that needs most. */
static void find_need(const tri_choose_room *room, const tri_programs *all, tri_candidate *out) {
    int64_t most = -1, bytes[TRI_MEM_COUNT];
    out->need = tri__room_most(all, room->by);
    for (int rank = 0; rank < all->world; rank++) {
        int64_t need = tri__room_rank(all, rank, bytes);
        if (need <= most) continue;
        most = need;
        memcpy(out->bytes, bytes, sizeof bytes);
    }
}

static void find_moving(const tri_rank_timeline *r, double share, tri_candidate *out) {
    for (int i = 0; i < r->program->n_instrs; i++) {
        tri_op op = r->program->instr[i].op;
        if (tri__is_post(op))
            out->moving[op == TRI_OP_recv_post ? TRI_SEND : tri__post_kind(op)] += share * (r->end[i] - r->begin[i]);
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
    out->waiting = out->seconds - out->computing - out->exposed;
    for (int role = 0; role < line->roles.n; role++) {
        int n = 0;
        for (int rank = 0; rank < line->world; rank++) n += line->roles.of[rank] == role;
        find_moving(&line->role[role], n / all, out);
    }
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

/* ---- many microbatches, from few ---- */

/* Once a pipeline is full, each round of microbatches adds the same: short runs, each a round longer than the one
 * before, give the figures of any number of rounds. */
typedef struct rounds {
    int few, each, most; /* microbatches of the shortest run, of a round, of the longest run that is tried */
} rounds;

enum { RUNS = 4 }; /* tried at most */

/* 0: all microbatches have to be planned. Those of a table of data differ; where kinds of steps do, the mean step is
 * none of them; gpipe keeps the activations of all microbatches. */
static int find_rounds(const tri_layout_trial *t, const tri_plan_in *in, rounds *out) {
    const tri_schedule_row *row = tri__schedule_row(in->staging.schedule);
    int pp = in->mesh.pp, interleaves = pp > 1 && row->fewest > 1 && !row->chunks;
    *out = (rounds){.few = pp > 1 ? 2 * pp : 3, .each = interleaves ? pp : 1};
    out->most = out->few + (RUNS - 1) * out->each;
    if (t->rows.sampled.counts || tri__step_gates(&in->optimizer)) return 0;
    if (pp > 1 && in->staging.schedule == TRI_SCHEDULE_GPIPE) return 0;
    return in->n_mb > 2 * out->few + out->each && (in->n_mb - out->few) % out->each == 0;
}

/* Whether each rank begins the last microbatch `seconds` after the one a round before. */
static int is_steady(const tri_timeline *line, int n_mb, int each, double seconds) {
    static const double SAME = 1e-9; /* of the step */
    for (int i = 0; i < line->roles.n; i++) {
        const tri_rank_timeline *r = &line->role[i];
        double begin[2] = {-1, -1};
        for (int k = 0; k < r->program->n_instrs; k++) {
            int mb = r->program->instr[k].mb, is_last = mb == n_mb - 1;
            if (!is_last && mb != n_mb - 1 - each) continue;
            if (begin[is_last] < 0 && tri__op_queue(r->program->instr[k].op) == TRI_QUEUE_COMPUTE)
                begin[is_last] = r->begin[k];
        }
        if (fabs(begin[1] - begin[0] - seconds) > SAME * line->seconds) return 0;
    }
    return 1;
}

/* ---- one layout ---- */

typedef struct trial_work {
    tri_layout_trial *trial;
    tri_arena *arena;
    tri_layout_settings settings;
    tri_plan_in in;
    tri_programs all;
} trial_work;

/* Plans `n_mb` microbatches: the training programs first, most layouts that do not fit fail here. */
static tri_status plan_layout(trial_work *w, int n_mb, tri_candidate *out) {
    w->in.n_mb = w->trial->planned = n_mb;
    TRI_TRY(tri__plan_figures(w->arena, &w->in, 1u << TRI_TRAIN | 1u << TRI_START, w->all.of));
    find_need(&w->trial->room, &w->all, out);
    return TRI_OK;
}

static tri_status time_layout(trial_work *w, tri_timeline *line, tri_candidate *out) {
    const tri_layout_trial *t = w->trial;
    const tri_chooser *c = t->chooser;
    tri_costs costs = tri__staging_costs(w->arena, &w->in, &c->hardware);
    costs.threads = (int)c->settings.threads;
    if (t->rows.sampled.counts)
        costs.counts = slowest_rows(w->arena, &t->rows.sampled, &w->in), costs.n_counts = w->in.n_mb;
    TRI_TRY(tri__timeline(w->arena, &w->all.of[TRI_TRAIN], &costs, line));
    find_times(line, &w->all.of[TRI_TRAIN], out);
    return TRI_OK;
}

static int same_memory(const tri_candidate *a, const tri_candidate *b) {
    return a->need == b->need && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* The figures of n_mb microbatches, from those of a short run and of one a round longer. */
static tri_candidate extend(const tri_candidate *less, const tri_candidate *more, double rounds) {
    tri_candidate out = *more;
    out.seconds += rounds * (more->seconds - less->seconds), out.sent += rounds * (more->sent - less->sent);
    out.computing += rounds * (more->computing - less->computing);
    out.exposed += rounds * (more->exposed - less->exposed);
    for (int kind = 0; kind < TRI_COLLECTIVE_COUNT; kind++)
        out.moving[kind] += rounds * (more->moving[kind] - less->moving[kind]);
    out.waiting = out.seconds - out.computing - out.exposed;
    return out;
}

/* The figures of `n_mb` microbatches from few. *found 0: memory grows with them, or the rounds differ. */
static tri_status try_rounds(trial_work *w, const rounds *by, int n_mb, int *found) {
    tri_candidate *out = &w->trial->of, last = *out, now;
    tri_timeline line;
    *found = 0;
    for (int n = by->few; n <= by->most && n < n_mb && !*found; n += by->each, last = now) {
        now = *out;
        TRI_TRY(plan_layout(w, n, &now));
        int fits = now.need <= w->trial->room.bytes, same = n > by->few && same_memory(&last, &now);
        if (fits) TRI_TRY(time_layout(w, &line, &now));
        double more = now.seconds - last.seconds;
        *found = same && (!fits || is_steady(&line, n, by->each, more));
        if (*found) *out = extend(&last, &now, (double)(n_mb - n) / by->each);
    }
    return TRI_OK;
}

/* Evaluation's programs are planned only for layouts that may be reported. */
static tri_status try_layout(tri_arena *arena, void *data) {
    tri_layout_trial *t = data;
    trial_work w = {.trial = t, .arena = arena, .all = {.world = tri__layout_world(&t->of.layout)}};
    tri_classes infer[TRI_PROGRAMS];
    tri_timeline line;
    rounds by;
    int n_mb = t->of.layout.n_mb, found = 0;
    TRI_TRY(tri__layout_input(t->chooser, &t->of.layout, t->global_batch, &t->rows.max, arena, &w.settings, &w.in));
    TRI_TRY(tri__engine_accept(&w.settings.settings));
    TRI_TRY(tri__accept_steps(&w.settings.settings, w.in.optimizer.steps));
    if (find_rounds(t, &w.in, &by)) TRI_TRY(try_rounds(&w, &by, n_mb, &found));
    if (!found) {
        TRI_TRY(plan_layout(&w, n_mb, &t->of));
        if (t->of.need <= t->room.bytes) TRI_TRY(time_layout(&w, &line, &t->of));
    }
    if (t->of.need > t->room.bytes || t->of.seconds > t->beat) return TRI_OK;
    TRI_TRY(tri__plan_figures(arena, &w.in, 1u << TRI_INFER, infer));
    w.all.of[TRI_INFER] = infer[TRI_INFER];
    find_need(&t->room, &w.all, &t->of);
    if (t->of.need > t->room.bytes) t->of.seconds = 0; /* it does not fit */
    return TRI_OK;
}

void tri__layout_try(void *context, int i) {
    tri_layout_trial *t = (tri_layout_trial *)context + i;
    int over = tri__stop_signalled(t->chooser->stop) || (t->deadline > 0 && tri__clock() > t->deadline);
    t->status = over ? TRI_STOPPED : tri__arena_scratch(try_layout, t);
    if (t->status != TRI_OK) memcpy(t->words, tri_error(), TRI_ERROR_BYTES);
}
