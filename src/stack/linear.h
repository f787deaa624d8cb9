/* linear.h - ridge regression of numbers, logistic regression of classes: scikit-learn's Ridge with alpha = penalty,
 * LogisticRegression with C = 1 / penalty. */
#pragma once

#include "stack/matrix.h"

typedef struct tri_linear_head {
    int n_features, n_outputs;
    double *at;             /* [n_features + 1, n_outputs]; the last row is the bias, which is not penalised */
} tri_linear_head;

/* The objective at model->at, and its gradient: the weighted mean of -log p[y] or (y - z)^2 / 2, and
 * penalty / (2 sum of weights) times the sum of squared weights. Sums are in double, in the order of the rows. */
double tri__linear_objective(const tri_linear_head *model, const tri_matrix *rows, double penalty, double *gradient);
/* Minimises it by L-BFGS from model->at on. The same bits everywhere that a machine's expf and log are the same. */
tri_status tri__linear_fit(tri_linear_head *model, const tri_matrix *rows, double penalty);
/* A row's margins [n_outputs]. */
void tri__linear_row(const tri_linear_head *model, const tri_matrix *x, int64_t row, double *margins);
/* Margins to what they say: numbers stay (n_classes 0), classes become probabilities [n_classes] in place. */
void tri__linear_link(double *margins, int n_classes);
