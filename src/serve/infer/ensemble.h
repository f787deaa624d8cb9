/* ensemble.h - a folder of several seeds (checkpoint/run_set.h): the mean of its members is the model. */
#pragma once

#include "checkpoint/run_set.h"
#include "data/dataset/preprocess.h"
#include "serve/serve.h"

/* As tri__run_set_read, of ensembles alone: n is 0 where the folder is not one. */
tri_status tri__ensemble_read(const char *folder, tri_run_set *out);
/* TRI_USAGE where the folder is an ensemble: what is done to one model ("export") takes a member. */
tri_status tri__ensemble_refuse(const char *folder, const char *what);

/* A sum of the members' probabilities [n], in double, member after member: of equal members it does not depend on how
 * rows were batched. */
void tri__mean_add(const float *probs, int64_t n, double *sum);
void tri__mean_take(const double *sum, int64_t n, int members, float *probs);

/* Likewise of decisions: members' probabilities are calibrated, so that the mean's temperature is 1; its threshold is
 * the mean of theirs, if all have one. i: which member. */
void tri__decision_add(const tri_decision *one, int i, tri_decision *sum);
void tri__decision_take(int members, tri_decision *sum);

/* predict.c: evaluation and prediction by one model. kept: its probabilities and the labels; NULL: not wanted. */
typedef struct tri_judged {
    int64_t n;
    int n_classes, is_number; /* tri__outputs */
    float *probs;     /* [n, n_classes] */
    int64_t words;
    int32_t *labels;  /* [words] or targets, as a dataset has them */
    double *weights;  /* [n_classes] of classes in the loss; NULL: all 1 */
    tri_number_set numbers; /* of what is not classes: preprocess not NULL; it borrows what follows */
    tri_preprocess *preprocess;
    double *level;
    float *from;
} tri_judged;
void tri__judged_free(tri_judged *judged);
tri_status tri__eval_model(const tri_settings *settings, const tri_eval_options *options, tri_world *world,
                           const tri_log *log, tri_evaluation *out, tri_judged *kept);
tri_status tri__predict_model(const tri_settings *settings, tri_world *world, const tri_predict_options *options,
                              const tri_log *log, tri_predictions *out);
/* The table that the model's run divided, and its rows of asked->part: row [n], rising, of the table. */
tri_status tri__part_rows(const tri_settings *asked, const tri_log *log, tri_table **table, int64_t **row, int64_t *n);
