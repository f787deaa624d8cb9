/* test_stack.c - linear heads against scikit-learn and finite differences, TF-IDF against scikit-learn's
 * (tools/golden_stack.py); stack.json, what is wrong in it, and answers that do not depend on rows before. */
#include "stack/stack.h"

#include <math.h>

#include "tests/lib/test.h"
#include "tests/lib/fitted_table.h"

static tri_json *golden(void) {
    tri_json *all;
    assert_int_equal(tri__json_load("tests/golden/stack.json", TRI_DATA, &all), TRI_OK);
    return all;
}

static double at(const tri_json *list, int64_t i) { return tri__json_number_value(tri__json_at(list, (size_t)i)); }

/* ---- linear heads ---- */

enum { MOST = 512 };

/* A case of the golden file: its last features are sparse. */
typedef struct linear_case {
    tri_matrix x;
    tri_linear_head head;
    double found[MOST];
    float dense[MOST], value[MOST], y[MOST], weight[MOST];
    int64_t start[MOST];
    int32_t index[MOST];
} linear_case;

static void make_case(const tri_json *of, linear_case *c) {
    const tri_json *x = tri__json_get(of, "x"), *y = tri__json_get(of, "y");
    int64_t n = (int64_t)tri__json_size(y), features = (int64_t)tri__json_size(x) / n, used = 0;
    int dense = (int)tri__whole_in(of, "dense");
    *c = (linear_case){.x = {.n = n, .n_dense = dense, .n_sparse = (int)features - dense,
                             .n_classes = (int)tri__whole_in(of, "classes")}};
    c->x.dense = c->dense, c->x.start = c->start, c->x.index = c->index, c->x.value = c->value;
    c->x.y = c->y, c->x.weight = c->weight;
    for (int64_t i = 0; i < n; i++) {
        c->y[i] = (float)at(y, i), c->weight[i] = (float)at(tri__json_get(of, "weight"), i);
        for (int64_t f = 0; f < features; f++) {
            float value = (float)at(x, i * features + f);
            if (f < dense) c->dense[i * dense + f] = value;
            else if (value != 0) c->index[used] = (int32_t)f - dense, c->value[used++] = value;
        }
        c->start[i + 1] = used;
    }
    c->head = (tri_linear_head){.n_features = (int)features, .n_outputs = tri__matrix_margins(&c->x), .at = c->found};
}

TEST(test_heads_equal_scikit_learns) {
    tri_json *all = golden();
    assert_int_equal(tri__json_size(tri__json_get(all, "linear")), 6);
    tri__json_items(tri__json_get(all, "linear"), of) {
        linear_case c;
        const tri_json *want = tri__json_get(of, "at");
        make_case(of, &c);
        assert_int_equal(tri__linear_fit(&c.head, &c.x, tri__number_in(of, "penalty")), TRI_OK);
        int64_t n = (int64_t)tri__json_size(want), k = c.head.n_outputs;
        double shift[8] = {0}; /* scikit-learn's intercepts of several classes are known but for a constant */
        for (int64_t i = 0; i < k && k > 1; i++)
            shift[0] += (c.found[n - k + i] - at(want, n - k + i)) / (double)k;
        for (int64_t i = 0; i < n; i++) {
            double got = c.found[i] - (i >= n - k ? shift[0] : 0);
            if (!(fabs(got - at(want, i)) <= 1e-4))
                fail_msg("%s: weight %d is %.9g, not %.9g", tri__text_in(of, "name"), (int)i, got, at(want, i));
        }
    }
    tri__json_decref(all);
}

TEST(test_gradients_are_differences) {
    tri_json *all = golden();
    tri__json_items(tri__json_get(all, "linear"), of) {
        linear_case c;
        double gradient[MOST], scratch[MOST], step = 1e-5;
        make_case(of, &c);
        c.dense[0] = NAN; /* missing: the mean */
        int n = (c.head.n_features + 1) * c.head.n_outputs;
        for (int i = 0; i < n; i++) c.found[i] = 0.3 * sin(i);
        tri__linear_objective(&c.head, &c.x, 1.5, gradient);
        for (int i = 0; i < n; i++) {
            double was = c.found[i];
            c.found[i] = was + step;
            double above = tri__linear_objective(&c.head, &c.x, 1.5, scratch);
            c.found[i] = was - step;
            double below = tri__linear_objective(&c.head, &c.x, 1.5, scratch);
            c.found[i] = was;
            assert_true(fabs((above - below) / (2 * step) - gradient[i]) < 1e-7);
        }
    }
    tri__json_decref(all);
}

