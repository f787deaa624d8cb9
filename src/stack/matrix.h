/* matrix.h - features of rows: some of every row, the others of few rows each; and what is learned from them. */
#pragma once

#include "base/base.h"

#include <float.h>

enum { TRI_STACK_CLASSES = 1000 }; /* at most */

typedef struct tri_matrix {
    int64_t n;              /* rows */
    int n_dense, n_sparse;  /* features: the dense ones come first */
    float *dense;           /* [n, n_dense]; NaN: missing */
    int64_t *start;         /* [n + 1] of each row in index and value */
    int32_t *index;         /* below n_sparse; those of a row differ */
    float *value;
    size_t room[4];         /* of dense, start, index, value */
    int n_classes;          /* 0: y are numbers */
    float *y, *weight;      /* [n] class or number; in the loss */
} tri_matrix;

/* How many margins a row has: the log-odds of the second of two classes, one for each of several, or a number. */
static inline int tri__matrix_margins(const tri_matrix *x) { return x->n_classes > 2 ? x->n_classes : 1; }
static inline void tri__matrix_free(tri_matrix *x) {
    TRI_FREE(x->dense, x->start, x->index, x->value, x->y, x->weight);
}
/* The weighted mean of -log p[y], or of (y - answer)^2. answer [n, width]: numbers, probabilities, or with width 1 that
 * of the second of two classes. */
double tri__matrix_loss(const tri_matrix *rows, const float *answer, int width);
