/* preprocess.h - what turns a table's columns into labels and numbers; fitted on training data, kept with the model. */
#ifndef TRI_DATA_PREPROCESS_H
#define TRI_DATA_PREPROCESS_H

#include "base/json.h"
#include "data/table.h"

typedef struct tri_column_stats {
    char *name;
    double fill;             /* what a missing value becomes: the training median */
    double mean, deviation;  /* of the filled column; deviation 1 when it is constant */
    int64_t missing;         /* in training */
} tri_column_stats;

typedef struct tri_preprocess {
    char *label_name, *primary_name, *secondary_name; /* secondary_name NULL: no such branch */
    tri_column_stats *column;                         /* [n_columns] */
    int n_columns;
    char **label;                                     /* [n_classes] the text of each class, in class order */
    int n_classes;
} tri_preprocess;

/* Labels: when every training label is an integer in 0..n_classes-1 that is its class; otherwise the distinct texts,
 * sorted, which must be n_classes. TRI_DATA file:line:column for an unparsable number (text that is no number; empty is
 * missing) or a missing label or one outside the classes. */
tri_status tri__preprocess_fit(const tri_table *table, const char *label, const char *primary, const char *secondary,
                               char *const *columns, int n_columns, int n_classes, tri_preprocess **out);
void tri__preprocess_free(tri_preprocess *preprocess);
json_t *tri__preprocess_json(const tri_preprocess *preprocess);
tri_status tri__preprocess_parse(const json_t *json, const char *name, tri_preprocess **out);

#endif
