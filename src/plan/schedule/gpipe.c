/* gpipe.c - all forwards, then all backwards, both in the order of the microbatches. Every rank holds the activations
 * of all of them. */
#include "plan/schedule/schedule.h"

void tri__order_gpipe(const tri_pipeline *pipeline, int rank, tri_actions *out) {
    tri__alternate(pipeline, rank, pipeline->n_mb, -1, out);
}
