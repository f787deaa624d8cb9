/* evaluate.h - probabilities of a whole data set, by the forward-only program. */
#ifndef TRI_ENGINE_EVALUATE_H
#define TRI_ENGINE_EVALUATE_H

#include "data/dataset/loader.h"
#include "engine/engine.h"

/* Row counts (tokens rounded up to the plan's granule) and fields of a microbatch, for the executor. The caller sets
 * fields of the whole step. */
void tri__feed(const tri_micro *micro, const tri_engine *engine, const double *loss_inv, const float *hyper,
               tri_feed *feed);

/* The largest microbatch of a sampler's epochs, as input of a plan; max_tokens > 0 replaces the token counts: TRI_USAGE
 * when it is less. */
tri_status tri__largest(tri_sampler *sampler, int64_t epochs, int64_t max_tokens, int64_t max_len, tri_counts *max);
/* The same for one pass in file order, batches of `batch` rows in `parts` parts. */
tri_status tri__largest_of(const tri_dataset *data, int64_t batch, int parts, int64_t max_tokens, int64_t max_len,
                           tri_counts *max);

/* probs [data->n, n_classes], in the order of the rows. Every rank of a world calls it, computes its replica's part of
 * the batches (`batch` rows a replica), and gets all probabilities. */
tri_status tri__evaluate(tri_engine *engine, const tri_dataset *data, int64_t batch, float *probs);

#endif
