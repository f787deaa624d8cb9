/* trees.c - XGBoost's trees are laid out breadth first, siblings side by side. A block of rows goes through one tree
 * after the other; a few of its rows at a time take each step together, so that one row's loads hide another's. */
#include "stack/trees.h"

/* Rows whose features stay in the first cache while all trees pass; rows that walk together. */
enum { BLOCK = 64, LANES = 8 };
enum { NODES_MAX = 1 << 30, FEATURES_MAX = 1 << 30, OUTPUTS_MAX = 1 << 16 }; /* nodes of all trees */
static const uint32_t MISSING_RIGHT = 1u << 31;

/* ---- reading ---- */

enum { LEFT, RIGHT, FEATURE, SPLIT, DEFAULT_LEFT, LISTS }; /* of a tree's nodes */
typedef struct reader {
    const char *name;
    tri_trees *to;
    tri_json *const *of[LISTS]; /* [n] of this tree */
    size_t n, room, value_room;
    uint32_t used;           /* nodes of the trees before this one */
    int tree;
} reader;

static tri_status wrong(const reader *r, const char *what) {
    return tri__fail(TRI_DATA, "%s: tree %d: %s", r->name, r->tree, what);
}

static tri_status find_lists(reader *r, const tri_json *from) {
    static const char *const names[LISTS] = {"left_children", "right_children", "split_indices", "split_conditions",
                                             "default_left"};
    r->n = tri__json_size(tri__json_get(from, names[LEFT]));
    for (int i = 0; i < LISTS; i++) {
        const tri_json *list = tri__json_get(from, names[i]);
        if (!r->n || tri__json_size(list) != r->n) return wrong(r, "its lists of nodes differ in length");
        r->of[i] = tri__json_begin(list);
    }
    tri__json_items(tri__json_get(from, "split_type"), type)
        if (tri__json_integer_value(type)) return wrong(r, "splits of categories are not supported");
    return TRI_OK;
}

/* A node of XGBoost's, and where its children go. No more nodes are taken than there are, so that a cycle ends. */
static tri_status take_node(reader *r, int64_t *order, uint32_t at, uint32_t *n) {
    int64_t from = order[at], child[2];
    tri_tree_node *node = &r->to->node[r->used + at];
    double split = tri__json_number_value(r->of[SPLIT][from]);
    const tri_json *is_left = r->of[DEFAULT_LEFT][from];
    uint32_t missing = tri__json_integer_value(is_left) || tri__json_is_true(is_left) ? 0 : MISSING_RIGHT;
    if (!tri__json_is_number(r->of[SPLIT][from]) || !isfinite((float)split))
        return wrong(r, "a split or a leaf is not a finite number");
    for (int i = LEFT; i <= RIGHT; i++) child[i] = tri__json_integer_value(r->of[i][from]);
    if (child[LEFT] == -1) {
        *node = (tri_tree_node){.split = NAN, .left = r->used + at};
        r->to->value[r->used + at] = (float)split;
        return TRI_OK;
    }
    int64_t feature = tri__json_integer_value(r->of[FEATURE][from]);
    if (feature < 0 || feature >= r->to->n_features) return wrong(r, "a node splits a feature that there is not");
    *node = (tri_tree_node){(float)split, (uint32_t)feature | missing, r->used + *n};
    for (int i = LEFT; i <= RIGHT; i++) {
        if (child[i] < 1 || child[i] >= (int64_t)r->n || *n >= r->n)
            return wrong(r, "its nodes do not form a tree");
        order[(*n)++] = child[i];
    }
    return TRI_OK;
}

static tri_status take_tree(reader *r, const tri_json *from) {
    TRI_OWNED(tri__free_at) int64_t *order = NULL; /* XGBoost's nodes, breadth first */
    TRI_TRY(find_lists(r, from));
    tri_trees *to = r->to;
    size_t need = r->used + r->n;
    if (need > NODES_MAX || !tri__grow(&to->node, &r->room, need, sizeof *to->node) ||
        !tri__grow(&to->value, &r->value_room, need, sizeof *to->value))
        return tri__fail(TRI_RESOURCE, "%s: out of memory for its trees", r->name);
    TRI_TRY(TRI_NEW(order, r->n + 1, "a tree's nodes"));
    struct tri_tree *tree = &to->tree[r->tree];
    uint32_t n = 1, level = 1;
    tree->root = r->used;
    for (uint32_t at = 0; at < n; at++) {
        if (at == level) level = n, tree->depth++;
        TRI_TRY(take_node(r, order, at, &n));
    }
    r->used += n;
    return TRI_OK;
}

/* A number that XGBoost writes as a text: "5E-1". */
static double number_in(const tri_json *object, const char *key) {
    const char *text = tri__text_in(object, key);
    TRI_OWNED(tri__json_drop) tri_json *value = NULL;
    if (!text || tri__json_parse_any(text, strlen(text), key, TRI_DATA, &value) != TRI_OK) return NAN;
    return tri__json_is_number(value) ? tri__json_number_value(value) : NAN;
}

