/* stack.h - the stacked head of a model, which stack.json of its checkpoint has (docs/guide/stacking.md): the answer to
 * a row from the model's own outputs and the row's features. */
#pragma once

#include "stack/features.h"
#include "stack/linear.h"
#include "stack/trees.h"

#define TRI_STACK_FILE "stack.json"

typedef struct tri_stack {
    tri_features features;
    tri_linear_head linear;       /* at NULL: trees */
    tri_trees trees;
    float *x;                /* [trees.n_features] a row as trees take it; all missing between rows */
    tri_matrix row;          /* scratch */
    tri_json *decision;      /* of its answers; NULL: none; owned */
} tri_stack;

/* `file` as tri__stack_json made it, for the model that it lies beside. TRI_DATA where it does not fit. */
tri_status tri__stack_parse(const tri_json *file, const char *name, const tri_preprocess *preprocess,
                            tri_tokenizer *const *tokenizer, int n_texts, tri_stack **out);
void tri__stack_free(tri_stack *stack); /* accepts NULL */
static inline void tri__stack_drop(tri_stack **at) { tri__stack_free(*at); }
/* {format, version, terms: how many, numbers: what features know and a linear head's, trees}. */
tri_json *tri__stack_json(const tri_features *features, const tri_linear_head *linear, const tri_json *trees);
/* A head's answer to row `row` of x: probabilities, or a number in units of training. */
void tri__stack_predict(tri_stack *stack, const tri_matrix *x, int64_t row, float *answer);
/* tri_features_each, of a tri_stack: the answer replaces the row's outputs. Not for several threads at once. */
tri_features_each tri__stack_answer;
