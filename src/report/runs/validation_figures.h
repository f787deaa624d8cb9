/* validation_figures.h - validation probabilities that a run keeps (validation-best.csv, validation-last.csv), as
 * figures.
 *
 *   file, rows, positive    the file; rows in it; the positive label, absent beyond two classes
 *   loss, accuracy, f1_macro, pr_auc, average_precision, roc_auc      loss: mean of -log p(label)
 *   classes       [{label, rows, precision, recall, f1}]
 *   confusion     [[rows]] by label, then prediction; absent beyond 32 classes
 *   confused      [{label, predicted, rows}]: the most frequent errors, at most 12
 *   pr, roc       [{label, area, x, y}]: recall and precision; false and true positive rate. Of the positive label; of
 *                 the 8 most frequent ones, each against the rest, beyond two classes
 *   reliability   {ece, bins, calibrated: {temperature, ece, bins}}: of the model's own probabilities and, where the
 *                 run fitted a temperature, of those that `eval` scores; score/reliability.h has the definition
 *   worst, uncertain   with rows asked for: [{row, label, predicted, probability, loss, margin, fields: {column:
 *                 text}}]: the largest losses; the smallest margins between the two most probable labels */
#ifndef TRI_REPORT_RUNS_VALIDATION_FIGURES_H
#define TRI_REPORT_RUNS_VALIDATION_FIGURES_H

#include "base/json.h"

/* A validation file in memory. */
typedef struct tri_predicted {
    int64_t n;
    int n_classes;
    char **class;    /* [n_classes] */
    int64_t *row;    /* [n] numbers of data rows, from 1 */
    int32_t *label;  /* [n] */
    float *probs;    /* [n, n_classes] */
} tri_predicted;

/* The curves above, pr or roc; areas are those of score/metrics.h. */
tri_json *tri__predicted_curve(const tri_predicted *p, int class, int roc);

/* predicted_rows.c: the `most` worst and most uncertain rows, into `worst` and `uncertain` of `into`; their fields are
 * read from the table that run.config names. What is missing is noted in the run. */
tri_status tri__predicted_rows(const tri_predicted *p, int most, tri_json *run, tri_json *into);

#endif
