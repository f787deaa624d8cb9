/* gpipe.c - all forwards, then all backwards, both in the order of the microbatches. Every rank holds the activations
 * of all of them. */
#include "plan/schedule/schedule.h"

static void order(const tri_pipeline *pipeline, int rank, tri_actions *out) {
    tri__alternate(pipeline, rank, pipeline->n_mb, -1, out);
}

const tri_schedule_row tri__schedule_gpipe = {
    .name = "gpipe", .chunks = 1, .fewest = 1, .rank = tri__rank_looped, .order = order};
