/* unseen.h - values of category columns that training did not have: to the model all of them are one unknown value.
 * They are counted with examples, for tables and for a server's requests, so that a column that is spelt in another way
 * does not go unnoticed. */
#pragma once

#include "base/log.h"
#include "data/dataset/preprocess.h"

enum { TRI_UNSEEN_EXAMPLES = 3, TRI_UNSEEN_BYTES = 64 };

/* Of one column; begins zeroed. */
typedef struct tri_unseen {
    int64_t values, unseen; /* values that are there; of these, how many training did not have */
    int n_examples;
    char example[TRI_UNSEEN_EXAMPLES][TRI_UNSEEN_BYTES]; /* the first different ones, shortened */
} tri_unseen;

/* Whether the numbers [stats->width] of a category column are those of a value that training had. */
int tri__category_known(const tri_column_stats *stats, const float *numbers);
/* Counts a value that training did not have; and those of another count. */
void tri__unseen_add(tri_unseen *to, tri_field_text field);
void tri__unseen_join(tri_unseen *to, const tri_unseen *from);
/* {column, values, unseen, examples}; a new reference. */
tri_json *tri__unseen_json(const char *column, const tri_unseen *unseen);
/* Says, for each column of a list of these, how many of the table's values training did not have; NULL: of none.
 * TRI_DATA, unless `allowed`, if it had none of a column's values. */
tri_status tri__unseen_say(const tri_json *list, const char *path, const tri_preprocess *preprocess, int allowed,
                           const tri_log *log);
