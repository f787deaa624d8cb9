/* limits.h - limits of a model's batches: their defaults, and the largest microbatch that they lead to. */
#pragma once

#include "serve/infer/model.h"
#include "serve/infer/model_checkpoint.h"

/* asked, or NULL, with the defaults filled in. TRI_USAGE when one row would not fit a batch. */
tri_status tri__batching_resolve(const tri_batching *asked, const tri_opened *opened, tri_batching *out);
/* Microbatches of a batch: replicas, times those in flight through a pipeline. */
int tri__batching_parts(const tri_opened *opened);
/* The most tokens of a microbatch. */
int64_t tri__batching_tokens(const tri_batching *batching, const tri_opened *opened);
/* The input of a plan: any mix of rows fits, since either text may have all tokens. */
tri_counts tri__batching_counts(const tri_batching *batching, const tri_opened *opened);
