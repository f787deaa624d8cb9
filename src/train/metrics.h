/* metrics.h - scores of predicted probabilities. */
#ifndef TRI_TRAIN_METRICS_H
#define TRI_TRAIN_METRICS_H

#include "train/events.h"

/* probs [n, classes], labels [n]; class_weights [classes] or NULL. pr_auc is trapezoidal, of class 1 (macro one against
 * rest beyond two classes), as scikit-learn's auc(recall, precision) of precision_recall_curve; roc_auc likewise with
 * ties counted half. A class without rows: its f1 is 0 and it is left out of macro averages of auc.
 * An area that is undefined (no rows of the class, or of no other) is NaN here and null in JSON. */
tri_status tri__scores(const float *probs, const int32_t *labels, int64_t n, int classes, const double *class_weights,
                       tri_scores *out);
void tri__scores_free(tri_scores *scores);
json_t *tri__scores_json(const tri_scores *scores); /* loss, accuracy, f1 {macro, per class}, pr_auc, roc_auc, log_loss, rows */

#endif
