/* bound.c - what a step takes at least: transfers of data parallelism on top of study/choose/core.c. */
#include "study/choose/bound.h"

#include "plan/step_kinds.h"
#include "settings/forms.h"
#include "study/choose/core.h"
#include "study/choose/parallel.h"

#include <stdlib.h>
#include <string.h>

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
    tri_unit_times **units; /* sorted by key, as cores */
    int n_units, cap_units;
    tri_core_times **cores;
    int n_cores, cap_cores;
    int *ranks, cap_ranks; /* for find_replicas */
    const char *refusal;
};

/* Rounding, and work that moves between units. Ranks that move data themselves send gradients inside earlier waits, so
 * stages overlap more than their order says, most of all with the many waits of tp. */
static double safe(const tri_bounds *b, const tri_layout *l) {
    return b->chooser->hardware.overlap ? 0.999 : l->pp > 1 && l->tp * l->cp > 1 ? 0.8 : 0.93;
}

tri_bounds *tri__bounds_open(tri_arena *arena, tri_chooser *chooser, int64_t global, int threads) {
    tri_bounds *b = tri__arena_alloc(arena, sizeof *b);
    *b = (tri_bounds){.arena = arena, .chooser = chooser, .global = global, .threads = threads};
    return b;
}

/* Row counts of some batches, and their mean microbatch. */
static tri_status sample(tri_bounds *b, int64_t parts, tri_layout_rows *out) {
    tri_sampler sampler = {0};
    const tri_chooser *c = b->chooser;
    TRI_TRY(tri__sampler_open(&sampler, c->rows.data, b->global, (int)parts, 1, (uint32_t)c->settings.seed));
    tri_engine *engine = calloc(1, sizeof *engine); /* large; rounds nothing */
    if (engine) {
        engine->model = c->model;
        engine->in = (tri_plan_in){.model = &c->model, .target = &c->target, .mesh = {.pp = 1, .tp = 1, .dp = 2}};
        tri__sample_rows(b->arena, &sampler, engine, &out->sampled);
    }
    tri__sampler_close(&sampler);
    free(engine);
    if (!engine) return tri__fail(TRI_RESOURCE, "out of memory");
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
    TRI_TRY(tri__rows_largest(&b->chooser->rows, &b->chooser->settings, b->global, parts, &out->max));
    out->mean = out->max;
    if (b->chooser->rows.data) TRI_TRY(sample(b, parts, out));
    *TRI_PUSH(b->arena, b->counted, b->n_counted, b->cap_counted) = (struct counted){parts, *out};
    return TRI_OK;
}

/* ---- memos, sorted by key ---- */

/* The place of a key in a sorted list of pointers to structs that begin with it. */
static int place_of(void *const *list, int n, const void *key, size_t size, int *found) {
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2, order = memcmp(list[middle], key, size);
        if (order == 0) {
            *found = 1;
            return middle;
        }
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    *found = 0;
    return low;
}

static void *find_memo(void *const *list, int n, const void *key, size_t size) {
    int found, at = place_of(list, n, key, size, &found);
    return found ? list[at] : NULL;
}

/* Adds an empty memo of a key that is not there yet; returns it, or NULL. */
static void *add_memo(tri_arena *arena, void ***list, int *n, int *cap, const void *key, size_t key_size,
                      size_t size) {
    int found, at = place_of(*list, *n, key, key_size, &found);
    if (found) return NULL;
    void *made = memcpy(tri__arena_alloc(arena, size), key, key_size);
    TRI_PUSH(arena, *list, *n, *cap);
    memmove(*list + at + 1, *list + at, (size_t)(*n - 1 - at) * sizeof **list);
    return (*list)[at] = made;
}

static tri_unit_times *units_of(const tri_bounds *b, const tri_layout *l) {
    tri_unit_key key = tri__unit_key(b->chooser, l);
    return find_memo((void *const *)b->units, b->n_units, &key, sizeof key);
}

