/* dataset.h - a tokenised and preprocessed table, the input of training. Stored in a token store, a file named by the
 * hash of all its inputs, so that a second start, or another rank, need not tokenise. A store is not trusted: all of it
 * is checked when it is opened, and every row again when it is read. */
#pragma once

#include "base/log.h"
#include "data/dataset/preprocess.h"
#include "data/dataset/windows.h"
#include "data/text/tokenizer.h"

typedef struct tri_text_column {
    int64_t *start;         /* [n + 1] first token of each row, of those before it */
    int vocabulary;         /* ids are below it */
    int64_t *place;         /* [n] first token of each row in the store; NULL: start, from `first` on */
    int64_t first;
} tri_text_column;

struct tri_store;

typedef struct tri_dataset {
    int64_t n;                /* rows */
    int n_texts;
    tri_text_column text[TRI_TEXTS_MAX];
    int n_columns;            /* numbers of a row: numeric columns, and one for each category of a categorical one */
    union {
        int32_t *labels;      /* [n]; NULL when the table has no labels (predict) */
        float *targets;       /* [n, words] likewise, of numbers to learn, transformed; NaN: left out */
    };
    int words;                /* of a row's label: 1, or of several labels one for each */
    /* [n] factors of the rows' losses in training; NULL: all 1. The store has them after the numbers of each row */
    float *weight;
    uint8_t *part;            /* [n] tri_rows_for of a divided table; NULL: it is not divided, or this is a part */
    int64_t *row;             /* [n] of a part: its rows of the whole table; NULL: it is whole */
    const struct tri_store *store; /* token ids and numbers: tri__dataset_ids, tri__dataset_numbers */
    tri_windows windows;      /* how texts are packed: tri__dataset_packed */
    int64_t cut[TRI_TEXTS_MAX]; /* rows whose text has more windows than are kept; 0 where texts are not windowed */
    uint64_t digest;          /* of texts, numbers and labels: equal data has equal digests, in any file */
    int64_t memory;           /* bytes of memory used, not counting a store's file */
    int64_t n_bad;            /* skipped rows of the file */
    const tri_bad_row *bad;   /* [n_described] the first of them, at most 100 */
    int n_described;
    /* category columns with values that training did not have: tri__unseen_json of each; NULL: none. Of a divided table
     * its parts have it */
    const tri_json *unseen;
    int from_store;           /* 1: nothing was parsed or tokenised */
} tri_dataset;

typedef struct tri_dataset_spec {
    const char *path;                       /* the table */
    const tri_preprocess *preprocess;
    tri_tokenizer *const *tokenizer;        /* [2] by encoder (windows.readers) */
    int max_len;
    tri_windows windows;                    /* most above 1: texts longer than max_len keep what its windows hold */
    int need_labels; /* 0: if labels are absent, empty or unknown, the dataset has none */
    const char *weight;                     /* column of the rows' weights; NULL: none */
    int threads;                            /* the result is the same for any number */
    tri_bad_rows bad_rows;
    const tri_division *parts;            /* how the rows are divided; NULL: they are not */
    char separator;                         /* of the table's fields; 0: detected */
    size_t keep; /* tri_table_options.keep; 0: the default */
    const char *cache;                      /* folder of token stores; NULL: none, the data stays in memory */
    const struct tri_tables *tables;        /* tri_table_options.tables */
    const tri_stop *stop; /* a request to stop tokenising or waiting for a store's lock; may be NULL */
    const tri_log *log;
    /* Called before tokenising, with the number of rows including bad ones; NULL. */
    void (*counted)(void *context, int64_t rows);
    void *counted_context;
} tri_dataset_spec;

/* A text of zero pieces is still [CLS] [SEP]. */
tri_status tri__dataset_open(const tri_dataset_spec *spec, tri_dataset **out);
/* The same for training data: preprocessing is fitted on the table first (spec->preprocess is ignored, the policies for
 * bad rows and the parts must agree), or comes from the store with the rows. */
tri_status tri__dataset_fit(const tri_dataset_spec *spec, const tri_preprocess_spec *fit, tri_preprocess **preprocess,
                            tri_dataset **out);
/* The rows of one part of a divided table, in their order, as a dataset of its own: with the digest of a table that has
 * only them. The whole may be closed before it. */
tri_status tri__dataset_part(const tri_dataset *whole, tri_rows_for part, tri_dataset **out);
/* What a row's text becomes in a microbatch. */
tri_packed tri__dataset_packed(const tri_dataset *data, int text, int64_t row);
/* A row's token ids, as many as text[text].start gives, and its numbers [n_columns]. TRI_IO if the store was truncated
 * since it was opened, TRI_DATA if it was changed. Thread-safe. */
tri_status tri__dataset_ids(const tri_dataset *data, int text, int64_t row, int32_t *ids);
tri_status tri__dataset_numbers(const tri_dataset *data, int64_t row, float *numbers);
/* What a row weighs in the training loss: its weight times that of its class, by class [classes] (NULL: all 1). Of
 * several labels the loss of each is weighted, not the row. */
static inline double tri__row_weight(const tri_dataset *data, const double *by_class, int64_t row) {
    int by = by_class && data->words <= 1;
    return (data->weight ? data->weight[row] : 1.0) * (by ? by_class[data->labels ? data->labels[row] : 0] : 1.0);
}
/* Calls take() with a digest of each row, in order: of its texts, numbers and label. Errors as above. */
tri_status tri__dataset_row_digests(const tri_dataset *data, void (*take)(void *context, uint64_t digest),
                                    void *context);
void tri__dataset_close(tri_dataset *dataset);
/* {count, first: [{line, column, why}]}; a new reference. */
tri_json *tri__dataset_bad_json(const tri_dataset *dataset);
