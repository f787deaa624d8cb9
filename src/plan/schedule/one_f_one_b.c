/* one_f_one_b.c - 1F1B: as many forwards as there are stages after this one, then one forward and one backward
 * alternately. As long as GPipe, but a rank holds the activations of at most depth + 1 microbatches. On a graph of
 * stages the depth is the longest path to the last stage. */
#include "plan/schedule/schedule.h"

void tri__order_one_f_one_b(const tri_pipeline *pipeline, int rank, tri_actions *out) {
    tri__alternate(pipeline, rank, tri__rank_depth(pipeline, rank), -1, out);
}
