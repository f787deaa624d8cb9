/* test_labels.c - figures of several labels against scikit-learn (tools/golden_labels.py); targets that are left out;
 * a threshold for each label, and back from JSON; the labels of cells. */
#include "data/dataset/field_values.h"
#include "numbers/number_loss.h"
#include "score/metrics.h"

#include <math.h>

#include "tests/lib/test.h"

enum { MOST = 1024, LABELS = 8 };

static char *const names[LABELS] = {"a", "b", "c", "d", "e", "f", "g", "h"};

static void read_list(const tri_json *list, float *out) {
    tri__json_each(list, i, one) out[i] = (float)tri__json_number_value(one);
}

static tri_scores score(const float *probs, const float *targets, int64_t rows, const tri_number_set *set) {
    const tri_label_set labels = {.n = set->n, .label = names, .positive = -1, .numbers = set};
    tri_scores scores;
    assert_int_equal(tri__scores(probs, (const int32_t *)(const void *)targets, rows, &labels, &scores), TRI_OK);
    return scores;
}

TEST(test_figures_equal_scikit_learns) {
    tri_json *golden;
    assert_int_equal(tri__json_load("tests/golden/labels.json", TRI_DATA, &golden), TRI_OK);
    assert_true(tri__json_size(tri__json_get(golden, "cases")) >= 6);
    tri__json_items(tri__json_get(golden, "cases"), of) {
        const tri_json *want = tri__json_get(of, "figures");
        float probs[MOST], targets[MOST], from[LABELS];
        int n = (int)tri__json_size(tri__json_get(of, "from")), found = 0;
        int64_t rows = (int64_t)tri__json_size(tri__json_get(of, "probs")) / n;
        read_list(tri__json_get(of, "probs"), probs), read_list(tri__json_get(of, "targets"), targets);
        read_list(tri__json_get(of, "from"), from);
        tri_scores scores = score(probs, targets, rows, &(tri_number_set){.loss = TRI_NUMBER_BINARY, .n = n,
                                                                          .from = from});
        const char *name;
        double got;
        for (int next = 0; tri__number_figure(&scores.numbers, &next, &name, &got); found++) {
            double expected = tri__number_in(want, name);
            if (!(fabs(got - expected) <= 1e-9))
                fail_msg("%s: %s is %.15g, not %.15g", tri__text_in(of, "name"), name, got, expected);
        }
        assert_int_equal(found, 6);
        assert_true(fabs(scores.loss - tri__number_in(want, "loss")) < 1e-6);
        tri__scores_free(&scores);
    }
    tri__json_decref(golden);
}

/* Rows and labels that are left out change nothing but the divisor of the loss. */
TEST(test_targets_that_are_missing_are_left_out) {
    const float probs[] = {0.9f, 0.2f, 0.4f, 0.7f, 0.1f, 0.8f, 0.3f, 0.3f}, whole[] = {1, 0, 0, 1, 0, 1, 1, 0},
                targets[] = {1, 0, 0, 1, 0, 1, NAN, NAN}, part[] = {1, 0, NAN, 1, NAN, 1, NAN, NAN};
    const tri_number_set set = {.loss = TRI_NUMBER_BINARY, .n = 2};
    tri_scores three = score(probs, whole, 3, &set), four = score(probs, targets, 4, &set),
               some = score(probs, part, 4, &set);
    assert_true(three.numbers.f1_samples == four.numbers.f1_samples && three.accuracy == four.accuracy);
    assert_true(three.numbers.lrap == four.numbers.lrap && three.roc_auc == four.roc_auc);
    assert_true(fabs(3 * three.loss - 4 * four.loss) < 1e-9);
    assert_true(some.support[0] == 1 && some.support[1] == 2 && some.accuracy == 1);
    tri__scores_free(&three), tri__scores_free(&four), tri__scores_free(&some);
    for (int there = 0; there < 2; there++) {
        assert_true(tri__number_loss(TRI_NUMBER_BINARY, 0, 1, there, NAN) == 0);
        assert_true(tri__number_slope(TRI_NUMBER_BINARY, 0, 1, 0.5, NAN) == 0);
    }
}

TEST(test_each_label_has_a_threshold) {
    /* Of "a" F1 is best from 0.3 on, of "b" from 0.8 on; "c" has no row. */
    const float probs[] = {0.3f, 0.8f, 0.1f, 0.4f, 0.7f, 0.2f, 0.2f, 0.9f, 0.1f, 0.1f, 0.6f, 0.3f},
                targets[] = {1, 1, 0, 1, 0, 0, 0, 1, 0, 0, NAN, 0};
    float from[3], again[3];
    tri_threshold how;
    assert_int_equal(tri__threshold_parse("f1", &how), TRI_OK);
    assert_int_equal(tri__thresholds_fit(probs, targets, 4, 3, &how, from), TRI_OK);
    assert_true(from[0] == 0.3f && from[1] == 0.8f && from[2] == 0.5f);
    tri_json *json = tri__thresholds_json(from, 3, &how, 4, 7);
    assert_int_equal(tri__thresholds_parse(json, "model", 3, again), TRI_OK);
    assert_memory_equal(from, again, sizeof from);
    assert_int_equal(tri__thresholds_parse(json, "model", 2, again), TRI_DATA);
    tri__json_decref(json);
    tri_buffer text = {0};
    const tri_decision decision = {.temperature = 1, .from = from};
    tri__decision_labels(&decision, (const char *const *)names, 3, probs, "; ", &text);
    assert_string_equal(text.text, "a; b");
    tri__buffer_free(&text);
}

TEST(test_cells_have_labels) {
    static const struct {
        const char *separator, *cell, *want;
    } rows[] = {{";", "a;b", "a,b,"}, {";", " a ;; b;", "a,b,"}, {", ", "New York, b", "New York,b,"}, {";", "", ""},
                {";", " ; ", ""},     {"|", "a;b|c", "a;b,c,"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char got[64] = "";
        tri_field_text cell = {rows[i].cell, strlen(rows[i].cell), 0}, label;
        while (tri__label_next(rows[i].separator, &cell, &label))
            snprintf(got + strlen(got), sizeof got - strlen(got), "%.*s,", (int)label.length, label.text);
        assert_string_equal(got, rows[i].want);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
