/* fewest.c - the fewest ranks with which a run takes at most a given time. */
#include "study/choose/choose_parts.h"

enum { MOST_RANKS = 16384, BELOW = 2 }; /* BELOW: numbers tried below the first that is enough */

typedef struct fewest {
    tri_chooser *chooser;
    int64_t global;
    double seconds, steps;
    const tri_choose_options *options;
    tri_fewest *out;
    tri_status lack; /* why a number of ranks has no layout: the last that lacks memory, else the first */
    tri_words words; /* of it */
} fewest;

/* The i-th number of ranks: a machine's ranks one by one, then machines. */
static int ranks_at(const fewest *f, int i) {
    int per_node = f->chooser->hardware.ranks_per_node;
    return i < per_node ? i + 1 : (i - per_node + 2) * per_node;
}

/* Whether the i-th number of ranks is enough. */
static tri_status try_ranks(fewest *f, int i, int *enough) {
    tri_fewest *out = f->out;
    tri_choice choice;
    int world = ranks_at(f, i);
    *enough = 0;
    out->tried++;
    tri_status status = tri__choose(f->chooser, world, f->global, f->options, &choice);
    if (status == TRI_RESOURCE || status == TRI_USAGE) {
        if (f->lack == TRI_OK || status == TRI_RESOURCE) {
            f->lack = status;
            tri__words_keep(&f->words);
        }
        return TRI_OK;
    }
    TRI_TRY(status);
    out->partial |= choice.ended != TRI_CHOOSE_WHOLE;
    double took = f->steps * choice.best[0].seconds;
    *enough = took <= f->seconds;
    if (*enough ? !out->world || world < out->world : !out->world && (!out->fastest || took < out->seconds)) {
        out->seconds = took, out->choice = choice, out->fastest = world;
        if (*enough) out->world = world;
    }
    return TRI_OK;
}

/* The first of 0, 1, 3, 7, ... (numbers doubled) that is enough; -1: none. *below: the last that is not; -1. */
static tri_status double_up(fewest *f, int *found, int *below) {
    int enough = 0, per_node = f->chooser->hardware.ranks_per_node;
    *found = *below = -1;
    for (int i = 0; !enough && ranks_at(f, i) <= MOST_RANKS;) {
        TRI_TRY(try_ranks(f, i, &enough));
        if (enough) *found = i;
        else *below = i;
        if (i >= per_node - 1) i = 2 * i - per_node + 2; /* twice as many machines */
        else i = 2 * i + 1 < per_node ? 2 * i + 1 : per_node - 1;
    }
    return TRI_OK;
}

static tri_status find_fewest(fewest *f) {
    int high, low, enough;
    TRI_TRY(double_up(f, &high, &low));
    if (high < 0 && f->out->fastest) return TRI_OK;
    if (high < 0) {
        tri__words_restore(&f->words);
        return f->lack;
    }
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        TRI_TRY(try_ranks(f, middle, &enough));
        if (enough) high = middle;
        else low = middle;
    }
    for (int i = low - 1; i >= 0 && i >= high - 1 - BELOW; i--) TRI_TRY(try_ranks(f, i, &enough));
    return TRI_OK;
}

tri_status tri__choose_fewest(tri_chooser *chooser, int64_t global, double seconds, double steps,
                              const tri_choose_options *options, tri_fewest *out) {
    tri_choose_options each = *options;
    fewest f = {chooser, global, seconds, steps, &each, out, TRI_OK, {{0}}};
    each.keeps = 0; /* a number of ranks is enough or not only by a search that was not stopped */
    *out = (tri_fewest){0};
    tri_status status = find_fewest(&f);
    if (status != TRI_STOPPED || !options->keeps || !out->world) return status;
    out->partial = out->stopped = 1;
    return TRI_OK;
}
