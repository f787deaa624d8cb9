/* trees.h - boosted trees as XGBoost's JSON has them, evaluated without it. */
#pragma once

#include "base/json.h"

/* What makes predictions of margins. */
typedef enum tri_trees_link { TRI_LINK_NONE, TRI_LINK_SIGMOID, TRI_LINK_SOFTMAX } tri_trees_link;

/* A node goes left where x < split. The sign bit of `feature`: a missing x (NaN) goes right. `left` is the child, the
 * right one follows it; a leaf is its own child, and its split NaN, so that a walk stays in it. */
typedef struct tri_tree_node {
    float split;
    uint32_t feature, left;
} tri_tree_node;

typedef struct tri_trees {
    tri_tree_node *node;  /* of all trees, each breadth first */
    float *value;         /* of leaves, by node */
    struct tri_tree {
        uint32_t root;
        int depth, output;
    } *tree;              /* [n], in the order in which their values are added */
    int n, n_features, n_outputs;
    tri_trees_link link;
    float base;           /* what margins begin with */
} tri_trees;

/* `model`: what XGBoosterSaveModelToBuffer writes for gbtree with one of the objectives reg:squarederror,
 * binary:logistic and multi:softprob. `name` of messages. TRI_DATA for anything else, whatever was done to it. Whatever
 * it returns, the caller frees *out. */
tri_status tri__trees_parse(const tri_json *model, const char *name, tri_trees *out);
void tri__trees_free(tri_trees *trees); /* accepts a zeroed one */
/* rows [n, stride], of which the first n_features are read; NaN is missing. out [n, n_outputs]: XGBoosterPredict's, and
 * in the same order of additions its margins. */
void tri__trees_predict(const tri_trees *trees, const float *rows, int64_t n, int64_t stride, float *out);
