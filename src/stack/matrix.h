/* matrix.h - features of rows: some of every row, the others of few rows each. */
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
} tri_matrix;

/* Rows to learn from, or to choose by. */
typedef struct tri_examples {
    tri_matrix x;
    int n_classes;          /* 0: y are numbers */
    float *y;               /* [x.n] class or number */
    float *weight;          /* [x.n] in the loss */
} tri_examples;

/* How many margins a row has: the log-odds of the second of two classes, one for each of several, or a number. */
static inline int tri__examples_outputs(const tri_examples *e) { return e->n_classes > 2 ? e->n_classes : 1; }
