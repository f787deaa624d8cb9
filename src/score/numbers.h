/* numbers.h - figures of predicted numbers, and intervals that hold. The model's values and targets are in units of
 * training (data/dataset/target.h); figures are in the label's own. */
#pragma once

#include "base/json.h"
#include "score/interval.h"

typedef struct tri_number_figures {
    double r2, rmse, mae, median_error; /* of one number, or of the quantile that is nearest to the median */
    double pinball, coverage;           /* of quantiles: the mean over levels; rows between the outermost. NaN */
    /* Of several labels: rows whose labels are all right; over all labels; means of labels, of rows; label ranking
     * average precision; the mean of labels. */
    double accuracy, f1_micro, f1_macro, f1_samples, lrap, roc_auc;
} tri_number_figures;

/* The next defined figure from *at on, in that order, which *at is then one beyond; 0: there are no more. */
int tri__number_figure(const tri_number_figures *figures, int *at, const char **name, double *value);
enum { TRI_NUMBER_INTERVALS = 3 }; /* the first of them have intervals */

/* What the values are; all borrowed. */
typedef struct tri_number_set {
    double (*in_units)(const void *scale, double value); /* rising */
    const void *scale;
    int loss;            /* a tri_number_loss */
    double delta;        /* Huber's */
    const double *level; /* [n] of quantiles; NULL: there is one value */
    int n;               /* values of a row */
    const double *weight; /* [n] several labels: of those that are there, in the loss; NULL: 1 */
    const float *from;   /* [n] the probability from which each label is called there; NULL: 0.5 */
} tri_number_set;

/* Puts the quantiles of each row in order: those of a model may cross. */
void tri__number_sort(const tri_number_set *set, float *values, int64_t n);
/* values [n, set->n], targets [n]. The same as scikit-learn's r2_score, mean_squared_error, mean_absolute_error,
 * median_absolute_error and mean_pinball_loss. loss: that of training, of values and targets as they are.
 * TRI_NOTFINITE. */
tri_status tri__number_scores(const float *values, const float *targets, int64_t n, const tri_number_set *set,
                              tri_number_figures *out, double *loss);
/* The row of n that resample r has at i, as in bootstrap.h; id: of "bootstrap". */
int64_t tri__resample_row(uint32_t id, int64_t i, int64_t r, int64_t n);
/* r2, rmse and mae of resamples as in bootstrap.h; of several labels f1_micro, f1_macro and lrap, whose targets are [n,
 * set->n] (labels.c). figures [3, resamples]. */
tri_status tri__label_resamples(const float *probs, const float *targets, int64_t n, const tri_number_set *set,
                                int64_t resamples, double *figures);
tri_status tri__number_resamples(const float *values, const float *targets, int64_t n, const tri_number_set *set,
                                 int64_t resamples, double *figures);
/* Their 95 % intervals. */
tri_status tri__number_intervals(const float *values, const float *targets, int64_t n, const tri_number_set *set,
                                 int64_t resamples, tri_interval out[TRI_NUMBER_INTERVALS]);

/* Split conformal prediction (Vovk et al. 2005; for quantiles Romano et al. 2019): a row's interval is its value, or
 * its outermost quantiles, plus and minus `width` in units of training. New rows that are like those of the fit are
 * inside with a probability of at least `share`. */
typedef struct tri_conformal {
    double share, width; /* share 0: there is none */
} tri_conformal;

/* The ceil((n + 1) share)-th smallest of how far rows are outside; none where n is too small for that. */
tri_status tri__conformal_fit(const float *values, const float *targets, int64_t n, int columns, double share,
                              tri_conformal *out);
/* A row's interval in the label's units; values [set->n]. */
tri_interval tri__conformal_of(const tri_conformal *conformal, const tri_number_set *set, const float *values);
/* The value that is shown for a row, in the label's units. */
double tri__number_point(const tri_number_set *set, const float *values);
