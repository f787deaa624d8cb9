/* groups.h - `trident eval --by`: which rows of a table belong together. */
#pragma once

#include "data/table/reading.h"
#include "serve/serve.h"

/* The groups of a column, of rows row [n] of the table: equal values are one (reading.h: canonical), the one with the
 * most rows first; a column of nothing but numbers, with more than 20 values, is cut at its quartiles. "(empty)":
 * missing values. "(rare)": what would be a group of fewer than TRI_GROUP_LEAST rows, or is beyond the 100 largest.
 * Whatever it returns, the caller frees *out. */
tri_status tri__grouped_read(const tri_table *table, const int64_t *row, int64_t n, int column,
                            const tri_reading *reading, tri_grouped *out);
/* The intervals of out->scores, of numbers the share of rows inside theirs, and all figures of out->by. */
tri_status tri__evaluation_bootstrap(const tri_scored_rows *rows, const tri_label_set *classes, int64_t resamples,
                                     int threads, tri_evaluation *out);
