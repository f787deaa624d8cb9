/* coded.c - fewer bytes, where links bind: the layouts that are reported and the simplest ones of replicas
 * alone, each with every way to send less.
 *
 * Ways change what is computed: so they are never the first choice, and are listed apart. Whoever gives one of these
 * options has asked for it: then all layouts are searched with it, and nothing else is proposed. */
#include "study/choose/choose_parts.h"

static const double BINDS = 0.1, /* of the step: waits for bytes that are worth a proposal */
                    FASTER = 1.05; /* than the first choice, to be reported */
enum { APART = 32, SHARDINGS = TRI_SHARD_HYBRID + 1 }; /* APART: --sync-every */

typedef struct way {
    const char *options, *sharded, *does; /* sharded: the options where weights are gathered, NULL: the same */
    int gradients, weights, optimizer, sync_every; /* the options' choices; 0: as they are. weights: where gathered */
} way;

enum { GRADIENTS_INT8 = 2, WEIGHTS_INT8 = 2 };
static const way ways[] = {
    {"--compress-gradients int8", "--compress-gradients int8 --compress-weights int8",
     "sums of gradients travel in 8 bits", .gradients = GRADIENTS_INT8, .weights = WEIGHTS_INT8},
    {"--optimizer onebit-adam", NULL, "momentum travels as signs, after a fifth of the run or more",
     .optimizer = TRI_ONEBIT_ADAM},
    {"--sync-every 32", NULL, "replicas synchronise every 32 steps only", .sync_every = APART},
};
enum { WAYS = sizeof ways / sizeof *ways };

static int is_exact(const tri_settings *s) {
    return s->optimizer == TRI_ADAMW && s->sync_every <= 1 && !s->compress_gradients && !s->compress_weights;
}

static int gathers_weights(const tri_layout *l) {
    return l->shard == TRI_SHARD_ZERO3 || l->shard == TRI_SHARD_HYBRID;
}

/* A chooser whose settings are those of the k-th way. */
static const tri_chooser *chooser_of(tri_arena *arena, const tri_chooser *chooser, int k, int sharded) {
    tri_chooser *with = tri__arena_alloc(arena, sizeof *with);
    *with = *chooser;
    tri_settings *s = &with->settings; /* exact until now */
    s->compress_gradients = ways[k].gradients, s->compress_weights = sharded ? ways[k].weights : 0;
    if (ways[k].optimizer) s->optimizer = ways[k].optimizer;
    if (ways[k].sync_every) s->sync_every = ways[k].sync_every;
    return with;
}

static void keep(tri_choice *out, int k, const tri_layout_trial *t) {
    int at = 0;
    const way *of = &ways[k];
    while (at < out->n_coded && out->coded[at].does != of->does) at++;
    if (at < out->n_coded && out->coded[at].of.seconds <= t->of.seconds) return;
    const char *options = of->sharded && gathers_weights(&t->of.layout) ? of->sharded : of->options;
    out->coded[at] = (tri_coded_choice){options, of->does, t->of};
    if (at == out->n_coded) out->n_coded++;
    for (; at > 0 && out->coded[at].of.seconds < out->coded[at - 1].of.seconds; at--) {
        tri_coded_choice other = out->coded[at];
        out->coded[at] = out->coded[at - 1], out->coded[at - 1] = other;
    }
}

/* Replicas alone, the simplest of each kind of sharding: what they send is what can be made less. */
static int is_tried(const tri_choice *out, const tri_layout *const *list, int n, const tri_layout *l) {
    if (l->pp * l->tp > 1 || tri__layout_replicas(l) == 1 || l->precision != out->best[0].layout.precision) return 0;
    for (int i = 0; i < n; i++)
        if (list[i]->pp * list[i]->tp == 1 && list[i]->shard == l->shard) return 0;
    return 1;
}

/* Layouts to try, in `list`; returns how many. */
static int list_layouts(const tri_space *space, const tri_choice *out, const tri_layout **list) {
    int n = 0;
    for (int i = 0; i < out->n_best; i++)
        if (tri__layout_replicas(&out->best[i].layout) > 1) list[n++] = &out->best[i].layout;
    for (int i = 0; i < space->n; i++)
        if (is_tried(out, list, n, &space->at[i])) list[n++] = &space->at[i];
    return n;
}

tri_status tri__choose_coded(tri_arena *arena, const tri_chooser *chooser, const tri_space *space, tri_bounds *bounds,
                             int threads, tri_choice *out) {
    const tri_candidate *first = out->best;
    int n = 0;
    if (!out->n_best || !is_exact(&chooser->settings) || first->exposed < BINDS * first->seconds) return TRI_OK;
    const tri_layout **list = tri__arena_alloc(arena, (size_t)(out->n_best + SHARDINGS) * sizeof *list);
    int n_list = list_layouts(space, out, list);
    tri_layout_trial *trials = tri__arena_alloc(arena, (size_t)(n_list * WAYS) * sizeof *trials);
    int *way_of = tri__arena_alloc(arena, (size_t)(n_list * WAYS) * sizeof *way_of);
    for (int i = 0; i < n_list; i++)
        for (int k = 0; k < WAYS; k++) {
            trials[n] = (tri_layout_trial){.chooser = chooser_of(arena, chooser, k, gathers_weights(list[i])),
                                           .room = out->room, .global_batch = out->global_batch,
                                           .of = {.layout = *list[i]}, .beat = first->seconds / FASTER};
            TRI_TRY(tri__bounds_rows(bounds, list[i], &trials[n].rows));
            way_of[n++] = k;
        }
    tri__parallel(n, threads, tri__layout_try, trials);
    out->coded = tri__arena_alloc(arena, WAYS * sizeof *out->coded);
    for (int i = 0; i < n; i++) {
        const tri_layout_trial *t = &trials[i];
        if (t->status != TRI_OK && t->status != TRI_USAGE && t->status != TRI_STOPPED)
            return tri__fail(t->status, "%s", t->words);
        if (t->status == TRI_OK && t->of.seconds > 0 && t->of.seconds <= t->beat) keep(out, way_of[i], t);
    }
    return TRI_OK;
}
