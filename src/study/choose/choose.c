/* choose.c - the search itself: layouts wait in a heap with the best bound so far, the least on top. One that has only
 * its quick bound gets its close one; one that has that is planned and, if it fits, simulated. Batches of them are
 * computed in parallel and their results are taken in order, so the search is the same for any number of threads. */
#include "study/choose/choose_parts.h"

/* Layouts that get a close bound, and that are planned, at once. */
enum { BOUNDED_AT_ONCE = 64, PLANNED_AT_ONCE = 8 };

/* Which ways of saving memory of a base layout are known not to fit, or are waiting. */
typedef struct base {
    uint8_t unfit[TRI_RECOMPUTES][TRI_OFFLOAD_LEVELS], queued[TRI_RECOMPUTES][TRI_OFFLOAD_LEVELS];
} base;

typedef struct entry {
    double bound;
    int64_t index;      /* base, recomputation, offloading: the simpler first */
    int is_close;
} entry;

typedef struct search {
    tri_arena *arena;
    tri_chooser *chooser;
    const tri_choose_options *options;
    tri_choice *out;
    tri_space space;
    tri_bounds *bounds;
    base *base;          /* [space.n] */
    entry *heap;
    int n_heap, cap_heap;
    tri_candidate *family; /* the fastest of each family so far */
    int n_families, cap_families;
    int64_t planned;
    int world, threads;
    tri_status status;
    char *refusal;       /* the planner's first; NULL */
} search;

/* ---- indices of layouts ---- */

static int64_t index_of(int base, int recompute, int offload) {
    return ((int64_t)base * TRI_RECOMPUTES + recompute) * TRI_OFFLOAD_LEVELS + offload;
}

static tri_layout layout_of(const search *s, int64_t index) {
    int offload = (int)(index % TRI_OFFLOAD_LEVELS), recompute = (int)(index / TRI_OFFLOAD_LEVELS % TRI_RECOMPUTES);
    tri_layout layout = s->space.at[index / TRI_OFFLOAD_LEVELS / TRI_RECOMPUTES];
    layout.recompute = s->space.savings.recompute[recompute];
    layout.offload = s->space.savings.offload[offload];
    return layout;
}

/* ---- the heap ---- */

static int before(const entry *a, const entry *b) {
    return a->bound != b->bound ? a->bound < b->bound : a->index < b->index;
}

static void push(search *s, entry e) {
    TRI_PUSH(s->arena, s->heap, s->n_heap, s->cap_heap);
    int i = s->n_heap - 1;
    for (; i > 0 && before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2) s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = e;
}

