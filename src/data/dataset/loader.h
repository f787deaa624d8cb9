/* loader.h - assembles packed microbatches ahead of time on background threads. */
#ifndef TRI_DATA_DATASET_LOADER_H
#define TRI_DATA_DATASET_LOADER_H

#include "data/dataset/sampler.h"

/* One microbatch: only real tokens. T = tokens of a text, n = samples. Unused texts have NULL arrays. Arrays indexed by
 * token are zero-padded up to the loader's granule. */
typedef struct tri_micro {
    int64_t n, tokens[2];
    double squares[2];        /* sum over sequences of length squared */
    int32_t *ids[2];          /* [T] */
    int32_t *pos[2];          /* [T] rows of the position table, from position_base on (see there) */
    int32_t *key[2];          /* [T, 2] data row, place in the sequence */
    int32_t *seq[2];          /* [n + 1] first token of each sequence, and T */
    float *numbers;           /* [n, n_columns] */
    int32_t *labels;          /* [n]; zeros when the data has none */
    int32_t *keyn;            /* [n, 2] data row, 0 */
    int64_t *row;             /* [n] data rows */
} tri_micro;

typedef struct tri_batch {
    int64_t epoch, index, n;  /* batch `index` of the epoch, n samples in all */
    int64_t tokens;           /* of all texts and samples */
    double weight;            /* sum over all samples of class_weights[label]: the loss divisor */
    int parts;                /* parts that this loader fills */
    tri_micro *part;          /* [parts] */
} tri_batch;

typedef struct tri_loader tri_loader;
enum { TRI_LOADER_WORKERS = 256 };

typedef struct tri_loader_spec {
    tri_sampler *sampler;          /* used only by the loader while it is open */
    const double *class_weights;   /* [n_classes]; NULL: all 1 */
    int position_base[2]; /* 0 for BERT: counts every token. Pad id + 1 for RoBERTa: pad tokens are not counted and have
                           * the position pad id */
    int64_t first_epoch, first_batch, epochs;  /* where to start; total epochs */
    tri_sampler_maxima maxima;     /* determine the buffer sizes */
    int first_part, parts; /* the parts of a batch to fill: those of this replica; parts 0: all of the sampler's */
    int granule;           /* tokens of a microbatch are rounded up to it with zeros that belong to no sequence; 0: 1 */
    int workers;                   /* threads, 1 to TRI_LOADER_WORKERS; 0: 1. Batches do not depend on it */
} tri_loader_spec;

tri_status tri__loader_open(const tri_loader_spec *spec, tri_loader **out);
void tri__loader_close(tri_loader *loader);   /* stops the threads */
/* The next batch, valid until the following call; NULL at the end of the last epoch. *waited: seconds spent waiting;
 * may be NULL. A failure of tri__dataset_ids or tri__dataset_numbers is returned here, and there are no more
 * batches. */
tri_status tri__loader_next(tri_loader *loader, const tri_batch **batch, double *waited);

#endif
