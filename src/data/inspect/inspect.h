/* inspect.h - describes a table before training: its content, the role each column could have, and possible problems.
 * docs/guide/inspecting.md explains how kinds and roles are guessed. */
#pragma once

#include "data/table/value_form.h"
#include "data/text/tokenizer.h"
#include "layout/texts.h"

enum { TRI_INSPECT_QUARTILES = 5, TRI_SPLITS = 3 }; /* least, quarters, most; train, valid, test */
enum { TRI_INSPECT_BATCH = 32 };             /* batch size for which padding is computed */
enum { TRI_INSPECT_LONG = 512 };             /* tokens: the limit of BERT and RoBERTa */
enum { TRI_INSPECT_CLASSES = 1000 };         /* most classes that are kept */
enum { TRI_INSPECT_MEMORY = 1 << 30 }; /* bytes for what is kept of rows: a table's first rows that fit are described */
/* Of a row: its place, its class and its hash; of each field: its place, and its value's place among the distinct ones.
 * A hash among others takes up to 80 bytes. */
enum { TRI_INSPECT_ROW = 8 + 4 + 80, TRI_INSPECT_FIELD = 4 + 80 };

/* ID: identifies a row or an item: not a number, even if it consists of digits. CATEGORICAL: few distinct values, not
 * all numbers. From DATE on, tri_inspect_column.form says how it is read. AMOUNT: numbers with a currency, a percent
 * sign or thousands separators. BOOLEAN: yes and no. NAME: few words each, many values: hashed; CODE: the same, most
 * with digits. */
typedef enum tri_inspect_kind {
    TRI_INSPECT_EMPTY, TRI_INSPECT_CONSTANT, TRI_INSPECT_ID, TRI_INSPECT_NUMERIC, TRI_INSPECT_CATEGORICAL,
    TRI_INSPECT_TEXT, TRI_INSPECT_DATE, TRI_INSPECT_AMOUNT, TRI_INSPECT_BOOLEAN, TRI_INSPECT_NAME, TRI_INSPECT_CODE
} tri_inspect_kind;

/* The role of a column: configured, or else guessed. FURTHER: a text beyond the second. */
typedef enum tri_inspect_role {
    TRI_INSPECT_NO_ROLE, TRI_INSPECT_LABEL, TRI_INSPECT_PRIMARY, TRI_INSPECT_SECONDARY, TRI_INSPECT_TABULAR,
    TRI_INSPECT_FURTHER
} tri_inspect_role;

/* Lengths of a text column in tokens, including special tokens ([CLS], [SEP]). */
typedef struct tri_inspect_lengths {
    int64_t rows;                   /* rows measured: all, or evenly spaced rows of a long table; 0: none */
    int estimated;                  /* from words, without a tokenizer */
    int median, p95, max;
    int64_t n_long;                 /* above TRI_INSPECT_LONG */
    double waste_batch, waste_long; /* share of padding if padded to the longest of a batch; to TRI_INSPECT_LONG */
} tri_inspect_lengths;

typedef struct tri_inspect_column {
    char *name;
    tri_inspect_kind kind;
    tri_inspect_role role;
    int candidate;                  /* it could be the label; 2: its name says so */
    char *left_out;                 /* why it is unused; NULL: it is used */
    char *reason;                   /* why a tabular column is what it is, where its values do not show it; else NULL */
    /* empty values, and except in texts those that mean "missing"; -1: that table has no such column */
    int64_t missing[TRI_SPLITS];
    /* of the described table (tri_inspection.base): */
    int64_t filled, distinct;
    int64_t marked;                 /* values that mean "missing"; 0 in a text */
    int64_t numbers, dates, amounts, digits; /* decimal numbers etc. among the filled values; values with a digit */
    int64_t yes, no;                /* values that mean these, in words or as 1 and 0 */
    double pieces;                  /* mean per value: estimated tokens */
    tri_form_found form;            /* of a date or amount: how training reads it, or why it cannot */
    int whole, rising;              /* all numbers are integers; each is larger than the one before */
    int key;                        /* nearly all values are distinct */
    double words;                   /* mean per value */
    char *example;                  /* one line, truncated; "" if empty */
    tri_inspect_lengths lengths;    /* of text columns; for the secondary text, including joined columns */
    double rule;                    /* share of rows whose label this column alone predicts; -1: not tried */
} tri_inspect_column;

typedef struct tri_inspect_class {
    char *label;
    int64_t rows[TRI_SPLITS];
} tri_inspect_class;

