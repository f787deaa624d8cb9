/* metrics.h - scores of predicted probabilities, or of numbers. */
#pragma once

#include "score/decision.h"
#include "score/numbers.h"

/* The scores of an evaluation. Per-class arrays have n_classes entries. */
typedef struct tri_scores {
    int64_t rows;
    int n_classes;
    int positive;             /* the class of the areas below; -1: they are means over all classes */
    double loss;              /* class-weighted cross-entropy, as in training */
    double log_loss;          /* unweighted */
    double accuracy, f1_macro, pr_auc, average_precision, roc_auc;
    tri_reliability reliability;
    char **label;                    /* [n_classes] names; owned */
    double *f1, *precision, *recall; /* [n_classes] in one allocation; owned */
    int64_t *support;                /* [n_classes] rows of each class; owned */
    int64_t *confusion;              /* [n_classes, n_classes] rows by label and prediction; NULL: too many; owned */
    /* [n_classes, TRI_THRESHOLDS, 2] rows whose probability of the class reaches threshold k / (TRI_THRESHOLDS - 1):
     * those of the class, the others; NULL: too many classes; owned. */
    int64_t *above;
    double seconds;
    /* 1: next to rows, loss and seconds only `numbers` are set, and n_classes is 0; of several labels also what they
     * have in common with classes. */
    int is_number;
    tri_number_figures numbers;
} tri_scores;

/* The name of the positive class; NULL when there is none. */
const char *tri__scores_positive(const tri_scores *scores);

/* The classes, for scoring; all borrowed. */
typedef struct tri_label_set {
    int n;
    char *const *label;     /* [n] names */
    const double *weights;  /* [n] in the loss; NULL: all 1 */
    int positive;           /* of two classes: the one that areas are for; beyond two -1 */
    const tri_number_set *numbers; /* outputs are numbers: probs their values, labels their targets; NULL: classes */
    const tri_decision *decision; /* whose threshold says which class is predicted; NULL: the likeliest */
} tri_label_set;

/* Classes: the matrix of more is not kept; likewise `above`. */
enum { TRI_CONFUSION_MAX = 256, TRI_CURVES_MAX = 32, TRI_THRESHOLDS = 201 };

/* probs [n, classes->n], labels [n]. Same as scikit-learn: pr_auc is auc(recall, precision) of precision_recall_curve,
 * average_precision its average_precision_score, roc_auc its roc_auc_score, each of the positive class; beyond two
 * classes the mean of one against the rest, over classes that have rows. f1_macro is the mean over classes that are the
 * label or the prediction of some row. An undefined area (no rows of the class, or of any other) is NaN here and null
 * in JSON. */
tri_status tri__scores(const float *probs, const int32_t *labels, int64_t n, const tri_label_set *classes,
                       tri_scores *out);
/* Of several labels, targets [rows, set->n]; out has rows and arrays. */
tri_status tri__label_scores(const float *probs, const float *targets, const tri_number_set *set, tri_scores *out);
void tri__scores_free(tri_scores *scores);
/* loss, accuracy, f1 {macro, per_class}, pr_auc, average_precision, roc_auc, log_loss, positive_label, classes,
 * confusion, rows, ece, brier, reliability; classes by name. */
tri_json *tri__scores_json(const tri_scores *scores);
/* Its scalar figures, with the names of epoch events in metrics.jsonl. */
tri_json *tri__scores_figures(const tri_scores *scores);
