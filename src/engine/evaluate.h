/* evaluate.h - probabilities of a whole data set, by the forward-only program. */
#pragma once

#include "data/dataset/loader.h"
#include "engine/engine.h"

/* Fields that no batch changes; of the others and the counts, none. */
void tri__feed_fixed(const tri_engine *engine, const double *loss_inv, tri_feed *feed);
/* Row counts (tokens rounded up to the plan's granule) and fields of a microbatch, for the executor. The caller sets
 * fields of the whole step. */
void tri__feed(const tri_micro *micro, const tri_engine *engine, const double *loss_inv, const float *hyper,
               tri_feed *feed);

/* Batches of a sampler in `parts` microbatches for this rank's replica, as the engine's plans need them; the caller
 * sets epochs and maxima. */
tri_loader_spec tri__loader_spec(const tri_engine *engine, tri_sampler *sampler, int parts);

/* The largest microbatch of a sampler's epochs, as input of a plan; max_tokens > 0 replaces the token counts: TRI_USAGE
 * when it is less. */
tri_status tri__largest(tri_sampler *sampler, int64_t epochs, int64_t max_tokens, int64_t max_len, tri_counts *max);
/* The same for one pass in file order, batches of `batch` rows in `parts` parts. */
tri_status tri__largest_of(const tri_dataset *data, int64_t batch, int parts, int64_t max_tokens, int64_t max_len,
                           tri_counts *max);

/* TRI_USAGE when a microbatch is larger than the forward program has room for. */
tri_status tri__feed_check(const tri_engine *engine, const tri_counts *counts);

/* Microbatches of a replica's batch in a prediction: several are in flight through a pipeline. Without one, an
 * evaluation during training takes its batch at once. */
int tri__infer_microbatches(const tri_settings *settings, int train);
/* After a run of the forward program: probabilities [samples, classes] of a part of the batch, which is microbatch
 * part % n of replica part / n, where a replica has n. Every rank has those of all. */
const float *tri__infer_probs(const tri_engine *engine, int part);

/* probs [data->n, n_classes], in the order of the rows. Every rank of a world calls it, computes its replica's part of
 * the batches (`batch` rows a replica), and gets all probabilities. Needs a plan for the largest of
 * tri__infer_microbatches parts a replica. */
tri_status tri__evaluate(tri_engine *engine, const tri_dataset *data, int64_t batch, float *probs);
