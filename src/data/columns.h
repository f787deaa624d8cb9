/* columns.h - single fields of a table as numbers and as labels. */
#ifndef TRI_DATA_COLUMNS_H
#define TRI_DATA_COLUMNS_H

#include "data/table.h"

/* A decimal number, blanks around it allowed. Empty or blank: *missing = 1. TRI_DATA file:line:column for anything else,
 * also for "nan", "inf", hexadecimal and what is too large for a double. */
tri_status tri__column_number(const tri_table *table, int64_t row, int column, double *value, int *missing);

/* The text of each class, from the labels of a column: see tri__preprocess_fit. label: [n_classes], filled. */
tri_status tri__labels_fit(const tri_table *table, int column, int n_classes, char **label);
/* The class of a field. TRI_DATA file:line:column naming the known labels when it is none of them. */
tri_status tri__labels_class(const tri_table *table, int64_t row, int column, char *const *label, int n_classes, int32_t *out);

#endif
