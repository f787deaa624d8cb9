/* bound.c - what a step takes at least: on top of study/choose/core.c, what the passes say (plan/least.h). */
#include "study/choose/choose_parts.h"

#include "plan/least.h"

struct tri_bounds {
    tri_arena *arena;
    tri_chooser *chooser;
    int64_t global;
    int threads;
    struct counted {
        int64_t parts;
        tri_layout_rows rows;
    } *counted; /* row counts by number of microbatches of all replicas */
    int n_counted, cap_counted;
    struct memos {
        void **at;          /* [n] begin with a key, by which they are sorted */
        int n, cap;
        size_t key, bytes;  /* of a key, of a memo */
    } units, cores;         /* tri_unit_times, tri_core_times */
    int *ranks, cap_ranks; /* scratch, of a transfer */
    const char *refusal;
};

/* Rounding, and work that moves between units. Ranks that move data themselves send gradients inside earlier waits, so
 * stages overlap more than their order says, most of all with the many waits of tp. Where embeddings exchange nothing,
 * what is waited for at a microbatch's end overlaps with the next one. */
static double safe(const tri_bounds *b, const tri_layout *l) {
    double fast = l->tp_plan ? 0.998 : 0.999;
    if (l->ep > 1) return 0.9 / l->ep; /* units are timed as if no experts were shared */
    return b->chooser->hardware.overlap ? fast : l->pp > 1 && l->tp * l->cp > 1 ? 0.8 : 0.93;
}

tri_bounds *tri__bounds_open(tri_arena *arena, tri_chooser *chooser, int64_t global, int threads) {
    tri_bounds *b = tri__arena_alloc(arena, sizeof *b);
    *b = (tri_bounds){.arena = arena, .chooser = chooser, .global = global, .threads = threads,
                      .units = {.key = sizeof(tri_unit_key), .bytes = sizeof(tri_unit_times)},
                      .cores = {.key = sizeof(tri_core_key), .bytes = sizeof(tri_core_times)}};
    return b;
}

/* Row counts of some batches, and their mean microbatch. */
static tri_status sample(tri_bounds *b, int64_t parts, tri_layout_rows *out) {
    TRI_OWNED(tri__sampler_close) tri_sampler sampler = {0};
    const tri_chooser *c = b->chooser;
    TRI_TRY(tri__sampler_open(&sampler, c->study.rows.data, b->global, (int)parts, 1, (uint32_t)c->settings.seed));
    tri__sample_rows(b->arena, &sampler, &c->study.engine, &out->sampled);
    int n = out->sampled.n * out->sampled.parts;
    out->mean = (tri_counts){0};
    for (int i = 0; i < n; i++)
        for (int sym = TRI_SYM_T0; sym < TRI_SYM_COUNT; sym++) {
            out->mean.of[sym] += out->sampled.counts[i].of[sym];
            out->mean.squares[sym] += out->sampled.counts[i].squares[sym] / n;
        }
    for (int sym = TRI_SYM_T0; sym < TRI_SYM_COUNT; sym++) out->mean.of[sym] /= n;
    return TRI_OK;
}

tri_status tri__bounds_rows(tri_bounds *b, const tri_layout *l, tri_layout_rows *out) {
    int64_t parts = (int64_t)l->n_mb * l->dp;
    for (int i = 0; i < b->n_counted; i++)
        if (b->counted[i].parts == parts) {
            *out = b->counted[i].rows;
            return TRI_OK;
        }
    *out = (tri_layout_rows){0};
    TRI_TRY(tri__rows_largest(&b->chooser->study.rows, &b->chooser->settings, b->global, parts, &out->max));
    out->mean = out->max;
    if (b->chooser->study.rows.data) TRI_TRY(sample(b, parts, out));
    *TRI_PUSH(b->arena, b->counted, b->n_counted, b->cap_counted) = (struct counted){parts, *out};
    return TRI_OK;
}

/* ---- memos ---- */

/* The place of a key; *found: a memo of it is there. */
static int place_of(const struct memos *m, const void *key, int *found) {
    int low = 0, high = m->n;
    *found = 0;
    while (low < high && !*found) {
        int middle = (low + high) / 2, order = memcmp(m->at[middle], key, m->key);
        if (order < 0) low = middle + 1;
        else high = middle;
        if (order == 0) *found = 1, low = middle;
    }
    return low;
}

static void *find_memo(const struct memos *m, const void *key) {
    int found, at = place_of(m, key, &found);
    return found ? m->at[at] : NULL;
}

/* Adds an empty memo of a key that is not there yet; returns it, or NULL. */
static void *add_memo(tri_arena *arena, struct memos *m, const void *key) {
    int found, at = place_of(m, key, &found);
    if (found) return NULL;
    void *made = memcpy(tri__arena_alloc(arena, m->bytes), key, m->key);
    TRI_PUSH(arena, m->at, m->n, m->cap);
    memmove(m->at + at + 1, m->at + at, (size_t)(m->n - 1 - at) * sizeof *m->at);
    return m->at[at] = made;
}

