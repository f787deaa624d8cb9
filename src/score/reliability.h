/* reliability.h - how far predicted probabilities can be believed: expected calibration error, Brier score, and the
 * table that the error sums up. */
#pragma once

#include "base/json.h"
#include "score/interval.h"

enum { TRI_RELIABILITY_BINS = 15 };

/* Rows by confidence, the probability of the likeliest class (the first of equal ones): bin k has those above k / 15,
 * up to (k + 1) / 15; 0 is in the first. A row is right if that class is its label, whatever a threshold says. */
typedef struct tri_reliability_bin {
    double rows;
    double confidence; /* mean of the bin's rows; 0: it has none */
    double accuracy;
} tri_reliability_bin;

typedef struct tri_reliability {
    double ece;   /* sum over bins of |accuracy - confidence|, each times its share of the rows (Guo et al., 2017) */
    /* Two classes: mean of (probability of the positive class - 1 or 0)^2, as brier_score_loss of scikit-learn; beyond
     * two: mean over rows of the sum of squares over classes. */
    double brier;
    tri_reliability_bin bin[TRI_RELIABILITY_BINS];
} tri_reliability;

/* What the figures take of one row, of n_classes; positive: of two, else -1. */
typedef struct tri_reliability_row {
    float confidence;
    double brier;
    int bin, best;
} tri_reliability_row;
tri_reliability_row tri__reliability_row(const float *probs, int label, int n_classes, int positive);

/* probs [n, n_classes], labels [n]; n > 0. */
void tri__reliability(const float *probs, const int32_t *labels, int64_t n, int n_classes, int positive,
                      tri_reliability *out);
/* The interval of the error that many more such rows would have. The error of n rows is on average above it, because
 * absolute values do not cancel: bins of few rows differ from their confidence even where probabilities are perfect.
 * Hence the interval holds the errors for which one like this is not unusual (Neyman, 1937): true differences are taken
 * as those of the bins, all times one factor, and the error of n rows is drawn with binomial variance; it is below
 * r->ece in at least 2.5 % of the draws, and above in at least 2.5 %. normal [draws, TRI_RELIABILITY_BINS]: standard
 * normal numbers. */
tri_interval tri__reliability_interval(const tri_reliability *r, const float *normal, int64_t draws);
/* A list of {from, to, rows, confidence, accuracy}; bins without rows are left out. */
tri_json *tri__reliability_json(const tri_reliability *reliability);