static tri_core_times *core_of(const tri_bounds *b, const tri_layout *l) {
    tri_core_key key = tri__core_key(b->chooser, l);
    return find_memo((void *const *)b->cores, b->n_cores, &key, sizeof key);
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

/* Puts units of one shape together. */
static void sort_shapes(tri_bounds *b, wanted *w) {
    w->first = tri__arena_alloc(b->arena, (size_t)(w->n + 1) * sizeof *w->first);
    for (int begin = 0, end; begin < w->n; begin = end) {
        const tri_unit_times *like = w->memo[begin];
        end = begin + 1;
        for (int i = end; i < w->n; i++)
            if (tri__same_shape(w->layout[begin], &like->key, &((tri_unit_times *)w->memo[i])->key))
                swap_wanted(w, end++, i);
        w->first[++w->n_shapes] = end;
    }
}

static tri_status prepare_units(tri_bounds *b, const tri_layout *const *layouts, int n) {
    wanted w = want(b, n);
    for (int i = 0; i < n; i++) {
        tri_unit_key key = tri__unit_key(b->chooser, layouts[i]);
        tri_unit_times *memo = add_memo(b->arena, (void ***)&b->units, &b->n_units, &b->cap_units, &key, sizeof key,
                                        sizeof *memo);
        if (!memo) continue;
        tri__unit_times_open(b->arena, b->chooser, memo);
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
        tri_core_times *memo = add_memo(b->arena, (void ***)&b->cores, &b->n_cores, &b->cap_cores, &key, sizeof key,
                                        sizeof *memo);
        if (!memo) continue;
        tri__core_times_open(b->arena, layouts[i], memo);
        w.layout[w.n] = layouts[i], w.memo[w.n++] = memo;
    }
    tri__parallel(w.n, b->threads, time_core, &w);
    for (int i = 0; i < w.n; i++)
        TRI_TRY(check_memo(b, ((tri_core_times *)w.memo[i])->status, ((tri_core_times *)w.memo[i])->words));
    return TRI_OK;
}

const char *tri__bounds_refusal(const tri_bounds *b) { return b->refusal; }

/* ---- transfers of data parallelism ---- */

/* The ranks among which rank 0's weights are sharded, and those with the same shard. */
typedef struct replicas {
    int *within, n_within, *across, n_across;
} replicas;

static tri_status find_replicas(tri_bounds *b, const tri_layout *l, replicas *out) {
    tri_mesh mesh;
    int all = tri__layout_replicas(l), size = l->shard == TRI_SHARD_HYBRID ? l->shard_size : all;
    if (2 * all > b->cap_ranks) {
        b->cap_ranks = 4 * all;
        b->ranks = tri__arena_alloc(b->arena, (size_t)b->cap_ranks * sizeof *b->ranks);
    }
    TRI_TRY(tri__mesh_make(&mesh, tri__layout_world(l),
                           (tri_mesh_sizes){.pp = l->pp, .tp = l->tp, .cp = l->cp, .dp = l->dp}));
    TRI_TRY(tri__mesh_set_order(&mesh, tri__layout_order(l->order), b->chooser->hardware.ranks_per_node));
    int n = tri__mesh_group(&mesh, 0, TRI_AXIS_SET(TRI_AXIS_DP), b->ranks);
    *out = (replicas){.within = b->ranks, .n_within = size, .across = b->ranks + n, .n_across = n / size};
    for (int i = 0; i < out->n_across; i++) out->across[i] = b->ranks[i * size];
    return TRI_OK;
}

/* Seconds of bytes that may be sent in pieces of any size: measured rates may be best for some. */
static double moves(const tri_bounds *b, tri_collective_kind kind, const int *ranks, int n, double bytes) {
    enum { LEAST = 1 << 16 }; /* bytes of a piece */
    double least = INFINITY, piece = bytes;
    for (double pieces = 1; piece > 0 && n > 1; pieces *= 2, piece = bytes / pieces) {
        least = fmin(least, pieces * tri__transfer_seconds(&b->chooser->hardware, kind, ranks, n, piece));
        if (piece < LEAST) break;
    }
    return isinf(least) ? 0 : least;
}

/* Seconds of a pipeline rank's transfers with the other replicas: after its first gradients are ready, at any time, and
 * after the update. */
typedef struct dp_times {
    double last, any, after;
} dp_times;

/* Gradients in a code go to their owners, and where all replicas need the sums these go back in the code. Scales, what
 * stays in full and what machines exchange within are left out. */
static dp_times coded_times(const tri_bounds *b, const tri_layout *l, const replicas *r, double elements,
                            double weights) {
    static const double bits[] = {32, 16, 8, 4, 8}; /* of --compress-gradients' choices */
    const tri_settings *s = &b->chooser->settings;
    double coded = s->compress_scope == TRI_SCOPE_NODE ? 0 : elements * bits[s->compress_gradients] / 8;
    double there = moves(b, TRI_ALL_TO_ALL, r->within, r->n_within, coded),
           back = moves(b, TRI_ALL_GATHER, r->within, r->n_within, coded),
           gather = moves(b, TRI_ALL_GATHER, r->within, r->n_within, weights);
    switch (l->shard) {
    case TRI_SHARD_NONE: return (dp_times){.last = there + back};
    case TRI_SHARD_ZERO1: return (dp_times){.last = there, .after = gather};
    case TRI_SHARD_ZERO2: return (dp_times){.any = l->n_mb * there, .after = gather};
    default: return (dp_times){0};
    }
}

static dp_times dp_times_of(const tri_bounds *b, const tri_layout *l, const replicas *r, const tri_core_rank *rank) {
    const tri_settings *s = &b->chooser->settings;
    double half = l->precision == TRI_PRECISION_FP32 ? 4 : 2, kept = s->reduce_dtype == TRI_PRECISION_FP32 ? 4 : 2;
    double gradients = rank->elements * kept, weights = rank->elements * half;
    double again = 2.0 * l->n_mb * (rank->elements - rank->kept) * half; /* gathers of both passes of a microbatch */
    if (s->compress_weights || s->sync_every > 1 || tri__is_onebit((tri_optimizer_kind)s->optimizer))
        return (dp_times){0}; /* fewer bytes, or in some steps only: no bound */
    if (s->compress_gradients) return coded_times(b, l, r, rank->elements, weights);
    switch (l->shard) {
    case TRI_SHARD_NONE: return (dp_times){.last = moves(b, TRI_ALL_REDUCE, r->within, r->n_within, gradients)};
    case TRI_SHARD_ZERO1:
        return (dp_times){.last = moves(b, TRI_REDUCE_SCATTER, r->within, r->n_within, gradients),
                          .after = moves(b, TRI_ALL_GATHER, r->within, r->n_within, weights)};
    case TRI_SHARD_ZERO2:
        return (dp_times){.any = l->n_mb * moves(b, TRI_REDUCE_SCATTER, r->within, r->n_within, gradients),
                          .after = moves(b, TRI_ALL_GATHER, r->within, r->n_within, weights)};
    default:
        return (dp_times){.any = l->n_mb * moves(b, TRI_REDUCE_SCATTER, r->within, r->n_within, gradients) +
                                 moves(b, TRI_ALL_GATHER, r->within, r->n_within, again > weights ? again : weights),
                          .last = moves(b, TRI_ALL_REDUCE, r->across, r->n_across, gradients / r->n_within)};
    }
}

static double close_seconds(const tri_bounds *b, const tri_layout *l, const tri_core_times *core,
                            const replicas *r) {
    double most = 0, all = 0;
    for (int i = 0; i < l->pp; i++) {
        const tri_core_rank *rank = &core->rank[i];
        dp_times t = dp_times_of(b, l, r, rank);
        int shards = l->shard == TRI_SHARD_NONE ? 1 : r->n_within;
        double update = rank->update / shards, end;
        if (b->chooser->hardware.overlap) {
            end = fmax(rank->finish, fmax(rank->ready + t.last, t.any + t.last)) + update + t.after;
        } else {
            end = rank->finish + update;
            all += rank->busy + update + t.last + t.any + t.after;
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
    replicas r;
    if (core->status != TRI_OK) return INFINITY;
    return find_replicas(b, l, &r) == TRI_OK ? close_seconds(b, l, core, &r) : 0;
}

int64_t tri__bounds_bytes(const tri_bounds *b, const tri_layout *l) {
    const tri_unit_times *units = units_of(b, l);
    const tri_settings *s = &b->chooser->settings;
    double half = l->precision == TRI_PRECISION_FP32 ? 4 : 2, kept = s->reduce_dtype == TRI_PRECISION_FP32 ? 4 : 2;
    double shards = l->shard == TRI_SHARD_HYBRID ? l->shard_size : tri__layout_replicas(l);
    const tri_network *model = &b->chooser->model;
    double trained = (double)tri__model_trained(model) / (double)model->n_elements;
    tri_average_form average;
    (void)tri__average_parse(s->average_weights, &average); /* checked when it was given */
    double state = (tri__optimizer_bytes((tri_optimizer_kind)s->optimizer) +
                    (average.epochs || average.decay > 0 ? 4 : 0)) * trained;
    double of[TRI_OFFLOADS] = {half < 4 ? 4 + state : state, kept * trained, half,
                               0}; /* state (and masters), gradients, weights */
    if (l->shard >= TRI_SHARD_ZERO1) of[0] /= shards;
    if (l->shard >= TRI_SHARD_ZERO2) of[1] /= shards;
    if (l->shard >= TRI_SHARD_ZERO3) of[2] /= shards;
    double each = 0, elements = (double)model->n_elements / ((double)l->pp * l->tp);
    for (int i = 0; i < TRI_OFFLOADS; i++) each += l->offload >> i & 1 ? 0 : of[i];
    double activations = l->offload & TRI_OFFLOAD_ACTIVATIONS ? 0 : (double)units->activations / l->pp;
    return (int64_t)(safe(b, l) * (each * elements + 0.9 * activations));
}
