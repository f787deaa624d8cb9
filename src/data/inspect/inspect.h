/* inspect.h - what a table holds, which part each column could play, and what could go wrong: for people, before they
 * train. docs/guide/inspecting.md says how kinds and parts are guessed. */
#ifndef TRI_DATA_INSPECT_INSPECT_H
#define TRI_DATA_INSPECT_INSPECT_H

#include "base/json.h"
#include "data/table/reading.h"
#include "data/text/tokenizer.h"

enum {
    TRI_SPLITS = 3,            /* train, valid, test */
    TRI_INSPECT_BATCH = 32,    /* rows of the batches whose padding is counted */
    TRI_INSPECT_LONG = 512,    /* tokens: what BERT and RoBERTa take at most */
    TRI_INSPECT_CLASSES = 1000 /* classes that are kept, at most */
};

typedef enum tri_inspect_kind {
    TRI_INSPECT_EMPTY,
    TRI_INSPECT_CONSTANT,
    TRI_INSPECT_ID,          /* names a row or a thing: no number, even when it is written with digits */
    TRI_INSPECT_NUMERIC,
    TRI_INSPECT_CATEGORICAL, /* few different values, not all numbers */
    TRI_INSPECT_TEXT,
    TRI_INSPECT_DATE,        /* dates or times */
    TRI_INSPECT_AMOUNT       /* numbers with a currency, a percent sign or thousands separators */
} tri_inspect_kind;

/* The part that a column plays, as configured or, where nothing is, as guessed. */
typedef enum tri_inspect_role {
    TRI_INSPECT_NO_ROLE,
    TRI_INSPECT_LABEL,
    TRI_INSPECT_PRIMARY,
    TRI_INSPECT_SECONDARY,
    TRI_INSPECT_TABULAR
} tri_inspect_role;

/* Lengths of a text column in tokens, those around the text ([CLS], [SEP]) included. */
typedef struct tri_inspect_lengths {
    int64_t rows;                   /* measured: all, or evenly spaced ones of a long table; 0: none */
    int estimated;                  /* by words: there was no tokenizer */
    int median, p95, max;
    int64_t n_long;                 /* above TRI_INSPECT_LONG */
    double waste_batch,
        waste_long; /* share of slots without a token, padded to the longest of a batch; to TRI_INSPECT_LONG */
} tri_inspect_lengths;

typedef struct tri_inspect_column {
    char *name;
    tri_inspect_kind kind;
    tri_inspect_role role;
    int candidate;                  /* it could be the label */
    char *left_out;                 /* why it plays no part; NULL: it plays one */
    int64_t missing[TRI_SPLITS]; /* empty, and but for texts one of those for missing values; -1: that table has no such
                                    column */
    /* of the table that is described (tri_inspection.base): */
    int64_t filled, distinct;
    int64_t marked;                 /* rows with a text for missing values; 0 in a text */
    int64_t numbers;                /* of the filled: decimal numbers */
    int64_t dates, amounts;         /* likewise */
    int whole, rising;              /* all of these are whole; each is above the one before */
    int key;                        /* nearly every value is another */
    double words;                   /* in the mean */
    char *example;                  /* one line, cut; "" when empty */
    tri_inspect_lengths lengths;    /* of text columns; the secondary text's with all that is joined to it */
    double rule;                    /* share of rows whose label this column alone gives; -1: not tried */
} tri_inspect_column;

typedef struct tri_inspect_class {
    char *label;
    int64_t rows[TRI_SPLITS];
} tri_inspect_class;

typedef struct tri_inspect_warning {
    const char *what;    /* a word for programs: "decides_label", "duplicate_rows", ... */
    int column;          /* -1: none */
    char *text;
} tri_inspect_warning;

typedef struct tri_inspection {
    struct {
        char *path;      /* NULL: there is no such table */
        int64_t rows, bad;
        char separator;  /* 0: JSON lines */
        int recognised;  /* the separator, which is not what the ending says */
    } split[TRI_SPLITS];
    char decimal;        /* '.' or ',' */
    int base;            /* the split that the columns describe: train, or the first there is */
    tri_inspect_column *column;
    int n_columns;
    int label, primary, secondary;     /* columns; -1: none */
    int *further;                      /* [n_further] columns joined to the secondary text, in their order */
    int n_further;
    int label_given, texts_given, tabular_given; /* by the configuration, not guessed */
    tri_inspect_class *classes;        /* of base's labels, in class order; those only in other tables come last */
    int n_classes, n_base_classes;     /* kept; of base, the others follow */
    double majority;     /* share of the largest class where rules were scored; -1: nowhere */
    int scored;          /* the split where they were scored; base: on half of its rows, learned from the other half */
    tri_inspect_warning *warning;
    int n_warnings;
} tri_inspection;

typedef struct tri_inspect_spec {
    const char *path[TRI_SPLITS];             /* NULL or "": none; at least one */
    const char *label, *primary, *secondary;  /* columns; NULL: guessed */
    char *const *further;                     /* [n_further] joined to the secondary text, which must be given then */
    int n_further;
    char *const *tabular;                     /* [n_tabular]; NULL: guessed */
    int n_tabular;
    const tri_tokenizer *tokenizer[2];        /* of the secondary text: [1], of all others [0]; NULL: estimated */
    tri_texts label_list;                     /* labels as given: they are never missing; empty: from the data */
    tri_reading reading;                      /* decimal 0: as recognised */
    char separator;                           /* 0: as recognised */
    int threads;
    int skip_bad_rows;
} tri_inspect_spec;

tri_status tri__inspect(const tri_inspect_spec *spec, tri_inspection **out);
void tri__inspect_free(tri_inspection *inspection);
/* A new reference; NULL when out of memory. */
tri_json *tri__inspect_json(const tri_inspection *inspection);

const char *tri__inspect_kind_name(tri_inspect_kind kind);
const char *tri__inspect_role_name(tri_inspect_role role); /* "" for none */
const char *tri__split_name(int split);

#endif