/* ---- features of texts ---- */

typedef struct fixture {
    tri_json *all, *texts;
    tri_tokenizer *tokenizer;
    tri_preprocess *preprocess;
    tri_dataset *data;
    float *outputs;          /* [n, 2] */
} fixture;

static void open_fixture(fixture *x) {
    char file[160], *text = NULL;
    size_t room = 0;
    *x = (fixture){.all = golden()};
    x->texts = tri__json_at(tri__json_get(x->all, "texts"), 0);
    FILE *out = open_memstream(&text, &room);
    tri__json_items(tri__json_get(x->texts, "pieces"), piece) fprintf(out, "%s\n", tri__json_string_value(piece));
    fclose(out);
    snprintf(file, sizeof file, "%s/vocab.txt", folder);
    assert_int_equal(tri__file_write(file, text, strlen(text)), TRI_OK);
    free(text);
    assert_int_equal(tri__tokenizer_load(folder, &x->tokenizer), TRI_OK);
    out = open_memstream(&text, &room);
    fprintf(out, "text,x,label\n");
    tri__json_each(tri__json_get(x->texts, "documents"), i, document)
        fprintf(out, "%s,%d,%s\n", tri__json_string_value(document), (int)i % 5, i % 2 ? "yes" : "no");
    fclose(out);
    tri_table *table = table_of(text);
    free(text);
    assert_int_equal(fit(table, 1, 2, &x->preprocess), TRI_OK);
    tri__table_close(table);
    const tri_dataset_spec spec = {.path = path, .preprocess = x->preprocess, .tokenizer = &x->tokenizer, .max_len = 64,
                                   .windows = {.max_len = 64}, .need_labels = 1, .threads = 1};
    assert_int_equal(tri__dataset_open(&spec, &x->data), TRI_OK);
    x->outputs = calloc((size_t)x->data->n, 2 * sizeof *x->outputs);
    for (int64_t i = 0; i < x->data->n; i++)
        x->outputs[2 * i + 1] = 0.1f + 0.03f * (float)i, x->outputs[2 * i] = 1 - x->outputs[2 * i + 1];
}

static void close_fixture(fixture *x) {
    tri__dataset_close(x->data);
    tri__preprocess_free(x->preprocess);
    tri__tokenizer_free(x->tokenizer);
    tri__json_decref(x->all);
    free(x->outputs);
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

TEST(test_terms_equal_scikit_learns) {
    fixture x;
    tri_features f;
    open_fixture(&x);
    assert_int_equal(tri__features_open(x.preprocess, &x.tokenizer, 1, &f), TRI_OK);
    assert_int_equal(tri__features_fit(&f, x.data, x.outputs), TRI_OK);
    tri_matrix to = {0};
    f.to = &to;
    assert_int_equal(tri__features_rows(&f, x.data, x.outputs, tri__features_add, &f), TRI_OK);
    const tri_json *want = tri__json_get(x.texts, "values");
    assert_int_equal(to.n, tri__json_size(want));
    for (int64_t i = 0; i < to.n; i++) {
        const tri_json *row = tri__json_at(want, (size_t)i);
        int64_t first = to.start[i], n = to.start[i + 1] - first;
        assert_int_equal(n, tri__json_size(row));
        qsort(to.value + first, (size_t)n, sizeof(float), ascending);
        for (int64_t k = 0; k < n; k++) assert_true(fabs((double)to.value[first + k] - at(row, k)) < 1e-6);
    }
    for (int d = 0; d < to.n_dense; d++) { /* standardised */
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < to.n; i++) {
            double value = (double)to.dense[i * to.n_dense + d];
            sum += value, squares += value * value;
        }
        assert_true(fabs(sum / (double)to.n) < 1e-5 && fabs(squares / (double)to.n - 1) < 1e-4);
    }
    tri__matrix_free(&to);
    tri__features_free(&f);
    close_fixture(&x);
}

