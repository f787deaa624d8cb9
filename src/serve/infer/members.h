/* members.h - a model's checkpoint, or those of an ensemble: every batch runs through all, and the answer is their
 * mean. Members read rows alike, so that a row is encoded once. */
#pragma once

#include "data/dataset/micro.h"
#include "serve/infer/crew.h"
#include "serve/infer/ensemble.h"
#include "serve/infer/number_outputs.h"

typedef struct tri_member {
    tri_opened opened;
    int slot;            /* of the crew; -1: none */
} tri_member;

typedef struct tri_members {
    tri_member *at;      /* [n] */
    int n;               /* 1: no ensemble */
    tri_crew *crew;      /* the other ranks; NULL: none */
    tri_decision decision; /* of the mean */
    int parts;           /* microbatches of a batch */
    int64_t rows;        /* room of a part */
    int n_classes;       /* numbers of an answer: tri__outputs */
    tri_feed *feed;      /* [parts] */
    float *probs;        /* [parts, rows, n_classes] calibrated, the mean; NULL: they stay the engine's */
    double *sum;         /* likewise; NULL: no ensemble */
} tri_members;

/* Reads the checkpoints. TRI_DATA where one reads rows in another way. Whatever it returns, the caller closes them. */
tri_status tri__members_read(const tri_settings *asked, tri_crew *crew, tri_members *out);
/* Plans, allocates, loads weights. */
tri_status tri__members_load(tri_members *members, const tri_batching *batching);
/* probs [parts] of a batch; of a model with a stacked head, those that tri__stack_answer takes. */
tri_status tri__members_run(tri_members *members, const tri_micro *micro, const float **probs);
void tri__members_close(tri_members *members); /* accepts a zeroed one */