/* The numbers of a label in one table. */
typedef struct tri_inspect_numbers {
    int64_t rows; /* that have one */
    double mean, deviation, at[TRI_INSPECT_QUARTILES];
} tri_inspect_numbers;

typedef struct tri_inspect_warning {
    const char *what;    /* machine-readable id: "decides_label", "duplicate_rows", ... */
    int column;          /* -1: none */
    char *text;
} tri_inspect_warning;

typedef struct tri_inspection {
    struct {
        char *path;      /* NULL: there is no such table */
        int64_t rows, bad;
        int cut;         /* rows are the first ones: more would not fit in memory */
        char separator;  /* 0: JSON lines */
        int recognised;  /* the separator was detected, and differs from what the extension implies */
    } split[TRI_SPLITS];
    char decimal;        /* '.' or ',' */
    int base;            /* the split described by `columns`: train, or the first that exists */
    tri_inspect_column *column;
    int n_columns;
    int label, primary, secondary;     /* columns; -1: none */
    int *further;                      /* [n_further] columns joined to the secondary text, in their order */
    int n_further;
    int text[TRI_TEXTS_MAX], n_texts;  /* columns of all texts, the primary one first */
    int label_given, texts_given, tabular_given; /* configured, not guessed */
    tri_inspect_class *classes;        /* of base's labels, in class order; those only in other tables come last */
    int n_several;       /* different labels of the label's cells, where these hold several; 0: they do not */
    char several[2];     /* what is between them; "": they have columns */
    int n_classes, n_base_classes;     /* kept; those of base, which come first */
    int is_number;       /* the label is numbers, and has no classes */
    tri_inspect_numbers numbers[TRI_SPLITS];
    double majority;     /* share of the largest class in the scored split; -1: none was scored */
    int scored; /* the split on which rules were scored; base: on half of its rows, learned from the other half */
    tri_inspect_warning *warning;
    int n_warnings;
} tri_inspection;

typedef struct tri_inspect_spec {
    const char *path[TRI_SPLITS];             /* NULL or "": none; at least one */
    const char *label, *primary, *secondary;  /* columns; NULL: guessed */
    int has_columns;                          /* label has several columns, between commas */
    char *const *further;                     /* [n_further], joined to the secondary text, which must then be given */
    int n_further;
    tri_texts texts;                          /* of more than two texts all; empty: guessed */
    char *const *tabular;                     /* [n_tabular]; NULL: guessed */
    int n_tabular;
    int64_t buckets;                          /* of hashed columns */
    int is_number;                            /* the label's: 1 or 0; -1: guessed from its values */
    const tri_tokenizer *tokenizer[2]; /* [1] for the secondary text, [0] for all others; NULL: lengths are estimated */
    tri_texts label_list;                     /* given labels, which never mean "missing"; empty: from the data */
    tri_reading reading;                      /* decimal 0: as recognised */
    tri_date_order date_order;                /* AUTO: as recognised */
    char separator;                           /* 0: as recognised */
    int threads;
    int skip_bad_rows;
    const struct tri_tables *tables;          /* tri_table_options.tables */
    size_t memory;                            /* for what is kept of rows; 0: TRI_INSPECT_MEMORY */
} tri_inspect_spec;

tri_status tri__inspect(const tri_inspect_spec *spec, tri_inspection **out);
void tri__inspect_free(tri_inspection *inspection);
/* A new reference; NULL if out of memory. */
tri_json *tri__inspect_json(const tri_inspection *inspection);
tri_json *tri__inspect_texts(const tri_inspection *inspection); /* names of their columns */

/* Whether it has a form that training can read. */
static inline int tri__inspect_has_form(const tri_inspect_column *c) {
    return c->kind >= TRI_INSPECT_DATE && !c->form.why[0];
}
/* Whether it is a category of many values, or an id that comes again often enough to be one: rare ones are joined. */
static inline int tri__inspect_joins(const tri_inspect_column *c) {
    enum { FEW = 50, ROWS_AN_ID = 20 };
    if (c->kind == TRI_INSPECT_ID) return c->distinct > 1 && ROWS_AN_ID * c->distinct <= c->filled;
    return c->kind == TRI_INSPECT_CATEGORICAL && c->distinct > FEW;
}
/* Whether there is a warning of this id. */
int tri__inspect_warned(const tri_inspection *inspection, const char *what);

const char *tri__inspect_kind_name(tri_inspect_kind kind);
const char *tri__inspect_role_name(tri_inspect_role role); /* "" for none */
const char *tri__split_name(int split);
