/* stack.h - the stacked head of a model, which stack.json of its checkpoint has (docs/guide/stacking.md): the answer to a
 * row from the model's own outputs and the row's features. */
#pragma once

#include "stack/features.h"
#include "stack/linear.h"
#include "stack/trees.h"

#define TRI_STACK_FILE "stack.json"

typedef struct tri_stack {
    tri_features features;
    int is_trees;
    tri_linear linear;
    tri_trees trees;
    float *x;                /* [trees.n_features] a row as trees take it; all missing between rows */
    tri_json *file;          /* "head", "decision" and all else but features and the head's numbers; owned */
} tri_stack;

/* `file` as tri__stack_json made it, for the model that it lies beside. TRI_DATA where it does not fit. */
tri_status tri__stack_parse(const tri_json *file, const char *name, const tri_preprocess *preprocess,
                            tri_tokenizer *const *tokenizer, int n_texts, tri_stack **out);
void tri__stack_free(tri_stack *stack); /* accepts NULL */
/* {format, version, head, features, linear or trees}. */
tri_json *tri__stack_json(const tri_features *features, const tri_linear *linear, const tri_json *trees);
/* The head of `file`, for features that are known. Frees what it had. */
tri_status tri__stack_head(tri_stack *stack, const tri_json *file, const char *name);
/* Replaces a row's outputs, which outputs points to, by the head's answer: probabilities, or a number in units of
 * training. Not for several threads at once. */
tri_status tri__stack_answer(tri_stack *stack, const tri_stack_row *row, float *outputs);
/* The same from features of a row: dense [n_dense], and n sparse ones. */
void tri__stack_predict(tri_stack *stack, const float *dense, const int32_t *index, const float *value, int64_t n,
                        float *answer);
/* Of all rows of a table: outputs [data->n, outputs of the model]. */
tri_status tri__stack_table(tri_stack *stack, const tri_dataset *data, float *outputs);
