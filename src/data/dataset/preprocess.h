/* preprocess.h - how a table's columns become texts, numbers and labels; fitted on training data, stored with the
 * model. docs/guide/data.md is the user's guide. */
#pragma once

#include "data/dataset/division.h"
#include "data/table/value_form.h"
#include "layout/columns.h"
#include "layout/texts.h"

enum { TRI_CATEGORIES_MAX = 256, TRI_CATEGORY_BYTES = 1000, TRI_QUANTILES_MAX = 1000 }; /* bytes: also of a label */
enum { TRI_CATEGORY_ROWS_MAX = 65536 }; /* categories of a column that becomes a vector */

/* How missing numbers are filled, and how filled numbers are transformed. In the order of the configuration's
 * choices. */
typedef enum tri_missing { TRI_MISSING_MEDIAN, TRI_MISSING_MEAN, TRI_MISSING_ZERO } tri_missing;
typedef enum tri_transform {
    TRI_TRANSFORM_STANDARD, TRI_TRANSFORM_QUANTILE_NORMAL, TRI_TRANSFORM_NONE,
    TRI_TRANSFORM_LOG /* of targets alone: of log(1 + x), as standard */
} tri_transform;

/* Whether columns are used as they are, or become vectors, and numbers by which embedding. */
typedef enum tri_vectors { TRI_VECTORS_NONE, TRI_VECTORS_PIECEWISE, TRI_VECTORS_PERIODIC } tri_vectors;

/* A column of tab_field_list; a date is several, one for each of its parts, with the same name. With categories it is
 * categorical: a one-hot vector of n_categories numbers, plus one for values that are missing or did not occur in
 * training, which rare values share. A hashed one (TRI_FORM_HASHED) is its buckets. A column that becomes a vector is
 * one number otherwise (layout/columns.h); missing ones are TRI_COLUMN_MISSING if there were some in training, else
 * they are filled. */
typedef struct tri_column_stats {
    char *name;
    tri_value_form read_as;   /* how fields become numbers */
    int64_t missing;          /* in training */
    int width;                /* how many numbers it becomes */
    tri_vectors vectors;
    tri_transform transform;
    double fill;              /* replaces missing values, before the transform */
    double mean, deviation;   /* standard: of the filled column; deviation 1 when it is constant */
    double *quantile;         /* quantile_normal: [n_quantiles] of the filled column */
    int n_quantiles;
    double *edge;             /* piecewise: [n_edges] of bins, rising, of transformed numbers */
    int n_edges;
    char **category;          /* [n_categories] canonical forms in byte order; NULL: numeric */
    int n_categories;
    int64_t joined;           /* values of training that are rare, and none of the categories */
    char **form;              /* of a model from before version 4, whose categories are as its table spelt them: */
    int *of_form;             /* [n_categories] canonical forms in byte order, and each one's category; else NULL */
} tri_column_stats;

typedef struct tri_preprocess {
    char *label_name;
    /* columns of each text: non-empty fields, joined by one space; the first without columns ends them */
    tri_texts text[TRI_TEXTS_MAX];
    tri_column_stats *column; /* [n_columns] */
    int n_columns;
    int width;                /* numbers of a row: the sum of the columns' widths */
    tri_vectors embedding;
    tri_columns vectors;      /* the numbers, as a model has to know them; `at` is owned */
    /* the label's column as a number to learn, and how it is transformed; NULL: classes. Of several labels: a 1 or a 0
     * for each, [n_classes] a row, and `missing` of them */
    tri_column_stats *target;
    /* several labels: what is between those of a cell; "": each has the column of its name. NULL: one label */
    char *separator;
    char **label;             /* [n_classes] the text of each class, in class order; of numbers names of outputs */
    char **label_form;        /* [n_classes] canonical forms, by the training table's decimal mark; one block */
    int n_classes;
    int label_by_index;       /* other labels may be class numbers */
    int as_spelt;             /* from before version 4: categories and labels are spelt as in the training table */
    tri_reading reading;      /* for columns and labels, not for texts. Owned */
} tri_preprocess;

