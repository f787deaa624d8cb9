/* inspect_parts.h - the steps of an inspection, one file each. They share the tables and the results so far. */
#pragma once

#include "data/dataset/tally.h"
#include "data/inspect/inspect.h"

typedef struct tri_inspector {
    const tri_inspect_spec *spec;
    tri_table *table[TRI_SPLITS];     /* NULL: none */
    int *at[TRI_SPLITS];              /* [n_columns], each column's index in that table; -1: none */
    int32_t *klass[TRI_SPLITS];       /* [rows] each row's class; -1: no label. NULL without a label */
    tri_reading reading;              /* the spec's, with the decimal mark resolved */
    char known_mark;                  /* tri_decimal.known */
    tri_inspection *out;
} tri_inspector;

/* A field without the blanks around it. */
tri_field_text tri__inspect_field(const tri_inspector *in, int split, int64_t row, int column);
uint64_t tri__inspect_hash(tri_field_text field);
/* Counts words between blanks, and estimates the tokens of a subword vocabulary. */
int64_t tri__inspect_words(tri_field_text field, int64_t *pieces);
/* Whether a name contains one of the words (NULL-terminated list) as a whole word: "row_id", "rowId" and "Row ID"
 * contain "id". */
int tri__inspect_named(const char *name, const char *const *words);
/* Whether a value is missing. A text is missing only if empty. */
int tri__inspect_missing(const tri_inspector *in, int column, tri_field_text field);
/* TRI_RESOURCE, naming the described table. */
tri_status tri__inspect_no_memory(const tri_inspector *in);
/* Adds a warning. */
tri_status tri__inspect_warn(tri_inspector *in, const char *what, int column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

tri_status tri__inspect_columns(tri_inspector *in);  /* counts and kinds */
tri_status tri__inspect_roles(tri_inspector *in);    /* label, texts, tabular columns */
tri_status tri__inspect_numbers(tri_inspector *in);  /* a label of numbers */
tri_status tri__inspect_classes(tri_inspector *in);  /* label balance */
tri_status tri__inspect_lengths(tri_inspector *in);  /* tokens and padding */
tri_status tri__inspect_rules(tri_inspector *in);    /* columns that decide the label */
tri_status tri__inspect_warnings(tri_inspector *in); /* all warnings, including those from rules */
