/* loader.h - assembles packed microbatches ahead of time on background threads. */
#pragma once

#include "data/dataset/micro.h"
#include "data/dataset/sampler.h"

typedef struct tri_batch {
    int64_t epoch, index, n;  /* batch `index` of the epoch, n samples in all */
    int64_t tokens;           /* of all texts and samples, in all windows */
    double weight;            /* sum over all samples of tri__row_weight: the loss divisor */
    int parts;                /* parts that this loader fills */
    tri_micro *part;          /* [parts] */
    const int64_t *row;       /* [n] data rows of the whole batch, in its order */
    const int32_t *part_of;   /* [n] the sampler's part of each; inside a part rows keep this order */
} tri_batch;

typedef struct tri_loader tri_loader;
enum { TRI_LOADER_WORKERS = 256 };

typedef struct tri_loader_spec {
    tri_sampler *sampler;          /* used only by the loader while it is open */
    const double *class_weights;   /* [n_classes]; NULL: all 1 */
    tri_micro_spec micro;          /* position_base, capacity, granule, ring: given; the rest comes from the sampler */
    int64_t first_epoch, first_batch, epochs;  /* where to start; total epochs */
    tri_sampler_maxima maxima;     /* determine the buffer sizes */
    int first_part, parts; /* the parts of a batch to fill: those of this replica; parts 0: all of the sampler's */
    /* replicas that share experts, runs of consecutive ones: their microbatches of the same place have as many rows of
     * experts as the largest; 0: 1 */
    int sharers;
    int workers;                   /* threads, 1 to TRI_LOADER_WORKERS; 0: 1. Batches do not depend on it */
} tri_loader_spec;

tri_status tri__loader_open(const tri_loader_spec *spec, tri_loader **out);
void tri__loader_close(tri_loader *loader);   /* stops the threads */
/* The next batch, valid until the following call; NULL at the end of the last epoch. *waited: seconds spent waiting;
 * may be NULL. A failure of tri__dataset_ids or tri__dataset_numbers is returned here, and there are no more
 * batches. */
tri_status tri__loader_next(tri_loader *loader, const tri_batch **batch, double *waited);
