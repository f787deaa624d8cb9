/* columns.h - columns of a table that a model turns into vectors, as words that kernels read: the operand `words` of
 * the operation `columns`. A row of the table has one number for each column, or several:
 *
 *   piecewise   its place among the column's bins: 0 at the first edge, k at edge k, linear between, and as far beyond
 *               the outer bins as these go on
 *   periodic    the transformed number
 *   category    the index of the category; their number: missing, or not seen in training
 *   hashed      as many numbers as the column has rows, each its row's factor
 *
 * TRI_COLUMN_MISSING stands for a missing number in columns that have a row for it. */
#pragma once

#include "base/kernel_function.h"

#include <float.h>
#include <stdint.h>

#define TRI_COLUMN_MISSING (-FLT_MAX)

typedef enum tri_column_kind {
    TRI_COLUMN_PIECEWISE,
    TRI_COLUMN_PERIODIC,
    TRI_COLUMN_CATEGORY,
    TRI_COLUMN_HASHED
} tri_column_kind;

/* What a model has to know of a column. */
typedef struct tri_column {
    tri_column_kind kind;
    int32_t count;   /* bins, categories or buckets; periodic: 0 */
    int has_missing; /* 1: a row for missing numbers */
} tri_column;

/* The n numbers of a row: used as they are, or of columns that become vectors. */
typedef struct tri_columns {
    int n;
    const tri_column *at; /* [n_at]; NULL: used as they are */
    int n_at;
} tri_columns;

/* The words of a column. Rows are those of the table of its kind: of numbers, or of categories and buckets. */
enum {
    TRI_COLUMN_KIND,
    TRI_COLUMN_FIRST,  /* its first row */
    TRI_COLUMN_COUNT,  /* rows: one a bin, a category, a bucket, or a sine and then a cosine of each frequency */
    TRI_COLUMN_ROWS,   /* the same, and one more that stands for a missing number where the column has it */
    TRI_COLUMN_NUMBER, /* periodic: its row of the table of frequencies */
    TRI_COLUMN_AT,     /* its first number among those of a row */
    TRI_COLUMN_WORDS
};
/* Elements of a vector; bins of a number; numbers of a hashed text. */
enum { TRI_COLUMN_DIM_MAX = 1024, TRI_BINS_MAX = 1024, TRI_BUCKETS_MAX = 4096 };

/* The factor of bin k of n at place x: 0 below the bin, 1 above it; the outer ones go on beyond. */
TRI_KERNEL_FUNCTION float tri__column_bin(float x, int64_t k, int64_t n) {
    float e = x - (float)k;
    if (k > 0 && e < 0) e = 0;
    if (k < n - 1 && e > 1) e = 1;
    return e;
}

/* Whether its rows are in the table of categories, and its vector is their sum without a ReLU. */
TRI_KERNEL_FUNCTION int tri__column_looks_up(const int32_t *words) {
    return words[TRI_COLUMN_KIND] >= TRI_COLUMN_CATEGORY;
}

/* The factor of row k of a column that looks rows up, with its numbers x. */
TRI_KERNEL_FUNCTION float tri__column_look(const float *x, int64_t k, const int32_t *words) {
    return words[TRI_COLUMN_KIND] == TRI_COLUMN_HASHED ? x[k] : (float)(x[0] >= 0 && k == (int64_t)x[0]);
}

/* The row of the table of categories; -1: none. */
TRI_KERNEL_FUNCTION int64_t tri__column_row(float x, const int32_t *words) {
    return x >= 0 && x < (float)words[TRI_COLUMN_COUNT] ? words[TRI_COLUMN_FIRST] + (int64_t)x : -1;
}
