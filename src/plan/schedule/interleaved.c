/* interleaved.c - interleaved 1F1B: a rank has v stages of the chain, at stride p, so that the bubble at both ends of a
 * step is 1/v of that of 1F1B. Costs v times the messages, and the activations of (p-1)/v more microbatches than
 * 1F1B. */
#include "plan/schedule/schedule.h"

void tri__order_interleaved(const tri_pipeline *pipeline, int rank, tri_actions *out) {
    tri__alternate(pipeline, rank, 2 * (pipeline->n_ranks - 1 - rank), -1, out);
}