/* ---- stack.json ---- */

static tri_json *make_file(fixture *x, tri_features *f) {
    assert_int_equal(tri__features_open(x->preprocess, &x->tokenizer, 1, f), TRI_OK);
    assert_int_equal(tri__features_fit(f, x->data, x->outputs), TRI_OK);
    int n = tri__features_count(f) + 1;
    double *weights = calloc((size_t)n, sizeof *weights);
    for (int i = 0; i < n; i++) weights[i] = sin(i + 1);
    tri_json *file = tri__stack_json(f, &(tri_linear_head){n - 1, 1, weights}, NULL);
    free(weights);
    return file;
}

TEST(test_a_file_has_what_was_put_in) {
    fixture x;
    tri_features f;
    tri_stack *stack;
    open_fixture(&x);
    tri_json *file = make_file(&x, &f), *back;
    char *text = tri__json_text(file, TRI_JSON_REAL_PRECISION(17));
    assert_int_equal(tri__json_parse(text, strlen(text), "stack.json", TRI_DATA, &back), TRI_OK);
    assert_int_equal(tri__stack_parse(back, "stack.json", x.preprocess, &x.tokenizer, 1, &stack), TRI_OK);
    tri_json *again = tri__stack_json(&stack->features, &stack->linear, NULL);
    assert_true(tri__json_equal(file, again));
    size_t bytes = (size_t)x.data->n * 2 * sizeof(float);
    float *answers = malloc(bytes), *twice = malloc(bytes);
    memcpy(answers, x.outputs, bytes), memcpy(twice, answers, bytes);
    for (int i = 0; i < 2; i++) { /* the same after other rows */
        float *to = i ? twice : answers;
        assert_int_equal(tri__features_rows(&stack->features, x.data, to, tri__stack_answer, stack), TRI_OK);
    }
    assert_memory_equal(answers, twice, bytes);
    for (int64_t i = 0; i < x.data->n; i++) assert_true(fabsf(answers[2 * i] + answers[2 * i + 1] - 1) < 1e-6f);
    tri__stack_free(stack);
    tri__features_free(&f);
    tri__json_decref(file), tri__json_decref(back), tri__json_decref(again);
    free(text), free(answers), free(twice);
    close_fixture(&x);
}

static void refuse(const fixture *x, tri_json *file, const char *why) {
    tri_stack *stack;
    assert_int_equal(tri__stack_parse(file, "stack.json", x->preprocess, &x->tokenizer, 1, &stack), TRI_DATA);
    assert_null(stack);
    assert_error(why);
    tri__json_decref(file);
}

TEST(test_wrong_files_are_refused) {
    fixture x;
    tri_features f;
    open_fixture(&x);
    tri_json *whole = make_file(&x, &f), *file;
    static const long long terms[] = {-1, 0, 1, 20001, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        tri__json_set_new(file = tri__json_deep_copy(whole), "terms", tri__json_integer(terms[i]));
        refuse(&x, file, "terms or numbers");
    }
    for (int i = 0; i < 4; i++) { /* a deviation, a term, a weight that cannot be; another head's */
        tri_json *numbers = tri__json_array(), *of = tri__json_get(whole, "numbers");
        size_t bad = i == 0 ? (size_t)f.n_dense : i == 1 ? (size_t)(2 * f.n_dense) : tri__json_size(of) - 1;
        tri__json_each(of, k, number)
            tri__json_append_new(numbers, k != bad ? tri__json_incref(number) : i == 0 ? tri__json_real(0)
                                          : i == 1 ? tri__json_real(0.5) : i == 2 ? tri__json_string("1")
                                                                                 : tri__json_null());
        tri__json_set_new(file = tri__json_deep_copy(whole), "numbers", numbers);
        refuse(&x, file, i < 2 ? "deviations or terms" : "is not a finite number");
    }
    tri__json_set_new(file = tri__json_deep_copy(whole), "version", tri__json_integer(2));
    refuse(&x, file, "trident-stack, version 1");
    tri__json_set_new(file = tri__json_deep_copy(whole), "trees", tri__json_object());
    refuse(&x, file, "terms or numbers");
    tri__json_decref(whole);
    tri__features_free(&f);
    close_fixture(&x);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_folder, remove_folder); }