/* The objective, and how many features and outputs there are. */
static tri_status take_form(const reader *r, const tri_json *learner) {
    static const struct {
        const char *name;
        tri_trees_link link;
    } rows[] = {{"reg:squarederror", TRI_LINK_NONE}, {"binary:logistic", TRI_LINK_SIGMOID},
                {"multi:softprob", TRI_LINK_SOFTMAX}};
    enum { ROWS = sizeof rows / sizeof *rows };
    const tri_json *form = tri__json_get(learner, "learner_model_param");
    const char *objective = tri__text_in(tri__json_get(learner, "objective"), "name"),
               *booster = tri__text_in(tri__json_get(learner, "gradient_booster"), "name");
    double features = number_in(form, "num_feature"), classes = number_in(form, "num_class"),
           base = number_in(form, "base_score");
    int row = 0;
    while (objective && row < ROWS && strcmp(objective, rows[row].name)) row++;
    if (!objective || row == ROWS || !booster || strcmp(booster, "gbtree"))
        return tri__fail(TRI_DATA, "%s: not a model of XGBoost's gbtree that is evaluated here (objective %.40s)",
                         r->name, objective ? objective : "missing");
    r->to->link = rows[row].link;
    if (r->to->link == TRI_LINK_SIGMOID) base = log(base / (1 - base));
    int several = r->to->link == TRI_LINK_SOFTMAX, is_whole = features == floor(features) && classes == floor(classes);
    if (!isfinite(base) || !is_whole || !(features >= 1 && features <= FEATURES_MAX) ||
        !(several ? classes >= 2 && classes <= OUTPUTS_MAX : classes == 0 || classes == 1))
        return tri__fail(TRI_DATA, "%s: num_feature, num_class or base_score is wrong", r->name);
    r->to->n_features = (int)features, r->to->n_outputs = several ? (int)classes : 1, r->to->base = (float)base;
    return TRI_OK;
}

tri_status tri__trees_parse(const tri_json *model, const char *name, tri_trees *out) {
    reader r = {.name = name, .to = out};
    const tri_json *learner = tri__json_get(model, "learner"),
                   *booster = tri__json_get(tri__json_get(learner, "gradient_booster"), "model"),
                   *trees = tri__json_get(booster, "trees"), *info = tri__json_get(booster, "tree_info");
    size_t n = tri__json_size(trees);
    *out = (tri_trees){0};
    TRI_TRY(take_form(&r, learner));
    if (tri__json_size(info) != n || n > NODES_MAX) return tri__fail(TRI_DATA, "%s: tree_info is wrong", name);
    TRI_TRY(TRI_NEW(out->tree, n + 1, "trees"));
    tri__json_each(trees, i, tree) {
        tri_json_int output = tri__json_integer_value(tri__json_at(info, i));
        r.tree = (int)i;
        if (output < 0 || output >= out->n_outputs) return wrong(&r, "it belongs to no output");
        out->tree[i].output = (int)output;
        TRI_TRY(take_tree(&r, tree));
        out->n++;
    }
    return TRI_OK;
}

void tri__trees_free(tri_trees *trees) {
    TRI_FREE(trees->node, trees->value, trees->tree);
    *trees = (tri_trees){0};
}

/* ---- predicting ---- */

/* Adds a tree's leaves to out [lanes, outputs]. */
static inline __attribute__((always_inline)) void walk(const tri_trees *t, const struct tri_tree *tree,
                                                       const float *rows, int64_t stride, int lanes, float *out) {
    const tri_tree_node *node = t->node;
    uint32_t at[LANES];
    for (int l = 0; l < lanes; l++) at[l] = tree->root;
    for (int d = 0; d < tree->depth; d++)
        for (int l = 0; l < lanes; l++) {
            tri_tree_node here = node[at[l]];
            float x = rows[l * stride + (here.feature & ~MISSING_RIGHT)];
            at[l] = here.left + ((x >= here.split) | (uint32_t)((x != x) & (int)(here.feature >> 31)));
        }
    for (int l = 0; l < lanes; l++) out[l * t->n_outputs + tree->output] += t->value[at[l]];
}

static void link_row(const tri_trees *t, float *out) {
    float most = out[0], sum = 0;
    if (t->link == TRI_LINK_SIGMOID) out[0] = 1 / (1 + expf(-out[0]));
    if (t->link != TRI_LINK_SOFTMAX) return;
    for (int c = 1; c < t->n_outputs; c++) most = fmaxf(most, out[c]);
    for (int c = 0; c < t->n_outputs; c++) sum += out[c] = expf(out[c] - most);
    for (int c = 0; c < t->n_outputs; c++) out[c] /= sum;
}

void tri__trees_predict(const tri_trees *t, const float *rows, int64_t n, int64_t stride, float *out) {
    int64_t outputs = t->n_outputs;
    for (int64_t i = 0; i < n * outputs; i++) out[i] = t->base;
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t end = n - first < BLOCK ? n : first + BLOCK;
        for (const struct tri_tree *tree = t->tree; tree < t->tree + t->n; tree++)
            for (int64_t row = first; row < end; row += LANES)
                if (end - row >= LANES) walk(t, tree, rows + row * stride, stride, LANES, out + row * outputs);
                else walk(t, tree, rows + row * stride, stride, (int)(end - row), out + row * outputs);
    }
    for (int64_t i = 0; i < n; i++) link_row(t, out + i * outputs);
}
