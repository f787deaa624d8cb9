/* field_values.h - single fields of a table as numbers, categories and labels. */
#pragma once

#include "data/dataset/preprocess.h"

/* Distinct texts in byte order. */
typedef struct tri_values {
    char **at;                /* [n], owned */
    int n;
    size_t room;
} tri_values;
/* 1: added; 0: already present; -1: out of memory. */
int tri__values_add(tri_values *values, tri_field_text text);
void tri__values_free(tri_values *values);

/* Transforms the number of a filled field; finite only if it fits. */
double tri__column_transform(const tri_column_stats *stats, double value);
/* The one-hot index of a categorical value; n_categories if it is missing, or did not occur in training. */
int tri__column_category(const tri_column_stats *stats, const tri_reading *reading, tri_field_text field);
/* Whether a column is read as text: of categories, or hashed. Any text is good there. */
static inline int tri__column_is_text(const tri_column_stats *stats) {
    return stats->category || stats->read_as.kind == TRI_FORM_HASHED;
}
/* A field as the column's numbers [stats->width]. TRI_NUMBER_GOOD, or why it is bad. */
tri_number tri__column_numbers(const tri_column_stats *stats, const tri_reading *reading, tri_field_text field,
                               float *numbers);
/* Fields joined by spaces, without the empty ones, in memory that grows. Begins zeroed. */
typedef struct tri_joined {
    char *at;                 /* [room], owned */
    size_t used, room;
} tri_joined;
int tri__joined_add(tri_joined *joined, tri_field_text field); /* 0: out of memory */

/* labels.c: the classes' texts from a table's column; see tri__preprocess_fit. Marks rows whose label is bad in bad
 * [rows] (with bad_rows fail: an error). */
tri_status tri__labels_fit(const tri_table *table, int column, const tri_preprocess_spec *spec, uint8_t *bad,
                           tri_preprocess *made);
/* Those of several labels, in cells or as columns. */
tri_status tri__labels_several(const tri_table *table, int column, const tri_preprocess_spec *spec,
                               tri_preprocess *made);
/* Takes the next label of a cell off its front; 0: there are no more. */
int tri__label_next(const char *separator, tri_field_text *cell, tri_field_text *label);
/* Finds the labels' canonical forms, once they are known. */
tri_status tri__labels_forms(tri_preprocess *made);
/* The class of a field; -1 if it is not a label. */
int32_t tri__labels_class(const tri_preprocess *preprocess, tri_field_text field);
/* Why a field is bad, as a phrase that follows its text: "is not a decimal number ...". */
typedef struct tri_bad_field {
    int column;               /* of the table */
    const char *what;
} tri_bad_field;

/* TRI_DATA "file:line:column: "text" in column "name" what". */
tri_status tri__field_fail(const tri_table *table, int64_t row, int column, const char *what);
/* The same text without the position. `out` is returned. */
const char *tri__field_words(const tri_table *table, int64_t row, int column, const char *what, char *out, size_t size);
/* "is none of the known labels: ...", or a text for a missing label. */
const char *tri__label_words(const tri_preprocess *preprocess, tri_field_text field, char *out, size_t size);

/* The table's columns that a preprocessing needs. */
typedef struct tri_fields {
    const tri_table *table;
    const tri_preprocess *preprocess;
    int *column;              /* [n_columns] of the table */
    int *text[TRI_TEXTS_MAX]; /* [preprocess->text[t].n] */
    int label;                /* -1: none */
    int *several;             /* [n_classes] columns of several labels that have one each, the first is `label`; NULL */
} tri_fields;

/* TRI_DATA, listing the existing columns, if one is missing. Without need_labels the label column may be missing. */
tri_status tri__fields_find(const tri_table *table, const tri_preprocess *preprocess, int need_labels, tri_fields *out);
void tri__fields_free(tri_fields *fields);
/* target.c: the class of a row's label, or the bits of the floats that are targets, as many as tri__target_words says.
 * 0: it is neither. out NULL: only that. */
int tri__label_read(const tri_fields *fields, int64_t row, int32_t *out);
/* What is wrong with it. */
tri_bad_field tri__label_fault(const tri_fields *fields, int64_t row, char *text, size_t size);
/* The numbers [width] of a row. 0 if a field is bad: `bad` tells which. */
int tri__fields_numbers(const tri_fields *fields, int64_t row, float *numbers, tri_bad_field *bad);
/* The non-empty fields of some columns, joined by spaces; several are in *joined, which is begun anew. A NULL text with
 * length 1: out of memory. */
tri_field_text tri__fields_join(const tri_table *table, int64_t row, const int *columns, int n, tri_joined *joined);
/* A row's text, likewise. */
tri_field_text tri__fields_text(const tri_fields *fields, int64_t row, int text, tri_joined *joined);
