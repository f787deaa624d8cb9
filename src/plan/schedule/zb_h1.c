/* zb_h1.c - ZB-H1: 1F1B, but nothing depends on gradients of weights, so they are delayed to fill the bubble at the end
 * of a step. A rank delays as many as its stage is further from the first, so that all ranks hold the activations of
 * equally many microbatches. */
#include "plan/schedule/schedule.h"

void tri__order_zb_h1(const tri_pipeline *pipeline, int rank, tri_actions *out) {
    int depth = tri__rank_depth(pipeline, rank), deepest = 0;
    for (int r = 0; r < pipeline->n_ranks; r++)
        if (tri__rank_depth(pipeline, r) > deepest) deepest = tri__rank_depth(pipeline, r);
    tri__alternate(pipeline, rank, depth, deepest - depth, out);
}
