/* dataset_rows.h - a token store as validated rows. */
#pragma once

#include "data/dataset/dataset.h"
#include "data/dataset/store.h"

/* Limits that rows must obey: kernels index by ids, labels and positions without bounds checks. */
typedef struct tri_row_limits {
    int vocabulary[TRI_TEXTS_MAX]; /* ids are below it */
    int64_t max_len;         /* ids of a text, from 1 */
    int n_classes;           /* labels are below it; 0: they are numbers */
    int words;               /* of a row's label */
    int n_texts, width, weighted, need_labels, need_parts;
} tri_row_limits;

/* Reads all of a store once, checks it, and fills in the data's rows, starts, labels and digest. TRI_DATA naming the
 * fault. */
tri_status tri__dataset_take(const tri_store *store, const tri_row_limits *limits, tri_dataset *data);
/* Fills in `to` with the rows of a part of `from`, whose store it reads through `store`. */
tri_status tri__dataset_select(const tri_dataset *from, tri_rows_for part, const tri_store *store, tri_dataset *to);
/* The most ids of a row's text. */
int64_t tri__dataset_longest(const tri_dataset *data);
/* Frees what these allocated; accepts a zeroed one. */
void tri__dataset_drop(tri_dataset *data);
