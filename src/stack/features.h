/* features.h - what a head predicts from, of a row as a model takes it: its outputs for the row, the table's numbers,
 * and terms of the texts, words and pairs of words, by TF-IDF. Words are made of the encoder's tokens, so that tables
 * and requests cannot differ.
 *
 *   dense    the outputs: the log-odds of the second of two classes, log probabilities of several, a number; then the
 *            numbers of numeric columns. All standardised by training rows; NaN: missing
 *   sparse   a 1 for a category of a column that becomes a vector; then terms: (1 + log of how often) times
 *            log((1 + rows) / (1 + rows that have it)) + 1, of length 1 for each text. A term is known by its hash among
 *            2^22, and kept if two rows have it and it is among the most frequent */
#pragma once

#include "data/dataset/dataset.h"
#include "stack/matrix.h"

enum { TRI_TERMS_MAX = 20000, TRI_TERMS_OF_TREES = 1000 };

/* A row; all borrowed. */
typedef struct tri_stack_row {
    const float *outputs;    /* probabilities of classes, or a number in units of training */
    const float *numbers;
    const int32_t *const *ids; /* [n_texts] */
    const int64_t *n_ids;
} tri_stack_row;

typedef struct tri_features {
    int n_classes, n_outputs, n_numbers, n_texts; /* n_classes 0: a number */
    int32_t *categories;     /* [n_numbers] of a column that becomes a vector, one for missing ones included; 0: a number */
    struct tri_feature_text {
        uint8_t *continues;  /* [n] whether a token belongs to the word of the one before it */
        int n, before, after; /* ids; special tokens around a text */
    } *text;                 /* [n_texts] */
    int n_dense, n_categories, n_sparse, n_terms;
    double *mean, *scale;    /* [n_dense] */
    uint32_t *term;          /* [n_terms] the most frequent first */
    float *idf;
    uint64_t *found;         /* [n_terms] term and its place, in order */
    /* of the row that was taken last: */
    float *dense;            /* [n_dense] */
    uint32_t *bucket;        /* scratch of a text's terms */
    int32_t *index;          /* [n] */
    float *value;
    int64_t n;
    size_t bucket_room, index_room, value_room;
} tri_features;

/* For the rows of a model; tokenizer [n_texts]. Terms and moments are not known yet. Whatever it returns, the caller
 * frees *out. */
tri_status tri__features_open(const tri_preprocess *preprocess, tri_tokenizer *const *tokenizer, int n_texts,
                              tri_features *out);
void tri__features_free(tri_features *features); /* accepts a zeroed one */
/* Chooses the terms; then finds mean and deviation of dense features. outputs [data->n, outputs of the model]. */
tri_status tri__features_fit(tri_features *features, const tri_dataset *data, const float *outputs);
/* How many features trees are given: the first ones. */
int tri__features_of_trees(const tri_features *features);
/* Fills in dense, index, value and n. */
tri_status tri__features_take(tri_features *features, const tri_stack_row *row);
/* All rows of a table: calls take() after each has been taken. */
tri_status tri__features_rows(tri_features *features, const tri_dataset *data, const float *outputs,
                              tri_status (*take)(void *context, int64_t row), void *context);
/* {outputs, numbers, mean, scale, terms, idf}, and back into opened features. */
tri_json *tri__features_json(const tri_features *features);
tri_status tri__features_parse(const tri_json *object, const char *name, tri_features *features);
