/* layout_options.h - how a run is spread over ranks, as one value: what `trident choose` searches, and its options. */
#pragma once

#include "settings/settings.h"

enum { TRI_OFFLOAD_OPTIMIZER = 1, TRI_OFFLOAD_GRADIENTS = 2, TRI_OFFLOAD_PARAMS = 4, TRI_OFFLOAD_ACTIVATIONS = 8,
       TRI_OFFLOADS = 4 };
extern const char *const tri__offload_words[TRI_OFFLOADS]; /* by the bits' order */

/* Enumerations as the options' choices number them. */
typedef struct tri_layout {
    int pp, tp, cp, dp;   /* dp: groups that take different samples */
    int ep;               /* replicas that share experts; 0: 1 */
    int order;            /* a permutation of the axes, as tri__layout_order spells it */
    int shard, shard_size; /* size: hybrid only */
    int schedule, shape, chunks; /* shape: TRI_SHAPE_ASKED_CHAIN or _BRANCH; chunks: 0 unless interleaved */
    int recompute, precision, n_mb;
    unsigned offload;     /* TRI_OFFLOAD_* or-ed */
    int tp_plan;          /* 0: as asked, else tri__layout_plans[tp_plan] */
} tri_layout;

/* Plans of layers that are tried: as asked; the vocabulary on all ranks; only attention, only feed-forward layers
 * split. */
enum { TRI_LAYOUT_PLANS = 4, TRI_LAYOUT_HEADLESS = TRI_LAYOUT_PLANS - 1 };
extern const char *const tri__layout_plans[TRI_LAYOUT_PLANS];

static inline int tri__layout_replicas(const tri_layout *l) { return l->cp * l->dp; } /* the mesh's dp axis */
static inline int tri__layout_world(const tri_layout *l) { return l->pp * l->tp * tri__layout_replicas(l); }

enum { TRI_LAYOUT_ORDERS = 6 };
const char *tri__layout_order(int order); /* "pp,tp,dp"; 0 is the default */

/* Settings with a layout in the place of theirs, only to be read: borrows everything from `asked`. */
typedef struct tri_layout_settings {
    tri_settings settings;
    char *offload[TRI_OFFLOADS];
} tri_layout_settings;
void tri__layout_settings(const tri_layout *layout, const tri_settings *asked, int64_t global_batch,
                          tri_layout_settings *out);

unsigned tri__offload_given(const tri_settings *settings); /* TRI_OFFLOAD_* or-ed */
/* The layout that settings give for a number of ranks, whose mesh they have to divide: TRI_USAGE. */
tri_status tri__layout_of(const tri_settings *settings, int world, int64_t global_batch, tri_layout *out);
/* The options of a layout: key and value of those that differ from the options' defaults, or with `all` of every one.
 * given: those that these settings have as well; NULL: none. Calls `each` until it fails. */
typedef tri_status tri_layout_each(void *context, const char *key, const char *value);
tri_status tri__layout_options(const tri_layout *layout, int all, const tri_settings *given, tri_layout_each *each,
                               void *context);
/* A new reference: {"pp_size": 2, ...}, every key. NULL when out of memory. */
tri_json *tri__layout_json(const tri_layout *layout);
/* "dp 4 x tp 2, zero1, 4 microbatches": what tells layouts apart. Into `out`, which is returned. */
enum { TRI_LAYOUT_TEXT = 160 };
const char *tri__layout_text(const tri_layout *layout, char out[static TRI_LAYOUT_TEXT]);