static entry pop(search *s) {
    entry top = s->heap[0], last = s->heap[--s->n_heap];
    int i = 0, child;
    while ((child = 2 * i + 1) < s->n_heap) {
        if (child + 1 < s->n_heap && before(&s->heap[child + 1], &s->heap[child])) child++;
        if (!before(&s->heap[child], &last)) break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    if (s->n_heap) s->heap[i] = last;
    return top;
}

/* ---- families ---- */

static int faster(const tri_candidate *a, const tri_candidate *b) {
    static const double SAME = 1e-9; /* relative */
    if (fabs(a->seconds - b->seconds) <= SAME * b->seconds) return a->index < b->index;
    return a->seconds < b->seconds;
}

static int is_family(const tri_layout *a, const tri_layout *b) {
    return a->pp == b->pp && a->tp == b->tp && a->cp == b->cp && a->ep == b->ep && a->shard == b->shard &&
           a->precision == b->precision;
}

static tri_candidate *family_of(const search *s, const tri_layout *l) {
    for (int i = 0; i < s->n_families; i++)
        if (is_family(&s->family[i].layout, l)) return &s->family[i];
    return NULL;
}

static void sort_families(search *s) {
    for (int i = 1; i < s->n_families; i++)
        for (int k = i; k > 0 && faster(&s->family[k], &s->family[k - 1]); k--) {
            tri_candidate other = s->family[k];
            s->family[k] = s->family[k - 1], s->family[k - 1] = other;
        }
}

static void keep_best(search *s, const tri_candidate *c) {
    tri_candidate *family = family_of(s, &c->layout);
    if (family && !faster(c, family)) return;
    if (!family) family = TRI_PUSH(s->arena, s->family, s->n_families, s->cap_families);
    *family = *c;
    sort_families(s);
}

/* The time that a layout has to beat to be reported. */
static double to_beat(const search *s, const tri_layout *l) {
    const tri_candidate *family = family_of(s, l);
    double last = s->n_families < s->options->top ? INFINITY : s->family[s->options->top - 1].seconds;
    return family && family->seconds < last ? family->seconds : last;
}

/* ---- the search ---- */

/* Queues a way of saving memory once every lesser one is known not to fit. */
static void queue_saving(search *s, int64_t at, int recompute, int offload, double bound) {
    base *b = &s->base[at];
    const tri_savings *ways = &s->space.savings;
    if (recompute >= ways->n_recompute || offload >= ways->n_offload || b->queued[recompute][offload]) return;
    if (recompute && !b->unfit[recompute - 1][offload]) return;
    if (offload && !b->unfit[recompute][offload - 1]) return;
    b->queued[recompute][offload] = 1;
    push(s, (entry){.bound = bound, .index = index_of((int)at, recompute, offload)});
}

static void note_unfit(search *s, const tri_candidate *c) {
    int64_t at = c->index / TRI_OFFLOAD_LEVELS / TRI_RECOMPUTES;
    int offload = (int)(c->index % TRI_OFFLOAD_LEVELS),
        recompute = (int)(c->index / TRI_OFFLOAD_LEVELS % TRI_RECOMPUTES);
    s->out->unfit++;
    if (c->need && (s->out->nearest.index < 0 || c->need < s->out->nearest.need)) s->out->nearest = *c;
    s->base[at].unfit[recompute][offload] = 1;
    queue_saving(s, at, recompute + 1, offload, c->bound);
    queue_saving(s, at, recompute, offload + 1, c->bound);
}

static tri_status take_trial(search *s, const tri_layout_trial *t) {
    if (t->status == TRI_STOPPED) { /* it was not begun */
        push(s, (entry){.bound = t->of.bound, .index = t->of.index, .is_close = 1});
        return TRI_OK;
    }
    if (t->status == TRI_USAGE) {
        s->out->refused++;
        if (!s->refusal) s->refusal = tri__arena_copy(s->arena, t->words);
        return TRI_OK;
    }
    if (t->status != TRI_OK) return tri__fail(t->status, "%s", t->words);
    if (t->of.seconds == 0) {
        note_unfit(s, &t->of);
        return TRI_OK;
    }
    s->out->simulated++;
    s->out->bounds_broken += t->of.seconds < t->of.bound;
    if (t->of.seconds <= t->beat) keep_best(s, &t->of);
    return TRI_OK;
}

static tri_status plan_batch(search *s, const entry *batch, int n) {
    tri_layout_trial *trials = tri__arena_alloc(s->arena, (size_t)n * sizeof *trials);
    for (int i = 0; i < n; i++) {
        tri_layout_trial *t = &trials[i];
        *t = (tri_layout_trial){.chooser = s->chooser, .room = s->out->room, .global_batch = s->out->global_batch,
                                .of = {.layout = layout_of(s, batch[i].index), .index = batch[i].index,
                                       .bound = batch[i].bound}};
        t->beat = to_beat(s, &t->of.layout);
        t->deadline = s->n_families ? s->options->deadline : 0;
        TRI_TRY(tri__bounds_rows(s->bounds, &t->of.layout, &t->rows));
    }
    tri__parallel(n, s->threads, tri__layout_try, trials);
    s->planned += n;
    for (int i = 0; i < n; i++) TRI_TRY(take_trial(s, &trials[i]));
    return TRI_OK;
}

/* Whether the least that ranks can need on average is too much for those of one memory: then the layout need not be
 * planned. */
static int is_hopeless(const search *s, const tri_layout *l) {
    return tri__bounds_bytes(s->bounds, l) > s->out->room.bytes / (s->out->room.by.here / s->out->room.by.memories);
}

static tri_status bound_batch(search *s, const entry *batch, int n) {
    tri_layout *layouts = tri__arena_alloc(s->arena, (size_t)n * sizeof *layouts);
    const tri_layout **each = tri__arena_alloc(s->arena, (size_t)n * sizeof *each);
    for (int i = 0; i < n; i++) layouts[i] = layout_of(s, batch[i].index), each[i] = &layouts[i];
    TRI_TRY(tri__bounds_prepare(s->bounds, each, n, 1));
    for (int i = 0; i < n; i++) {
        double bound = fmax(batch[i].bound, tri__bounds_seconds(s->bounds, each[i], 1));
        if (isinf(bound)) s->out->refused++;
        else if (is_hopeless(s, each[i])) {
            tri_candidate c = {.layout = layouts[i], .index = batch[i].index, .bound = bound};
            note_unfit(s, &c);
        } else push(s, (entry){.bound = bound, .index = batch[i].index, .is_close = 1});
    }
    return TRI_OK;
}

static int has_family(const search *s, const entry *batch, int n, const tri_layout *l) {
    for (int i = 0; i < n; i++) {
        tri_layout other = layout_of(s, batch[i].index);
        if (is_family(&other, l)) return 1;
    }
    return 0;
}

/* One round: those on top of the heap, until one of the batches is full. Of a family one is planned at once: its time
 * is what the others have to beat. 0 in *more: nothing is left that could be reported. */
static tri_status go_on(search *s, int *more) {
    entry bounded[BOUNDED_AT_ONCE], planned[PLANNED_AT_ONCE], later[BOUNDED_AT_ONCE];
    int n_bounded = 0, n_planned = 0, n_later = 0;
    while (s->n_heap && n_bounded < BOUNDED_AT_ONCE && n_planned < PLANNED_AT_ONCE && n_later < BOUNDED_AT_ONCE) {
        if (s->options->limit && s->planned + n_planned >= s->options->limit && s->heap[0].is_close) break;
        entry top = pop(s);
        tri_layout layout = layout_of(s, top.index);
        if (top.bound > to_beat(s, &layout)) s->out->skipped++;
        else if (!top.is_close) bounded[n_bounded++] = top;
        else if (has_family(s, planned, n_planned, &layout)) later[n_later++] = top;
        else planned[n_planned++] = top;
    }
    *more = n_bounded || n_planned;
    for (int i = 0; i < n_later; i++) push(s, later[i]);
    if (n_bounded) TRI_TRY(bound_batch(s, bounded, n_bounded));
    return n_planned ? plan_batch(s, planned, n_planned) : TRI_OK;
}

static void set_best(search *s) {
    s->out->best = s->family;
    s->out->n_best = s->n_families < s->options->top ? s->n_families : s->options->top;
}

/* Whether the search ends early, with what it has found. TRI_STOPPED: with nothing. */
static tri_status look_up(search *s, int *ends) {
    const tri_choose_options *how = s->options;
    tri_choice *out = s->out;
    set_best(s);
    out->left = s->n_heap;
    if (how->progress) how->progress(how->context, out);
    if (how->deadline > 0 && s->n_families && tri__clock() > how->deadline) out->ended = TRI_CHOOSE_DEADLINE;
    if (tri__stop_signalled(s->chooser->stop) && how->keeps && s->n_families) out->ended = TRI_CHOOSE_SIGNAL;
    *ends = out->ended != TRI_CHOOSE_WHOLE;
    return *ends ? TRI_OK : tri__stop_check(s->chooser->stop, "layouts were being compared");
}

/* Every base layout with its quick bound. */
static tri_status fill_heap(search *s) {
    int n = s->space.n;
    const tri_layout **each = tri__arena_alloc(s->arena, (size_t)n * sizeof *each);
    for (int i = 0; i < n; i++) each[i] = &s->space.at[i];
    TRI_TRY(tri__bounds_prepare(s->bounds, each, n, 0));
    for (int i = 0; i < n; i++) {
        double bound = tri__bounds_seconds(s->bounds, each[i], 0);
        if (isinf(bound)) s->out->refused++;
        else queue_saving(s, i, 0, 0, bound);
    }
    return TRI_OK;
}

static tri_status search_all(search *s) {
    TRI_TRY(fill_heap(s));
    for (int more = 1, ends = 0; more && !ends;) {
        TRI_TRY(go_on(s, &more));
        TRI_TRY(look_up(s, &ends));
    }
    s->out->left = 0;
    for (int i = 0; i < s->n_heap; i++) {
        tri_layout layout = layout_of(s, s->heap[i].index);
        *(s->heap[i].bound > to_beat(s, &layout) ? &s->out->skipped : &s->out->left) += 1;
        s->out->doubtful += !s->n_families || s->heap[i].bound < s->family[0].seconds;
    }
    if (!s->out->left) s->out->ended = TRI_CHOOSE_WHOLE;
    else if (s->out->ended == TRI_CHOOSE_WHOLE) s->out->ended = TRI_CHOOSE_LIMIT;
    return TRI_OK;
}

/* For tests: everything, with every way of saving memory. */
static tri_status enumerate_all(search *s) {
    const tri_savings *ways = &s->space.savings;
    int64_t n = (int64_t)s->space.n * ways->n_recompute * ways->n_offload;
    int ends = 0;
    for (int64_t i = 0; i < n && !ends; i++) {
        entry e = {.index = index_of((int)(i / ways->n_offload / ways->n_recompute),
                                     (int)(i / ways->n_offload % ways->n_recompute), (int)(i % ways->n_offload))};
        tri_layout layout = layout_of(s, e.index);
        const tri_layout *one = &layout;
        TRI_TRY(tri__bounds_prepare(s->bounds, &one, 1, 1));
        e.bound = tri__bounds_seconds(s->bounds, &layout, 1);
        if (isinf(e.bound)) s->out->refused++;
        else TRI_TRY(plan_batch(s, &e, 1));
        s->n_heap = 0;
        TRI_TRY(look_up(s, &ends));
        s->out->left = n - 1 - i;
    }
    s->out->doubtful = s->out->left;
    return TRI_OK;
}

static tri_status run_search(search *s, int offloads) {
    tri_choice *out = s->out;
    tri__space_list(s->arena, s->chooser, s->world, out->global_batch, s->options->precisions, offloads, &s->space);
    out->space = (int64_t)s->space.n * s->space.savings.n_recompute * s->space.savings.n_offload;
    s->bounds = tri__bounds_open(s->arena, s->chooser, out->global_batch, s->threads);
    s->base = tri__arena_alloc(s->arena, (size_t)s->space.n * sizeof *s->base);
    TRI_TRY(s->options->exhaustive ? enumerate_all(s) : search_all(s));
    if (!s->refusal && tri__bounds_refusal(s->bounds))
        s->refusal = tri__arena_copy(s->arena, tri__bounds_refusal(s->bounds));
    return TRI_OK;
}

/* Offload memory that kernels access directly (a file, on CPUs) takes no time in the simulation: there it is searched
 * only when nothing else fits. */
static tri_status choose_guarded(void *data) {
    search *s = data, again = *s;
    tri_choice empty = *s->out;
    int copies = s->chooser->target.ahead > 0, fixed = tri__settings_given(&s->chooser->settings,
                                                                           &s->chooser->settings.offload);
    TRI_TRY(run_search(s, copies));
    if (!s->n_families && s->out->unfit && !copies && !fixed) {
        *s->out = empty, *s = again;
        TRI_TRY(run_search(s, 1));
    }
    set_best(s);
    if (!s->options->propose || s->out->ended > TRI_CHOOSE_LIMIT) return TRI_OK;
    return tri__choose_coded(s->arena, s->chooser, &s->space, s->bounds, s->threads, s->out);
}

static void choose_reusing(void *data) { ((search *)data)->status = tri__arena_guard(choose_guarded, data); }

/* Nothing fits: says what the nearest layout lacks. */
static tri_status refuse(const search *s) {
    int world = s->world;
    const tri_choice *out = s->out;
    const tri_candidate *near = &out->nearest;
    char need[32], room[32], text[TRI_LAYOUT_TEXT], most[32];
    if (!out->unfit && s->refusal) return tri__fail(TRI_USAGE, "%s", s->refusal);
    if (!out->unfit)
        return tri__fail(TRI_USAGE,
                         "%d rank%s and a batch of %lld samples: no layout keeps what was given; every replica and "
                         "microbatch needs a sample, --pp-size x --tp-size x --cp-size has to divide the ranks",
                         world, world == 1 ? "" : "s", (long long)out->global_batch);
    int largest = 0;
    for (int mem = 1; mem < TRI_MEM_COUNT; mem++)
        if (near->bytes[mem] > near->bytes[largest]) largest = mem;
    tri__text_bytes((double)near->need, need), tri__text_bytes((double)out->room.bytes, room);
    if (near->index < 0)
        return tri__fail(TRI_RESOURCE,
                         "no layout of %d rank%s fits: weights, gradients and optimizer state alone need more than the "
                         "%s %s; try more ranks, or --precision bf16",
                         world, world == 1 ? "" : "s", room, out->room.origin);
    return tri__fail(TRI_RESOURCE,
                     "no layout of %d rank%s fits: the nearest (%s) needs %s of %s %s, most of it for %s (%s a rank); "
                     "try more ranks, a smaller --global-batch-size or a shorter --max-sen-len%s",
                     world, world == 1 ? "" : "s", tri__layout_text(&near->layout, text), need, room,
                     out->room.origin, tri__mem_name((tri_mem)largest),
                     tri__text_bytes((double)near->bytes[largest], most),
                     near->layout.precision == TRI_PRECISION_FP32 ? ", --precision any" : "");
}

typedef struct given {
    tri_chooser *chooser;
    int world;
    int64_t global;
    tri_candidate *out;
} given;

static tri_status try_given(void *data) {
    const given *g = data;
    tri_chooser *c = g->chooser;
    tri_layout_trial trial = {.chooser = c, .global_batch = g->global, .beat = INFINITY};
    TRI_TRY(tri__choose_room(c, g->world, &trial.room));
    TRI_TRY(tri__layout_of(&c->settings, g->world, g->global, &trial.of.layout));
    TRI_TRY(tri__bounds_rows(tri__bounds_open(&c->arena, c, g->global, 1), &trial.of.layout, &trial.rows));
    tri__layout_try(&trial, 0);
    *g->out = trial.of;
    return trial.status == TRI_OK ? TRI_OK : tri__fail(trial.status, "%s", trial.words);
}

tri_status tri__choose_given(tri_chooser *chooser, int world, int64_t global, tri_candidate *out) {
    return tri__arena_guard(try_given, &(given){chooser, world, global, out});
}

tri_status tri__choose_one(tri_chooser *chooser, int64_t samples, const tri_choose_options *options, double *rate) {
    tri_choose_options first = *options;
    tri_settings asked = chooser->settings, *s = &chooser->settings;
    tri_choice choice;
    tri_words words;
    first.top = 1, first.propose = 0, *rate = 0;
    s->pp_size = s->tp_size = s->cp_size = s->ep_size = s->sync_every = 1, s->dp_size = s->shard_size = 0;
    s->shard = TRI_SHARD_NONE, s->compress_gradients = s->compress_weights = 0;
    tri__settings_forget(s, &s->num_microbatches);
    tri__words_keep(&words);
    tri_status status = tri__choose(chooser, 1, samples, &first, &choice);
    chooser->settings = asked;
    if (status == TRI_OK) *rate = (double)samples / choice.best[0].seconds;
    if (status != TRI_RESOURCE && status != TRI_USAGE) return status;
    tri__words_restore(&words);
    return TRI_OK;
}

tri_status tri__choose(tri_chooser *chooser, int world, int64_t global_batch, const tri_choose_options *options,
                       tri_choice *out) {
    search s = {.arena = &chooser->arena, .chooser = chooser, .options = options, .out = out, .world = world,
                .threads = options->threads ? options->threads : tri__cores()};
    *out = (tri_choice){.global_batch = global_batch, .hardware = chooser->hardware, .nearest = {.index = -1}};
    TRI_TRY(tri__choose_room(chooser, world, &out->room));
    tri__arena_reuse(choose_reusing, &s);
    TRI_TRY(s.status);
    return out->n_best ? TRI_OK : refuse(&s);
}
