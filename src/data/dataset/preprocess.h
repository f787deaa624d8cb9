/* preprocess.h - what turns a table's columns into texts, numbers and labels; fitted on training data, kept with the
 * model. docs/guide/data.md says it for users. */
#ifndef TRI_DATA_DATASET_PREPROCESS_H
#define TRI_DATA_DATASET_PREPROCESS_H

#include "data/table/reading.h"

enum { TRI_CATEGORIES_MAX = 256, TRI_CATEGORY_BYTES = 1000, TRI_QUANTILES_MAX = 1000 }; /* bytes: also of a label */

/* What a missing number becomes, and what filled numbers become. In the order of the configuration's choices. */
typedef enum tri_missing { TRI_MISSING_MEDIAN, TRI_MISSING_MEAN, TRI_MISSING_ZERO } tri_missing;
typedef enum tri_transform { TRI_TRANSFORM_STANDARD, TRI_TRANSFORM_QUANTILE_NORMAL, TRI_TRANSFORM_NONE } tri_transform;

/* A column of tab_field_list. With categories it is categorical: n_categories numbers, of which one is 1, and one more
 * that is 1 for a value that training did not have and for a missing one. */
typedef struct tri_column_stats {
    char *name;
    int64_t missing;          /* in training */
    int width;                /* numbers that it becomes */
    tri_transform transform;
    double fill;              /* what a missing value becomes, before the transform */
    double mean, deviation;   /* standard: of the filled column; deviation 1 when it is constant */
    double *quantile;         /* quantile_normal: [n_quantiles] of the filled column */
    int n_quantiles;
    char **category;          /* [n_categories] in byte order; NULL: numeric */
    int n_categories;
} tri_column_stats;

typedef struct tri_preprocess {
    char *label_name;
    tri_texts
        text[2]; /* columns of each text, joined with one space, empty ones left out; text[1].n 0: no such branch */
    tri_column_stats *column; /* [n_columns] */
    int n_columns;
    int width;                /* numbers of a row: the sum of the columns' widths */
    char **label;             /* [n_classes] the text of each class, in class order */
    int n_classes;
    int label_by_index;       /* a label that is none of these texts may be a class's number */
    tri_reading reading;      /* of columns and labels; texts stay as they are. Owned */
} tri_preprocess;

/* What is to be fitted; all borrowed. */
typedef struct tri_preprocess_spec {
    const char *label_name;
    tri_texts text[2];
    tri_texts columns;
    tri_texts categorical;    /* those of columns that hold categories, whatever they look like */
    tri_texts label_list;     /* the classes' labels in order; empty: from the data */
    const char *positive_label; /* must be one of the labels; NULL: none. What is fitted does not depend on it */
    int n_classes;
    tri_missing missing;
    tri_transform transform;
    tri_reading reading;      /* decimal 0: as recognised */
    tri_bad_rows bad_rows;    /* skip: a row with a bad number or label counts for nothing */
} tri_preprocess_spec;

/* Columns: numeric when at least nine in ten of the values that are there are decimal numbers (the others are bad
 * then); otherwise categorical, with at most TRI_CATEGORIES_MAX different values. Labels: with label_list, a label's
 * place in it, or the class's number; else, when every label is a whole number in 0..n_classes-1, that number;
 * otherwise the distinct texts, in byte order, which must be n_classes. With bad_rows skip, numbers are the classes
 * when nine in ten are. TRI_DATA file:line:column for a value that is neither, names of the columns there are when one
 * is missing. The result does not depend on threads. */
tri_status tri__preprocess_fit(const tri_table *table, const tri_preprocess_spec *spec, int threads,
                               tri_preprocess **out);
void tri__preprocess_free(tri_preprocess *preprocess);
/* labels.c: the class of a label that the user named; TRI_USAGE with the labels there are. */
tri_status tri__preprocess_positive(const tri_preprocess *preprocess, const char *label, int *class);
/* Version 2, and 1, which has neither decimal mark nor texts for missing values; real numbers come back bit by bit when
 * written with 17 digits. */
tri_json *tri__preprocess_json(const tri_preprocess *preprocess);
tri_status tri__preprocess_parse(const tri_json *json, const char *name, tri_preprocess **out);
/* Everything that a fit depends on beside the table. */
tri_json *tri__preprocess_spec_json(const tri_preprocess_spec *spec);
/* One line for people: "age: numeric, 3 missing; city: 12 categories". The caller frees it; NULL when out of memory. */
char *tri__preprocess_describe(const tri_preprocess *preprocess);

#endif
