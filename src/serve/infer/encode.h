/* encode.h - rows of column values as token ids and numbers: exactly what a table with the same fields gives. */
#pragma once

#include "data/dataset/windows.h"
#include "data/text/tokenizer.h"
#include "serve/infer/drift.h"
#include "serve/infer/model.h"

/* The columns that a model reads, by name. */
typedef struct tri_row_form {
    const tri_preprocess *preprocess;  /* borrowed */
    const tri_tokenizer *tokenizer[2]; /* by encoder; borrowed */
    int n_texts, max_len;  /* max_len: ids of a text, of all its windows */
    tri_windows windows;
    int outputs;           /* numbers of an answer: classes, unless the model has others */
    const char **name;     /* [n_names] distinct: columns of texts, then tabular ones; borrowed from preprocess */
    int n_names;
    int *sorted;           /* [n_names] indices of name, in byte order */
    int *text[TRI_TEXTS_MAX]; /* [preprocess->text[t].n] indices of name */
    int *column;           /* [preprocess->n_columns] likewise */
    void *memory;          /* of the arrays */
    const tri_drift *drift; /* which needs columns' values; NULL: none does */
} tri_row_form;

tri_status tri__row_form_make(const tri_preprocess *preprocess, tri_tokenizer *const *tokenizer,
                              const tri_windows *windows, tri_row_form *form);
void tri__row_form_free(tri_row_form *form); /* accepts a zeroed one */

/* Encoded rows: what is computed from, room for the answer, and their place in a queue, so that submitting them
 * allocates nothing. */
struct tri_encoded {
    int64_t n, tokens;     /* rows; tokens of all texts, in all windows */
    int n_texts;
    int64_t *start;        /* [n * n_texts + 1] of row r's text t in ids: at r * n_texts + t */
    int64_t *tokens_to;    /* [n + 1] tokens of the rows before each, and of all */
    int32_t *ids;          /* [start[n * n_texts]], owned */
    float *numbers;        /* [n, preprocess->width] */
    float *probs;          /* [n, outputs] */
    float *column;         /* [n, preprocess->n_columns] values as tri__reference_value has them */
    tri_unseen *unseen;    /* [n_columns] values that training did not have; NULL: none; owned */
    /* batcher.c's, once submitted */
    tri_encoded *next;     /* in the queue */
    tri_answered *answered;
    void *context;
    double since, begun;   /* times of submission, of its first batch */
    int64_t taken, done;   /* rows given to batches; rows computed */
};

/* tri__model_encode; first: rows before these, for messages. */
tri_status tri__row_form_encode(const tri_row_form *form, const tri_row *rows, int64_t n, int64_t first,
                                tri_overlong overlong, tri_encoded **out);
