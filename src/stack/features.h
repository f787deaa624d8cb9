/* features.h - what a head predicts from, of a row as a model takes it: its outputs for the row, the table's numbers,
 * and terms of the texts, words and pairs of words, by TF-IDF. Words are made of the encoder's tokens, so that tables
 * and requests cannot differ.
 *
 *   dense    the outputs: the log-odds of the second of two classes, log probabilities of several, a number; then the
 *            numbers of numeric columns. All standardised by training rows; NaN: missing
 *   sparse   a 1 for a category of a column that becomes a vector; then terms: (1 + log of how often) times
 *            log((1 + rows) / (1 + rows that have it)) + 1, of length 1 for each text. A term is known by its hash
 *            among 2^22, and kept if two rows have it and it is among the most frequent */
#pragma once

#include "data/dataset/dataset.h"
#include "stack/matrix.h"

enum { TRI_TERMS_MAX = 20000, TRI_TERMS_OF_TREES = 1000 };

/* A row; all borrowed. */
typedef struct tri_stack_row {
    float *outputs;          /* probabilities of classes, or a number in units of training */
    const float *numbers;
    const int32_t *const *ids; /* [n_texts] */
    const int64_t *n_ids;
} tri_stack_row;

typedef struct tri_features {
    int n_classes, n_outputs, n_numbers, n_texts; /* n_classes 0: a number */
    int32_t *categories;     /* [n_numbers] of a column that becomes a vector, and one for missing ones; 0: a number */
    struct tri_feature_text {
        uint8_t *continues;  /* [n] whether a token belongs to the word of the one before it */
        int n, before, after; /* ids; special tokens around a text */
    } *text;                 /* [n_texts] */
    int n_dense, n_categories, n_terms;
    /* [2 * (n_dense + n_terms)] means and deviations of dense features; terms, the most frequent first, and their
     * factors */
    double *known;
    uint64_t *found;         /* [n_terms] term and its place, in order */
    uint64_t *bucket;        /* scratch of a text's terms */
    size_t bucket_room;
    tri_matrix *to;          /* what rows are added to; borrowed */
    int32_t *counts;         /* while a fit counts the rows of each term; NULL: not now */
} tri_features;

/* For the rows of a model; tokenizer [n_texts]. Nothing is known yet. Whatever it returns, the caller frees *out. */
tri_status tri__features_open(const tri_preprocess *preprocess, tri_tokenizer *const *tokenizer, int n_texts,
                              tri_features *out);
void tri__features_free(tri_features *features); /* accepts a zeroed one */
/* Takes what is known of n_terms terms and of dense features, which is copied. TRI_DATA where it cannot be. */
tri_status tri__features_know(tri_features *features, const double *known, int n_terms, const char *name);
/* Finds it: chooses terms, then mean and deviation of dense features. outputs: of the model, for the rows of data. */
tri_status tri__features_fit(tri_features *features, const tri_dataset *data, float *outputs);
/* How many features there are, and how many of them trees are given: the first ones. */
int tri__features_count(const tri_features *features);
int tri__features_of_trees(const tri_features *features);
/* Calls each() with the rows of a table. */
typedef tri_status tri_features_each(void *context, const tri_stack_row *row);
/* tri_features_each, of tri_features: adds a row, whose features they become, to the matrix features->to, which begins
 * zeroed. */
tri_features_each tri__features_add;
tri_status tri__features_rows(const tri_features *features, const tri_dataset *data, float *outputs,
                              tri_features_each *each, void *context);
