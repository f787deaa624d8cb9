/* test_trees.c - our evaluation of XGBoost's trees against its own (tools/golden_stack.py), in blocks and row by row;
 * models that are damaged or made to do harm; training, where libxgboost is installed. */
#include "stack/trees.h"
#include "stack/xgboost.h"

#include <math.h>

#include "tests/lib/test.h"

enum { FEATURES = 6, ROWS = 37, OUTPUTS = 3 };

static tri_json *golden(void) {
    tri_json *all;
    assert_int_equal(tri__json_load("tests/golden/stack.json", TRI_DATA, &all), TRI_OK);
    return all;
}

TEST(test_answers_are_xgboosts) {
    tri_json *all = golden();
    assert_int_equal(tri__json_size(tri__json_get(all, "trees")), 5);
    tri__json_items(tri__json_get(all, "trees"), of) {
        const tri_json *want = tri__json_get(of, "answers"), *values = tri__json_get(of, "rows");
        float rows[ROWS * FEATURES], got[ROWS * OUTPUTS], one[OUTPUTS];
        tri_trees trees;
        tri__json_each(values, i, value)
            rows[i] = tri__json_is_number(value) ? (float)tri__json_number_value(value) : NAN;
        assert_int_equal(tri__trees_parse(tri__json_get(of, "model"), "model", &trees), TRI_OK);
        assert_int_equal(trees.n_features, FEATURES);
        assert_int_equal(tri__json_size(want), ROWS * trees.n_outputs);
        tri__trees_predict(&trees, rows, ROWS, FEATURES, got);
        for (int i = 0; i < ROWS; i++) {
            tri__trees_predict(&trees, rows + i * FEATURES, 1, FEATURES, one);
            for (int c = 0; c < trees.n_outputs; c++) {
                double wanted = tri__json_number_value(tri__json_at(want, (size_t)(i * trees.n_outputs + c)));
                if (!(fabs((double)got[i * trees.n_outputs + c] - wanted) <= 1e-6))
                    fail_msg("%s: row %d is %.9g, not %.9g", tri__text_in(of, "name"), i,
                             (double)got[i * trees.n_outputs + c], wanted);
                assert_true(one[c] == got[i * trees.n_outputs + c]);
            }
        }
        tri__trees_free(&trees);
    }
    tri__json_decref(all);
}

/* A list of the first tree of a model. */
static tri_json *list_of(tri_json *model, const char *name) {
    tri_json *booster = tri__json_get(tri__json_get(tri__json_get(model, "learner"), "gradient_booster"), "model");
    return tri__json_get(tri__json_at(tri__json_get(booster, "trees"), 0), name);
}

/* A list with another value in a place. */
static void put(tri_json *model, const char *name, size_t at, tri_json *value) {
    tri_json *made = tri__json_array(), *list = list_of(model, name);
    tri__json_each(list, i, one) tri__json_append(made, i == at ? value : one);
    tri_json *booster = tri__json_get(tri__json_get(tri__json_get(model, "learner"), "gradient_booster"), "model");
    tri__json_set_new(tri__json_at(tri__json_get(booster, "trees"), 0), name, made);
    tri__json_decref(value);
}

static void refuse(tri_json *model, const char *why) {
    tri_trees trees;
    assert_int_equal(tri__trees_parse(model, "model", &trees), TRI_DATA);
    if (!strstr(tri_error(), why)) fail_msg("\"%s\" does not say \"%s\"", tri_error(), why);
    tri__trees_free(&trees);
    tri__json_decref(model);
}

static tri_json *form_of(tri_json *model) {
    return tri__json_get(tri__json_get(model, "learner"), "learner_model_param");
}

