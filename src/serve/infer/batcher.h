/* batcher.h - a bounded queue of encoded rows, and the thread that joins them to packed batches and computes them.
 *
 * Submissions are taken in their order. A batch is closed when the next row exceeds its tokens or rows, or when nothing
 * more waits; a submission of which rows are left then goes to the end of the queue, so that a large one does not keep
 * others waiting for longer than one batch. */
#pragma once

#include "data/dataset/micro.h"
#include "serve/infer/drift.h"
#include "serve/infer/model.h"

/* Computes a batch of [parts] microbatches, some of which may be empty: probs[part] [micro[part].n, classes], in memory
 * of the callee, valid until the next call. */
typedef tri_status tri_compute(void *context, const tri_micro *micro, const float **probs);

typedef struct tri_batcher_spec {
    int64_t max_tokens, max_rows; /* of a batch; tokens of both texts together */
    tri_micro_spec micro;   /* of a part: has room for tri__part_tokens and max_rows */
    int parts;              /* microbatches of a batch, among which its rows are divided evenly by tokens */
    int n_classes;          /* numbers of an answer */
    int n_computed;         /* numbers that are computed for a row; 0: n_classes */
    int64_t queue_rows;
    double max_wait;
    tri_compute *compute;   /* called on the batcher's thread only */
    /* Makes row r's answer [n_classes] of its numbers [n_computed]; NULL: they are the answer. Called likewise. */
    tri_status (*finish)(void *context, const tri_encoded *rows, int64_t r, const float *computed, float *answer);
    void *context;
    tri_drift *drift;       /* counts what is answered; NULL: nothing does */
} tri_batcher_spec;

/* The most tokens of a part, where a row has at most row_tokens. */
int64_t tri__part_tokens(int64_t max_tokens, int parts, int64_t row_tokens);

typedef struct tri_batcher tri_batcher;

tri_status tri__batcher_open(const tri_batcher_spec *spec, tri_batcher **out);
/* Refuses new submissions, answers those that wait, then ends the thread; accepts NULL. When it returns, no thread may
 * be inside tri__batcher_submit. */
void tri__batcher_close(tri_batcher *batcher);
/* tri__model_submit. wait: a full queue is waited for, rather than TRI_BUSY; not on the batcher's thread. Rows beyond
 * what the queue holds: TRI_USAGE. */
tri_status tri__batcher_submit(tri_batcher *batcher, tri_encoded *encoded, tri_answered *answered, void *context,
                               int wait);
void tri__batcher_load(tri_batcher *batcher, tri_model_load *out);