/* What to fit; all borrowed. */
typedef struct tri_preprocess_spec {
    const char *label_name;
    tri_texts text[TRI_TEXTS_MAX];
    tri_texts columns;
    tri_texts categorical;    /* columns that are categorical, whatever their values */
    tri_texts hashed;         /* names and codes, of which each becomes `buckets` numbers */
    tri_texts boolean;        /* columns of yes and no */
    int buckets;
    int64_t min_rows;         /* of a category; fewer: it is rare. 1 or less: none is, and too many are an error */
    tri_texts label_list;     /* the classes' labels in order; empty: from the data */
    const char *positive_label; /* must be one of the labels; NULL: none. Does not affect the fit */
    int n_classes;            /* of numbers: outputs */
    int is_number;            /* the label's column has numbers to learn */
    tri_transform target;     /* how they are transformed */
    const double *level;      /* [n_classes] of quantiles; NULL */
    const char *separator;    /* several labels, as in tri_preprocess; "": label_name has their columns, by commas */
    tri_missing missing;
    tri_transform transform;
    tri_vectors vectors;
    int bins;                 /* piecewise: at most, of a column */
    tri_reading reading;      /* decimal 0: detected */
    tri_date_order date_order; /* AUTO: detected */
    tri_bad_rows bad_rows;    /* skip: a row with a bad number or label is ignored */
    const tri_division *parts; /* columns are fitted on the rows for training; NULL: on all */
} tri_preprocess_spec;

/* Columns: numeric if at least nine in ten of the non-missing values are decimal numbers, amounts or dates, in one
 * form (the others are then bad); otherwise categorical, with at most TRI_CATEGORIES_MAX distinct values (vectors:
 * TRI_CATEGORY_ROWS_MAX); with min_rows the most frequent of these. Labels: with label_list, a label's index in it,
 * or, if no listed label is a number, the class's number; else, if every label is an integer in 0..n_classes-1, that
 * number; otherwise the distinct texts, in byte order, of which there must be n_classes. Categories and labels are
 * compared by their canonical forms. With bad_rows skip, numbers are the classes if nine in ten labels are. TRI_DATA
 * with file:line:column for a value that is neither, with the column for values that can be read in several ways, or
 * with the existing columns if one is missing. The result does not depend on threads. */
tri_status tri__preprocess_fit(const tri_table *table, const tri_preprocess_spec *spec, int threads,
                               tri_preprocess **out);
void tri__preprocess_free(tri_preprocess *preprocess);
static inline void tri__preprocess_drop(tri_preprocess **at) { tri__preprocess_free(*at); }
/* labels.c: the class of a label that the user gave; TRI_USAGE, listing the labels, if there is none. */
tri_status tri__preprocess_positive(const tri_preprocess *preprocess, const char *label, int *class);
/* A table's own decimal mark and order of dates, where they differ from training's; 0 and AUTO leave them. */
void tri__preprocess_read_as(tri_preprocess *preprocess, char decimal, tri_date_order order);
/* Version 5 with hashed columns or booleans, else 4; also reads versions 1 to 3 (docs/guide/data.md), whose categories
 * and labels are joined with the canonical forms of values where only one of them has that form; written again they
 * stay of version 2 or 3. Real numbers round-trip if written with 17 digits. */
tri_json *tri__preprocess_json(const tri_preprocess *preprocess);
tri_status tri__preprocess_parse(const tri_json *json, const char *name, tri_preprocess **out);
/* Everything that a fit depends on other than the table. */
tri_json *tri__preprocess_spec_json(const tri_preprocess_spec *spec);
/* vectors.c: the edges of a column's bins from its n > 0 sorted transformed numbers. */
tri_status tri__edges_fit(const double *sorted, int64_t n, int bins, tri_column_stats *stats);
/* The place of a transformed number among the column's bins. */
float tri__edges_place(const tri_column_stats *stats, float x);
/* Adds a fitted column's numbers to those of a row; TRI_DATA where these are too many. */
tri_status tri__preprocess_widen(tri_preprocess *preprocess, const tri_column_stats *stats);
/* Describes fitted columns in preprocess->vectors. */
tri_status tri__vectors_make(tri_preprocess *preprocess);
/* How many texts there are. */
static inline int tri__preprocess_texts(const tri_texts text[static TRI_TEXTS_MAX]) {
    int n = 1;
    while (n < TRI_TEXTS_MAX && text[n].n) n++;
    return n;
}
/* Whether a number, or quantiles of it, are learned. */
static inline int tri__preprocess_is_number(const tri_preprocess *preprocess) {
    return preprocess->target && !preprocess->separator;
}
/* How many 4-byte words a row's label has. */
static inline int tri__target_words(const tri_preprocess *preprocess) {
    return preprocess->separator ? preprocess->n_classes : 1;
}
/* Whether the column has labels to learn. */
int tri__preprocess_learns(const tri_preprocess *preprocess, const char *column);
/* The column of the model after c that another column of the table gives. */
int tri__preprocess_next(const tri_preprocess *preprocess, int c);
/* A one-line summary: "age: numeric, 3 missing; city: 12 categories". The caller frees it; NULL if out of memory. */
char *tri__preprocess_describe(const tri_preprocess *preprocess);
