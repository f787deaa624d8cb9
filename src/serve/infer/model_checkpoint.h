/* model_checkpoint.h - a checkpoint opened for computing: what eval, predict, the server and C programs share.
 *
 *   read      checkpoint, settings, vocabularies, preprocessing: enough to read data
 *   load      plan, memory, weights: enough to compute */
#pragma once

#include "data/dataset/preprocess.h"
#include "score/decision.h"
#include "engine/engine.h"
#include "stack/stack.h"

typedef struct tri_opened {
    tri_checkpoint *checkpoint;
    tri_settings settings;        /* the checkpoint's, with this machine's threads, device, batch size */
    tri_assets assets;
    tri_preprocess *preprocess;
    tri_place place;              /* of this rank */
    tri_decision decision;        /* of its probabilities and labels: the checkpoint's, unless other is asked */
    tri_number_set numbers;       /* of a model that predicts numbers: what its values are */
    float *from;                  /* [n_classes] of several labels: the decision's; owned */
    tri_stack *stack;             /* its stacked head, whose answers take the place of the model's; NULL: none */
    const tri_json *fitted;       /* how the checkpoint's was fitted, borrowed of it; NULL: there is none, or unused */
    tri_engine engine;            /* after tri__opened_load */
} tri_opened;

/* Reads asked->checkpoint, on every rank of `world`; NULL: one rank. Whatever it returns, the caller closes `opened`.
 */
tri_status tri__opened_read(const tri_settings *asked, tri_world *world, tri_opened *opened);
/* Plans for microbatches of at most `max`, allocates, reads the weights and uploads them; on every rank. data: digest
 * of what all ranks must have read; 0: nothing. TRI_NOTFINITE if a weight is not finite. */
tri_status tri__opened_load(tri_opened *opened, const tri_counts *max, uint64_t data);
/* Its first part, up to the allocation; tri__engine_load and tri__engine_ready_infer follow. */
tri_status tri__opened_bind(tri_opened *opened, const tri_counts *max);
/* The positive class of two: `asked`, or the label that the model was trained with. Beyond two -1. */
tri_status tri__opened_positive(const tri_opened *opened, const char *asked, const tri_log *log, int *positive);
void tri__opened_close(tri_opened *opened); /* accepts a zeroed one */