static tri_unit_times *units_of(const tri_bounds *b, const tri_layout *l) {
    tri_unit_key key = tri__unit_key(b->chooser, l);
    return find_memo(&b->units, &key);
}

static tri_core_times *core_of(const tri_bounds *b, const tri_layout *l) {
    tri_core_key key = tri__core_key(b->chooser, l);
    return find_memo(&b->cores, &key);
}

/* Work of one call of tri__bounds_prepare. */
typedef struct wanted {
    tri_bounds *bounds;
    const tri_layout **layout;  /* [n] one of those that need it */
    void **memo;                /* [n] */
    int n;
    tri_layout_rows *rows;      /* [n] of units */
    int *first, n_shapes;       /* [n_shapes + 1] units of one shape stand together */
} wanted;

static void time_units(void *context, int i) {
    wanted *w = context;
    int first = w->first[i];
    tri__unit_times(w->bounds->chooser, w->layout[first], w->rows + first, w->first[i + 1] - first,
                    (tri_unit_times **)w->memo + first);
}

static void time_core(void *context, int i) {
    wanted *w = context;
    tri_layout_rows rows;
    tri_core_times *out = w->memo[i];
    const tri_unit_times *units = units_of(w->bounds, w->layout[i]);
    out->status = units->status;
    if (out->status == TRI_OK) out->status = tri__bounds_rows(w->bounds, w->layout[i], &rows);
    if (out->status == TRI_OK) out->status = tri__core_times(w->bounds->chooser, w->layout[i], &rows, units, out);
}

/* Failures other than refusals end the search. */
static tri_status check_memo(tri_bounds *b, tri_status status, const char *words) {
    if (status == TRI_OK) return TRI_OK;
    if (status != TRI_USAGE) return tri__fail(status, "%s", words);
    if (!b->refusal) b->refusal = tri__arena_copy(b->arena, words);
    return TRI_OK;
}

static wanted want(tri_bounds *b, int n) {
    return (wanted){.bounds = b, .layout = tri__arena_alloc(b->arena, (size_t)n * sizeof(tri_layout *)),
                    .memo = tri__arena_alloc(b->arena, (size_t)n * sizeof(void *))};
}

static void swap_wanted(wanted *w, int a, int b) {
    const tri_layout *layout = w->layout[a];
    void *memo = w->memo[a];
    w->layout[a] = w->layout[b], w->memo[a] = w->memo[b];
    w->layout[b] = layout, w->memo[b] = memo;
}

/* Whether microbatches of two keys have the same program but for the number of their rows. */
static int same_shape(const tri_layout *l, const tri_unit_key *a, const tri_unit_key *b) {
    int fixed = tri__layout_world(l) == 1 || l->cp > 1 || l->recompute == TRI_RECOMPUTE_SELECTIVE;
    tri_unit_key like = *b;
    if (!fixed) like.parts = a->parts;
    like.together = a->together;
    return memcmp(a, &like, sizeof like) == 0;
}

/* Puts units of one shape together. */
static void sort_shapes(tri_bounds *b, wanted *w) {
    w->first = tri__arena_alloc(b->arena, (size_t)(w->n + 1) * sizeof *w->first);
    for (int begin = 0, end; begin < w->n; begin = end) {
        const tri_unit_times *like = w->memo[begin];
        end = begin + 1;
        for (int i = end; i < w->n; i++)
            if (same_shape(w->layout[begin], &like->key, &((tri_unit_times *)w->memo[i])->key))
                swap_wanted(w, end++, i);
        w->first[++w->n_shapes] = end;
    }
}

static tri_status prepare_units(tri_bounds *b, const tri_layout *const *layouts, int n) {
    wanted w = want(b, n);
    for (int i = 0; i < n; i++) {
        tri_unit_key key = tri__unit_key(b->chooser, layouts[i]);
        tri_unit_times *memo = add_memo(b->arena, &b->units, &key);
        if (!memo) continue;
        memo->of = tri__arena_alloc(b->arena, (size_t)b->chooser->model.n_units * sizeof *memo->of);
        memo->words = tri__arena_alloc(b->arena, TRI_ERROR_BYTES);
        w.layout[w.n] = layouts[i], w.memo[w.n++] = memo;
    }
    sort_shapes(b, &w);
    w.rows = tri__arena_alloc(b->arena, (size_t)w.n * sizeof *w.rows);
    for (int i = 0; i < w.n; i++) TRI_TRY(tri__bounds_rows(b, w.layout[i], &w.rows[i]));
    tri__parallel(w.n_shapes, b->threads, time_units, &w);
    for (int i = 0; i < w.n; i++)
        TRI_TRY(check_memo(b, ((tri_unit_times *)w.memo[i])->status, ((tri_unit_times *)w.memo[i])->words));
    return TRI_OK;
}