TEST(test_hostile_models_are_refused) {
    tri_json *all = golden(), *first = tri__json_get(tri__json_at(tri__json_get(all, "trees"), 0), "model");
    static const char *const lists[] = {"left_children", "right_children", "split_indices", "split_conditions",
                                        "default_left"};
    static const long long children[] = {0, -1, -2, 1000000, INT64_MIN, INT64_MAX, 4294967297};
#define COPY tri__json_deep_copy(first)
    for (size_t i = 0; i < sizeof children / sizeof *children; i++) { /* cycles, out of range */
        tri_json *model = COPY;
        put(model, "right_children", 0, tri__json_integer(children[i]));
        refuse(model, "do not form a tree");
    }
    for (int i = 0; i < 5; i++) {
        tri_json *model = COPY, *booster = tri__json_get(tri__json_get(tri__json_get(model, "learner"),
                                                                       "gradient_booster"), "model");
        tri__json_del(tri__json_at(tri__json_get(booster, "trees"), 0), lists[i]);
        refuse(model, "differ in length");
    }
    for (int i = 0; i < 3; i++) {
        static const long long features[] = {-1, FEATURES, 1ll << 40};
        tri_json *model = COPY;
        put(model, "split_indices", 0, tri__json_integer(features[i]));
        refuse(model, "a feature that there is not");
    }
    tri_json *model = COPY;
    for (size_t i = 0; i < tri__json_size(list_of(model, "left_children")); i++) /* a cycle below the root */
        if (tri__json_integer_value(tri__json_at(list_of(model, "left_children"), i)) >= 0)
            put(model, "left_children", i, tri__json_integer(1));
    refuse(model, "do not form a tree");
    put(model = COPY, "split_conditions", 0, tri__json_string("1"));
    refuse(model, "not a finite number");
    put(model = COPY, "split_conditions", 0, tri__json_real(1e300));
    refuse(model, "not a finite number");
    put(model = COPY, "split_type", 0, tri__json_integer(1));
    refuse(model, "categories are not supported");
    static const char *const wrong[][2] = {{"num_feature", "0"}, {"num_feature", "1e30"}, {"num_feature", "2.5"},
                                           {"num_feature", "[1]"}, {"num_class", "-1"}, {"num_class", "7"},
                                           {"base_score", "1"}, {"base_score", "x"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tri__json_set_new(form_of(model = COPY), wrong[i][0], tri__json_string(wrong[i][1]));
        refuse(model, "num_feature, num_class or base_score");
    }
    tri__json_set_new(tri__json_get(tri__json_get(model = COPY, "learner"), "objective"), "name",
                      tri__json_string("rank:pairwise"));
    refuse(model, "rank:pairwise");
    tri_json *several = tri__json_deep_copy(tri__json_get(tri__json_at(tri__json_get(all, "trees"), 1), "model")),
             *booster = tri__json_get(tri__json_get(tri__json_get(several, "learner"), "gradient_booster"), "model"),
             *info = tri__json_array();
    for (size_t i = 0; i < tri__json_size(tri__json_get(booster, "trees")); i++)
        tri__json_append_new(info, tri__json_integer(i ? 0 : 3));
    tri__json_set_new(booster, "tree_info", info);
    refuse(several, "belongs to no output");
    refuse(tri__json_object(), "not a model");
    tri__json_decref(all);
}

/* Two classes that a product of two numbers tells apart. */
TEST(test_trees_are_trained) {
    tri_xgboost x;
    if (tri__xgboost_open(&x) != TRI_OK) {
        print_message("skipped: %s\n", tri_error());
        skip();
    }
    enum { N = 400 };
    static float dense[N * 2], y[N], weight[N], answer[N];
    static int64_t start[N + 1];
    for (int i = 0; i < N; i++) {
        dense[2 * i] = (float)(i * 7919 % 1000) / 500 - 1, dense[2 * i + 1] = (float)(i * 104729 % 1000) / 500 - 1;
        y[i] = dense[2 * i] * dense[2 * i + 1] > 0, weight[i] = 1 + (float)(i % 2);
    }
    tri_matrix rows = {.n = N, .n_dense = 2, .dense = dense, .start = start, .n_classes = 2, .y = y, .weight = weight};
    tri_json *model[2];
    for (int i = 0; i < 2; i++) assert_int_equal(tri__xgboost_train(&x, &rows, &rows, 2, 4, &model[i]), TRI_OK);
    assert_true(tri__json_equal(model[0], model[1])); /* the same bits each time */
    tri_trees trees;
    assert_int_equal(tri__trees_parse(model[0], "model", &trees), TRI_OK);
    tri__trees_predict(&trees, dense, N, 2, answer);
    double loss = tri__matrix_loss(&rows, answer, 1);
    assert_true(loss < 0.1);
    tri__trees_free(&trees);
    for (int i = 0; i < 2; i++) tri__json_decref(model[i]);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
