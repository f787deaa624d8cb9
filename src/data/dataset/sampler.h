/* sampler.h - which rows form global batch k of epoch e, and how it is split. Pure: every rank computes the same
 * result. */
#pragma once

#include "data/dataset/dataset.h"

typedef struct tri_sampler {
    const tri_dataset *data;
    int64_t batch;     /* global batch size; the last batch of an epoch may be smaller */
    uint32_t seed;
    int shuffle;       /* 0: rows in file order */
    int parts; /* microbatches of a batch: replicas times microbatches per replica; those of a replica are contiguous */
    int64_t *order;    /* [n] rows of the epoch below */
    int64_t epoch;     /* the epoch of `order`; -1: none */
    int32_t *part;     /* [batch] scratch: the parts of a batch's rows */
    void *heap;        /* [batch + 2 * parts] scratch of the split */
    const tri_stop *stop; /* ends tri__sampler_maxima early; NULL */
} tri_sampler;

tri_status tri__sampler_open(tri_sampler *sampler, const tri_dataset *data, int64_t batch, int parts, int shuffle,
                             uint32_t seed);
void tri__sampler_close(tri_sampler *sampler);
int64_t tri__sampler_batches(const tri_sampler *sampler); /* of one epoch */
/* Rows of batch k of an epoch; valid until the epoch changes. Returns how many. */
int64_t tri__sampler_batch(tri_sampler *sampler, int64_t epoch, int64_t k, const int64_t **rows);
/* Splits rows into sampler->parts greedily: longest first (tokens of all texts, ties by row), each to the part with
 * the fewest tokens so far (ties to the lowest part); inside a part rows keep the batch's order. part[i] is row i's
 * part. */
void tri__sampler_split(tri_sampler *sampler, const int64_t *rows, int64_t n, int32_t *part);
/* The largest microbatch of epochs [0, epochs): rows, and tokens and windows of each encoder, each maximised
 * separately. Of a run that visits more than TRI_MAXIMA_ROWS rows, bounds by the longest rows instead, which any order
 * keeps. TRI_STOPPED by a signal. */
enum { TRI_MAXIMA_ROWS = 1 << 24 };
typedef struct tri_sampler_maxima {
    int64_t rows, tokens[2];
    int64_t windows[2]; /* 0 where these are not counted */
    int64_t shortest[2]; /* the fewest tokens of a sequence; 0 where windows are counted */
    int64_t bounded;     /* 1: bounds of a long run */
} tri_sampler_maxima;
tri_status tri__sampler_maxima(tri_sampler *sampler, int64_t epochs, tri_sampler_maxima *out);
