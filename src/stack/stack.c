/* stack.c - stack.json, and the head that it has. */
#include "stack/stack.h"

static const char FORMAT[] = "trident-stack";
enum { VERSION = 1 };

static void add_numbers(tri_json *list, const double *at, int64_t n) {
    for (int64_t i = 0; i < n; i++) tri__json_append_new(list, tri__json_real(at[i]));
}

static int64_t weights_of(const tri_features *f) { return ((int64_t)tri__features_count(f) + 1) * f->n_outputs; }

tri_json *tri__stack_json(const tri_features *f, const tri_linear_head *linear, const tri_json *trees) {
    tri_json *numbers = tri__json_array();
    add_numbers(numbers, f->known, 2 * ((int64_t)f->n_dense + f->n_terms));
    if (linear) add_numbers(numbers, linear->at, weights_of(f));
    tri_json *file = tri__json_pack("{s:s, s:i, s:i, s:o}", "format", FORMAT, "version", (int)VERSION, "terms",
                                    f->n_terms, "numbers", numbers);
    if (trees) tri__json_set(file, "trees", trees);
    return file;
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

static tri_status read_file(tri_stack *s, const tri_json *file, const char *name) {
    tri_features *f = &s->features;
    const tri_json *trees = tri__json_get(file, "trees"), *numbers = tri__json_get(file, "numbers");
    const char *format = tri__text_in(file, "format");
    tri_json_int terms = tri__whole_in(file, "terms");
    size_t n = tri__json_size(numbers), i = 0;
    TRI_OWNED(tri__free_at) double *at = NULL;
    if (!format || strcmp(format, FORMAT) || tri__whole_in(file, "version") != VERSION)
        return tri__fail(TRI_DATA, "%s: its format is not %s, version %d", name, FORMAT, VERSION);
    if (terms < 0 || terms > TRI_TERMS_MAX) terms = TRI_TERMS_MAX + 1; /* refused below */
    int64_t known = 2 * (f->n_dense + terms),
            rest = trees ? 0 : (f->n_dense + f->n_categories + terms + 1) * (int64_t)f->n_outputs;
    if (terms > TRI_TERMS_MAX || n != (size_t)(known + rest))
        return tri__fail(TRI_DATA, "%s: terms or numbers are not as many as the model beside it needs", name);
    TRI_TRY(TRI_NEW(at, n + 1, "a stacked head"));
    tri__json_items(numbers, number) {
        at[i] = tri__json_number_value(number);
        if (!tri__json_is_number(number) || !isfinite(at[i++]))
            return tri__fail(TRI_DATA, "%s: numbers[%zu] is not a finite number", name, i - 1);
    }
    TRI_TRY(tri__features_know(f, at, (int)terms, name));
    s->decision = tri__json_incref(tri__json_get(file, "decision"));
    if (trees) return read_trees(s, trees, name);
    s->linear = (tri_linear_head){.n_features = tri__features_count(f), .n_outputs = f->n_outputs};
    TRI_TRY(TRI_NEW(s->linear.at, rest, "a linear head"));
    memcpy(s->linear.at, at + known, (size_t)rest * sizeof *at);
    return TRI_OK;
}

tri_status tri__stack_parse(const tri_json *file, const char *name, const tri_preprocess *preprocess,
                            tri_tokenizer *const *tokenizer, int n_texts, tri_stack **out) {
    TRI_OWNED(tri__stack_drop) tri_stack *s = NULL;
    *out = NULL;
    if (preprocess->separator || preprocess->n_classes > TRI_STACK_CLASSES)
        return tri__fail(TRI_DATA, "%s: the model beside it can have no stacked head", name);
    TRI_TRY(TRI_NEW(s, 1, "a stacked head"));
    TRI_TRY(tri__features_open(preprocess, tokenizer, n_texts, &s->features));
    TRI_TRY(read_file(s, file, name));
    *out = TRI_GIVE(s);
    return TRI_OK;
}

void tri__stack_free(tri_stack *s) {
    if (!s) return;
    tri__features_free(&s->features);
    tri__trees_free(&s->trees);
    tri__matrix_free(&s->row);
    tri__json_decref(s->decision);
    TRI_FREE(s->linear.at, s->x, s);
}

void tri__stack_predict(tri_stack *s, const tri_matrix *x, int64_t row, float *answer) {
    const float *dense = x->dense + row * x->n_dense;
    double margins[TRI_STACK_CLASSES + 1];
    int width = x->n_classes > 1 ? x->n_classes : 1;
    if (s->linear.at) {
        tri__linear_row(&s->linear, x, row, margins);
        tri__linear_link(margins, x->n_classes);
        for (int c = 0; c < width; c++) answer[c] = (float)margins[c];
        return;
    }
    memcpy(s->x, dense, (size_t)x->n_dense * sizeof *dense);
    for (int put = 1; put >= 0; put--) {
        for (int64_t i = x->start[row]; i < x->start[row + 1]; i++)
            if (x->n_dense + x->index[i] < s->trees.n_features)
                s->x[x->n_dense + x->index[i]] = put ? x->value[i] : NAN;
        if (put) tri__trees_predict(&s->trees, s->x, 1, s->trees.n_features, answer);
    }
    if (width == 2) answer[1] = answer[0], answer[0] = 1 - answer[1];
}

tri_status tri__stack_answer(void *stack, const tri_stack_row *row) {
    tri_stack *s = stack;
    s->row.n = 0, s->features.to = &s->row;
    TRI_TRY(tri__features_add(&s->features, row));
    tri__stack_predict(s, &s->row, 0, row->outputs);
    return TRI_OK;
}