tri_status tri__bounds_prepare(tri_bounds *b, const tri_layout *const *layouts, int n, int close) {
    TRI_TRY(prepare_units(b, layouts, n));
    if (!close) return TRI_OK;
    wanted w = want(b, n);
    for (int i = 0; i < n; i++) {
        tri_core_key key = tri__core_key(b->chooser, layouts[i]);
        tri_core_times *memo = add_memo(b->arena, &b->cores, &key);
        if (!memo) continue;
        memo->rank = tri__arena_alloc(b->arena, (size_t)layouts[i]->pp * sizeof *memo->rank);
        memo->words = tri__arena_alloc(b->arena, TRI_ERROR_BYTES);
        w.layout[w.n] = layouts[i], w.memo[w.n++] = memo;
    }
    tri__parallel(w.n, b->threads, time_core, &w);
    for (int i = 0; i < w.n; i++)
        TRI_TRY(check_memo(b, ((tri_core_times *)w.memo[i])->status, ((tri_core_times *)w.memo[i])->words));
    return TRI_OK;
}

const char *tri__bounds_refusal(const tri_bounds *b) { return b->refusal; }

/* ---- what the passes say ---- */

/* Seconds of bytes that may be sent in pieces of any size: measured rates may be best for some. */
static double seconds_of(tri_bounds *b, const tri_mesh *mesh, const tri_least_move *move) {
    enum { LEAST = 1 << 16 }; /* bytes of a piece */
    int n = tri__transfer_size(mesh, &move->group);
    double least = INFINITY, bytes = move->elements * move->each, piece = bytes;
    if (n > b->cap_ranks) b->ranks = tri__arena_alloc(b->arena, (size_t)(b->cap_ranks = 2 * n) * sizeof *b->ranks);
    if (n > 1) tri__transfer_members(mesh, 0, &move->group, b->ranks);
    for (double pieces = 1; piece > 0 && n > 1; pieces *= 2, piece = bytes / pieces) {
        least = fmin(least, pieces * tri__transfer_seconds(&b->chooser->hardware, move->kind, b->ranks, n, piece));
        if (piece < LEAST) break;
    }
    return isinf(least) ? 0 : move->times * least;
}

static double close_seconds(tri_bounds *b, const tri_layout *l, const tri_plan_in *in, const tri_core_times *core) {
    double most = 0, all = 0;
    for (int i = 0; i < l->pp; i++) {
        const tri_core_rank *rank = &core->rank[i];
        tri_least least;
        double moved[TRI_LEAST_WHENS] = {0}, end;
        tri__plan_least(in, rank->elements, rank->kept, &least);
        for (int k = 0; k < least.n; k++) moved[least.move[k].when] += seconds_of(b, &in->mesh, &least.move[k]);
        double update = rank->update / least.among[TRI_MEM_STATE], last = moved[TRI_LEAST_LAST],
               any = moved[TRI_LEAST_ANY], after = moved[TRI_LEAST_AFTER];
        if (b->chooser->hardware.overlap) {
            end = fmax(rank->finish, fmax(rank->ready + last, any + last)) + update + after;
        } else {
            end = rank->finish + update;
            all += rank->busy + update + last + any + after;
        }
        most = fmax(most, end);
    }
    return safe(b, l) * fmax(most, all / l->pp);
}

double tri__bounds_seconds(tri_bounds *b, const tri_layout *l, int close) {
    const tri_unit_times *units = units_of(b, l);
    if (units->status != TRI_OK) return INFINITY;
    if (!close) return safe(b, l) * l->n_mb * units->total / l->pp;
    const tri_core_times *core = core_of(b, l);
    tri_layout_settings settings;
    tri_plan_in in;
    if (core->status != TRI_OK) return INFINITY;
    return tri__layout_asks(b->chooser, l, b->global, &settings, &in) == TRI_OK ? close_seconds(b, l, &in, core) : 0;
}

int64_t tri__bounds_bytes(const tri_bounds *b, const tri_layout *l) {
    tri_layout_settings settings;
    tri_plan_in in;
    tri_least least;
    if (tri__layout_asks(b->chooser, l, b->global, &settings, &in) != TRI_OK) return 0;
    tri__plan_least(&in, 0, 0, &least);
    double each = 0, elements = (double)in.model->n_elements / ((double)l->pp * l->tp);
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) each += least.bytes[mem] / least.among[mem];
    double activations = in.offload >> TRI_MEM_ACT & 1 ? 0 : (double)units_of(b, l)->activations / l->pp;
    return (int64_t)(safe(b, l) * (each * elements + 0.9 * activations));
}
