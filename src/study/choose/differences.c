/* differences.c - why a layout takes longer than another: the largest of the differences between their timelines. */
#include "study/choose/choose.h"

const char *tri__choose_time(double seconds, char out[static 32]) {
    if (seconds >= 59.95) return tri__text_seconds(seconds, out);
    if (seconds >= 0.9995) snprintf(out, 32, "%.3g s", seconds);
    else if (seconds >= 0.0009995) snprintf(out, 32, "%.3g ms", 1e3 * seconds);
    else snprintf(out, 32, "%.3g us", 1e6 * seconds);
    return out;
}

/* What makes ranks wait for each other in this layout. */
static void waiting_words(const tri_candidate *c, char *out, size_t size) {
    const tri_layout *l = &c->layout;
    double share = 100 * c->waiting / c->seconds;
    if (l->pp > 1)
        snprintf(out, size, "%d microbatch%s in a pipeline of %d leave%s a bubble of %.0f %%", l->n_mb,
                 l->n_mb == 1 ? "" : "es", l->pp, l->n_mb == 1 ? "s" : "", share);
    else snprintf(out, size, "ranks wait for each other %.0f %% of the step", share);
}

/* The transfers that a layout waits for longest, as far as its kind tells. */
static const char *transfers_of(const tri_layout *l) {
    if (l->shard == TRI_SHARD_ZERO3 || l->shard == TRI_SHARD_HYBRID) return "gathers of sharded weights";
    if (l->tp > 1) return "transfers inside layers (tp)";
    if (l->shard == TRI_SHARD_ZERO2) return "reduce-scatters of every microbatch";
    if (tri__layout_replicas(l) > 1) return l->shard ? "gradients and updated weights" : "sums of gradients";
    return "sends between stages";
}

static void exposed_words(const tri_candidate *c, char *out, size_t size) {
    char time[32], bytes[32];
    snprintf(out, size, "%s are exposed for %s (%s sent a step)", transfers_of(&c->layout),
             tri__choose_time(c->exposed, time), tri__text_bytes(c->sent, bytes));
}

/* The share of the weights that a rank updates. */
static double updated(const tri_layout *l) {
    int shards = l->shard == TRI_SHARD_NONE     ? 1
                 : l->shard == TRI_SHARD_HYBRID ? l->shard_size
                                                : tri__layout_replicas(l);
    return 1.0 / ((double)l->pp * l->tp * shards);
}

static void computing_words(const tri_candidate *best, const tri_candidate *c, char *out, size_t size) {
    const tri_layout *l = &c->layout, *b = &best->layout;
    const char *why = l->recompute > b->recompute ? "activations are recomputed"
                      : l->tp > b->tp             ? "split layers have smaller products, and norms are not split"
                      : l->n_mb * l->dp > b->n_mb * b->dp ? "smaller microbatches use the device worse"
                      : updated(l) > updated(b)           ? "a rank updates a larger share of the weights"
                                                          : "its kernels take longer";
    snprintf(out, size, "%.0f %% more computing: %s", 100 * (c->computing / best->computing - 1), why);
}

const char *tri__choose_why(const tri_candidate *best, const tri_candidate *c, char out[static TRI_WHY_TEXT]) {
    double computing = c->computing - best->computing, exposed = c->exposed - best->exposed,
           waiting = c->waiting - best->waiting;
    if (c->seconds < 1.0005 * best->seconds) snprintf(out, TRI_WHY_TEXT, "takes the same time");
    else if (waiting >= exposed && waiting >= computing) waiting_words(c, out, TRI_WHY_TEXT);
    else if (exposed >= computing) exposed_words(c, out, TRI_WHY_TEXT);
    else computing_words(best, c, out, TRI_WHY_TEXT);
    return out;
}
