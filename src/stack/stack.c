/* stack.c - stack.json, and the head that it has. */
#include "stack/stack.h"

static const char FORMAT[] = "trident-stack";
enum { VERSION = 1 };

tri_json *tri__stack_json(const tri_features *f, const tri_linear *linear, const tri_json *trees) {
    tri_json *file = tri__json_pack("{s:s, s:i, s:s, s:o}", "format", FORMAT, "version", (int)VERSION, "head",
                                    trees ? "trees" : "linear", "features", tri__features_json(f));
    tri_json *weights = trees ? NULL : tri__json_array();
    for (int64_t i = 0; weights && i < ((int64_t)linear->n_features + 1) * linear->n_outputs; i++)
        tri__json_append_new(weights, tri__json_real(linear->at[i]));
    if (trees) tri__json_set(file, "trees", trees);
    else tri__json_set_new(file, "linear", weights);
    return file;
}

static tri_status read_linear(tri_stack *s, const tri_json *weights, const char *name) {
    tri_linear *m = &s->linear;
    *m = (tri_linear){.n_features = s->features.n_dense + s->features.n_sparse, .n_outputs = s->features.n_outputs};
    size_t n = ((size_t)m->n_features + 1) * (size_t)m->n_outputs;
    TRI_TRY(TRI_NEW(m->at, n, "a linear head"));
    int right = tri__json_size(weights) == n;
    for (size_t i = 0; i < n && right; i++) {
        m->at[i] = tri__json_number_value(tri__json_at(weights, i));
        right = tri__json_is_number(tri__json_at(weights, i)) && isfinite(m->at[i]);
    }
    return right ? TRI_OK : tri__fail(TRI_DATA, "%s: linear: %zu finite numbers are expected", name, n);
}

static tri_status read_trees(tri_stack *s, const tri_json *model, const char *name) {
    TRI_TRY(tri__trees_parse(model, name, &s->trees));
    const tri_features *f = &s->features;
    tri_trees_link link = !f->n_classes ? TRI_LINK_NONE : f->n_classes > 2 ? TRI_LINK_SOFTMAX : TRI_LINK_SIGMOID;
    if (s->trees.n_features != tri__features_of_trees(f) || s->trees.n_outputs != f->n_outputs || s->trees.link != link)
        return tri__fail(TRI_DATA, "%s: its trees are not for the model beside it", name);
    TRI_TRY(TRI_NEW(s->x, s->trees.n_features, "trees' features"));
    for (int i = 0; i < s->trees.n_features; i++) s->x[i] = NAN;
    return TRI_OK;
}

tri_status tri__stack_head(tri_stack *s, const tri_json *file, const char *name) {
    TRI_FREE(s->linear.at, s->x);
    s->linear.at = NULL, s->x = NULL;
    tri__trees_free(&s->trees);
    const tri_json *trees = tri__json_get(file, "trees");
    s->is_trees = trees != NULL;
    return trees ? read_trees(s, trees, name) : read_linear(s, tri__json_get(file, "linear"), name);
}

/* What others than this file read of it. */
static tri_json *rest_of(const tri_json *file) {
    static const char *const own[] = {"features", "linear", "trees"};
    tri_json *rest = tri__json_object();
    tri__json_members(file, m) {
        int is_own = 0;
        for (int i = 0; i < 3; i++) is_own |= !strcmp(m->key, own[i]);
        if (!is_own) tri__json_set(rest, m->key, m->value);
    }
    return rest;
}

static tri_status read_file(tri_stack *s, const tri_json *file, const char *name, const tri_preprocess *preprocess,
                            tri_tokenizer *const *tokenizer, int n_texts) {
    const char *format = tri__text_in(file, "format");
    if (!format || strcmp(format, FORMAT) || tri__whole_in(file, "version") != VERSION)
        return tri__fail(TRI_DATA, "%s: its format is not %s, version %d", name, FORMAT, VERSION);
    if (preprocess->separator || preprocess->n_classes > TRI_STACK_CLASSES)
        return tri__fail(TRI_DATA, "%s: the model beside it has no stacked head", name);
    TRI_TRY(tri__features_open(preprocess, tokenizer, n_texts, &s->features));
    TRI_TRY(tri__features_parse(tri__json_get(file, "features"), name, &s->features));
    TRI_TRY(tri__stack_head(s, file, name));
    s->file = rest_of(file);
    return tri__json_is_whole(s->file) ? TRI_OK : tri__fail(TRI_RESOURCE, "%s: out of memory", name);
}

tri_status tri__stack_parse(const tri_json *file, const char *name, const tri_preprocess *preprocess,
                            tri_tokenizer *const *tokenizer, int n_texts, tri_stack **out) {
    tri_stack *s;
    *out = NULL;
    TRI_TRY(TRI_NEW(s, 1, "a stacked head"));
    tri_status status = read_file(s, file, name, preprocess, tokenizer, n_texts);
    if (status == TRI_OK) *out = s;
    else tri__stack_free(s);
    return status;
}

void tri__stack_free(tri_stack *s) {
    if (!s) return;
    tri__features_free(&s->features);
    tri__trees_free(&s->trees);
    tri__json_decref(s->file);
    TRI_FREE(s->linear.at, s->x, s);
}

void tri__stack_predict(tri_stack *s, const float *dense, const int32_t *index, const float *value, int64_t n,
                        float *answer) {
    const tri_features *f = &s->features;
    double margins[TRI_STACK_CLASSES + 1];
    int width = f->n_classes > 1 ? f->n_classes : 1;
    if (!s->is_trees) {
        tri__linear_row(&s->linear, dense, f->n_dense, index, value, n, margins);
        tri__linear_link(margins, f->n_outputs, f->n_classes);
        for (int c = 0; c < width; c++) answer[c] = (float)margins[c];
        return;
    }
    memcpy(s->x, dense, (size_t)f->n_dense * sizeof *dense);
    for (int64_t i = 0; i < n; i++)
        if (f->n_dense + index[i] < s->trees.n_features) s->x[f->n_dense + index[i]] = value[i];
    tri__trees_predict(&s->trees, s->x, 1, s->trees.n_features, answer);
    if (width == 2) answer[1] = answer[0], answer[0] = 1 - answer[1];
    for (int64_t i = 0; i < n; i++)
        if (f->n_dense + index[i] < s->trees.n_features) s->x[f->n_dense + index[i]] = NAN;
}

tri_status tri__stack_answer(tri_stack *s, const tri_stack_row *row, float *outputs) {
    TRI_TRY(tri__features_take(&s->features, row));
    tri__stack_predict(s, s->features.dense, s->features.index, s->features.value, s->features.n, outputs);
    return TRI_OK;
}

typedef struct answering {
    tri_stack *stack;
    float *outputs;
} answering;

static tri_status answer_row(void *context, int64_t row) {
    const answering *a = context;
    tri_features *f = &a->stack->features;
    tri__stack_predict(a->stack, f->dense, f->index, f->value, f->n, a->outputs + row * (f->n_classes > 1 ? f->n_classes : 1));
    return TRI_OK;
}

tri_status tri__stack_table(tri_stack *s, const tri_dataset *data, float *outputs) {
    return tri__features_rows(&s->features, data, outputs, answer_row, &(answering){s, outputs});
}
