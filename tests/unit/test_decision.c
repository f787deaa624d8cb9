/* test_decision.c - temperatures, thresholds, calibration figures and intervals against scipy, scikit-learn and numpy
 * (tools/golden_decision.py), and what no reference has: how often intervals hold the truth, hostile numbers, what a
 * checkpoint may hold. */
#include "base/random.h"
#include "score/bootstrap.h"

#include <math.h>

#include "tests/lib/test.h"

enum { ROWS = 64, CLASSES = 3 };
static char *const names[] = {"no", "yes", "maybe"};

typedef struct example {
    const tri_json *of;
    const char *name;
    int classes, positive;
    int64_t n;
    float probs[ROWS * CLASSES];
    int32_t labels[ROWS];
    double weights[CLASSES];
} example;

static double at(const tri_json *list, size_t i) { return tri__json_number_value(tri__json_at(list, i)); }

static example read_example(const tri_json *of) {
    example e = {.of = of, .name = tri__json_string_value(tri__json_get(of, "name"))};
    const tri_json *probs = tri__json_get(of, "probs"), *labels = tri__json_get(of, "labels"),
                   *weights = tri__json_get(of, "weights");
    e.classes = (int)tri__json_integer_value(tri__json_get(of, "classes"));
    e.positive = (int)tri__json_integer_value(tri__json_get(of, "positive"));
    e.n = (int64_t)tri__json_size(labels);
    assert_true(e.n <= ROWS && (int64_t)tri__json_size(probs) == e.n * e.classes);
    for (int64_t i = 0; i < e.n * e.classes; i++) e.probs[i] = (float)at(probs, (size_t)i);
    for (int64_t i = 0; i < e.n; i++) e.labels[i] = (int32_t)at(labels, (size_t)i);
    for (int c = 0; c < e.classes; c++) e.weights[c] = at(weights, (size_t)c);
    return e;
}

static tri_decision_spec spec_of(const example *e, const char *threshold) {
    tri_decision_spec spec = {.probs = e->probs, .labels = e->labels, .n = e->n, .n_classes = e->classes,
                              .positive = e->positive, .scale = 1};
    assert_int_equal(tri__threshold_parse(threshold, &spec.threshold), TRI_OK);
    return spec;
}

static void near(const char *name, const char *what, double got, double want, double error) {
    if (fabs(got - want) <= error * fmax(1, fabs(want))) return;
    fail_msg("%s: %s is %.12g, want %.12g", name, what, got, want);
}

/* Each test runs over all examples. */
static void each(void (*check)(const example *e, int64_t resamples)) {
    tri_json *golden;
    assert_int_equal(tri__json_load("tests/golden/decision.json", TRI_DATA, &golden), TRI_OK);
    tri__json_items(tri__json_get(golden, "cases"), of) {
        example e = read_example(of);
        check(&e, tri__json_integer_value(tri__json_get(golden, "resamples")));
    }
    assert_true(tri__json_size(tri__json_get(golden, "cases")) >= 12);
    tri__json_decref(golden);
}

static void check_temperature(const example *e, int64_t resamples) {
    tri_decision_spec spec = spec_of(e, "none");
    tri_decision_fit fit;
    (void)resamples;
    assert_int_equal(tri__decision_fit(&spec, &fit), TRI_OK);
    tri_json *told = tri__decision_json(&fit, &spec, names, 7);
    near(e->name, "temperature", fit.decision.temperature, tri__json_number_value(tri__json_get(e->of, "temperature")),
         1e-9);
    assert_string_equal(tri__json_string_value(tri__json_get(told, "fit")),
                        tri__json_string_value(tri__json_get(e->of, "fit")));
    for (size_t k = 0; k < 2; k++) {
        near(e->name, "log loss", fit.log_loss[k], at(tri__json_get(e->of, "log_loss"), k), 1e-9);
        near(e->name, "ECE", fit.ece[k], at(tri__json_get(e->of, "ece"), k), 1e-6);
        near(e->name, "Brier score", fit.brier[k], at(tri__json_get(e->of, "brier"), k), 1e-6);
    }
    assert_false(fit.decision.has_threshold);
    assert_true(tri__json_is_null(tri__json_get(told, "threshold")));
    tri__json_decref(told);
}

TEST(test_temperature) {
    each(check_temperature);
}

static void check_thresholds(const example *e, int64_t resamples) {
    (void)resamples;
    tri__json_members(tri__json_get(e->of, "thresholds"), m) {
        char name[128];
        tri_decision_spec spec = spec_of(e, m->key);
        tri_decision_fit fit;
        snprintf(name, sizeof name, "%s, %s", e->name, m->key);
        assert_int_equal(tri__decision_fit(&spec, &fit), TRI_OK);
        assert_int_equal(fit.decision.has_threshold, !tri__json_is_null(m->value));
        if (tri__json_is_null(m->value)) continue;
        const tri_json *threshold = tri__json_get(m->value, "threshold");
        float most = 0;
        float probs[ROWS * CLASSES];
        memcpy(probs, e->probs, sizeof probs);
        tri__decision_apply(&fit.decision, probs, e->n, e->classes);
        for (int64_t i = 0; i < e->n; i++) most = fmaxf(most, probs[i * e->classes + e->positive]);
        if (tri__json_is_null(threshold)) assert_true(fit.decision.threshold > (double)most);
        else near(name, "threshold", fit.decision.threshold, tri__json_number_value(threshold), 1e-6);
        assert_int_equal(fit.reached, tri__json_is_true(tri__json_get(m->value, "reached")));
        near(name, "precision", isnan(fit.precision) ? 0 : fit.precision,
             tri__json_number_value(tri__json_get(m->value, "precision")), 1e-9);
        near(name, "recall", fit.recall, tri__json_number_value(tri__json_get(m->value, "recall")), 1e-9);
        near(name, "F1", fit.f1, tri__json_number_value(tri__json_get(m->value, "f1")), 1e-9);
        /* what it says of the rows is what scores say with it */
        const tri_label_set classes = {.n = 2, .label = names, .positive = e->positive, .decision = &fit.decision};
        tri_scores scores;
        assert_int_equal(tri__scores(probs, e->labels, e->n, &classes, &scores), TRI_OK);
        near(name, "recall of the scores", scores.recall[e->positive], fit.recall, 0);
        near(name, "F1 of the scores", scores.f1[e->positive], fit.f1, 0);
        tri__scores_free(&scores);
    }
}

TEST(test_thresholds) {
    each(check_thresholds);
}

static void check_intervals(const example *e, int64_t resamples) {
    const tri_label_set classes = {.n = e->classes, .label = names, .weights = e->weights, .positive = e->positive};
    const tri_json *want = tri__json_get(e->of, "intervals");
    tri_intervals got, alone;
    assert_int_equal(tri__bootstrap(e->probs, e->labels, e->n, &classes, resamples, 3, &got), TRI_OK);
    assert_int_equal(tri__bootstrap(e->probs, e->labels, e->n, &classes, resamples, 1, &alone), TRI_OK);
    assert_memory_equal(got.of, alone.of, sizeof got.of);
    assert_memory_equal(got.precision, alone.precision, 3 * (size_t)e->classes * sizeof *got.precision);
    tri__intervals_free(&alone);
    assert_int_equal(tri__json_size(want), TRI_FIGURES + 3 * e->classes);
    for (int k = 0; k < TRI_FIGURES + 3 * e->classes; k++) {
        const tri_interval *i = k < TRI_FIGURES ? &got.of[k] : &got.precision[k - TRI_FIGURES];
        const tri_json *pair = tri__json_at(want, (size_t)k);
        char what[32];
        snprintf(what, sizeof what, "interval %d", k);
        assert_int_equal(isnan(i->low), tri__json_is_null(pair));
        if (isnan(i->low)) continue;
        near(e->name, what, i->low, at(pair, 0), 1e-7);
        near(e->name, what, i->high, at(pair, 1), 1e-7);
    }
    tri_json *told = tri__intervals_json(tri__figure_key, TRI_FIGURES, &got, names);
    assert_true(tri__json_is_whole(told));
    tri__json_decref(told);
    tri__intervals_free(&got);
}

TEST(test_intervals) {
    each(check_intervals);
}

/* ---- by hand ---- */

TEST(test_apply) {
    const tri_decision two = {.temperature = 2, .positive = -1}, plain = tri__decision_plain();
    float probs[][2] = {{0.8f, 0.2f}, {0.5f, 0.5f}, {1, 0}, {0, 1}, {NAN, 0.5f}, {INFINITY, 0}}, same[6][2];
    memcpy(same, probs, sizeof same);
    tri__decision_apply(&plain, probs[0], 6, 2);
    assert_memory_equal(same, probs, sizeof same);
    tri__decision_apply(&two, probs[0], 6, 2);
    assert_float_equal(probs[0][0], 2.0 / 3, 1e-7); /* sqrt(0.8) : sqrt(0.2) is 2 : 1 */
    assert_float_equal(probs[0][1], 1.0 / 3, 1e-7);
    assert_true(probs[1][0] == 0.5f && probs[1][1] == 0.5f);
    assert_true(probs[2][0] == 1 && probs[2][1] > 0 && probs[2][1] < 1e-18f && probs[3][1] == 1);
    assert_true(isnan(probs[4][0]) && !isfinite(probs[5][0])); /* refused by what computes them */
}

TEST(test_class) {
    const float row[] = {0.7f, 0.3f}, equal[] = {0.5f, 0.5f};
    tri_decision d = {.temperature = 1, .has_threshold = 1, .threshold = (double)0.3f, .positive = 1};
    assert_int_equal(tri__decision_class(NULL, row, 2), 0);
    assert_int_equal(tri__decision_class(NULL, equal, 2), 0);
    assert_int_equal(tri__decision_class(&d, row, 2), 1); /* the threshold itself is positive */
    d.threshold = 0.31;
    assert_int_equal(tri__decision_class(&d, row, 2), 0);
    d.threshold = 0, d.positive = 0;
    assert_int_equal(tri__decision_class(&d, (float[]){0, 1}, 2), 0);
    d.has_threshold = 0;
    assert_int_equal(tri__decision_class(&d, (float[]){0, 1}, 2), 1);
}

/* Intervals count labels by the threshold, calibration by the likeliest class. */
TEST(test_threshold_intervals) {
    const float probs[] = {0.1f, 0.9f, 0.1f, 0.9f, 0.1f, 0.9f};
    const int32_t labels[] = {1, 1, 1};
    const tri_decision d = {.temperature = 1, .has_threshold = 1, .threshold = 0.95, .positive = 1};
    const tri_label_set classes = {.n = 2, .label = names, .positive = 1, .decision = &d};
    tri_intervals got;
    assert_int_equal(tri__bootstrap(probs, labels, 3, &classes, 20, 2, &got), TRI_OK);
    assert_true(got.of[TRI_FIGURE_ACCURACY].low == 0);
    assert_float_equal(got.of[TRI_FIGURE_ACCURACY].high, 0.561497, 1e-6);
    assert_true(got.of[TRI_FIGURE_ECE].low == 0 && got.of[TRI_FIGURE_ECE].high > 0.1); /* 3 of 3 at 0.9 is usual */
    assert_true(isnan(got.of[TRI_FIGURE_LOG_LOSS].low)); /* the same in all resamples */
    tri__intervals_free(&got);
}

/* All rows right, 3 of them positive: resampling sees no error, and in some resamples no positive row. */
TEST(test_edge_intervals) {
    enum { N = 150 };
    float probs[2 * N];
    int32_t labels[N];
    const tri_label_set classes = {.n = 2, .label = names, .positive = 1};
    tri_intervals got;
    for (int i = 0; i < N; i++) {
        labels[i] = i < 3;
        probs[2 * i] = labels[i] ? 0.02f : 0.98f, probs[2 * i + 1] = 1 - probs[2 * i];
    }
    assert_int_equal(tri__bootstrap(probs, labels, N, &classes, 400, 1, &got), TRI_OK);
    assert_float_equal(got.of[TRI_FIGURE_ACCURACY].low, 0.975030, 1e-6); /* Wilson, 150 of 150 */
    assert_true(got.of[TRI_FIGURE_ACCURACY].high == 1);
    assert_float_equal(got.recall[1].low, 0.438503, 1e-6); /* 3 of 3 */
    assert_true(got.recall[1].high == 1 && got.precision[1].low == got.recall[1].low);
    assert_float_equal(got.f1[1].low, 2 * 0.438503 / 1.438503, 1e-6);
    double far = 1 - got.of[TRI_FIGURE_F1_MACRO].low; /* half of how far the rarer label's may be off, and a little */
    assert_true(far > (1 - got.f1[1].low) / 2 && far < (1 - got.f1[1].low) / 2 + 0.01);
    assert_true(isnan(got.of[TRI_FIGURE_ROC_AUC].low) && isnan(got.of[TRI_FIGURE_PR_AUC].low));
    tri__intervals_free(&got);
    for (int i = 0; i < 3; i++) labels[i] = 0; /* now none is positive */
    assert_int_equal(tri__bootstrap(probs, labels, N, &classes, 20, 1, &got), TRI_OK);
    assert_true(isnan(got.recall[1].low) && got.precision[1].low == 0 && got.precision[1].high > 0.5);
    tri__intervals_free(&got);
}

/* ---- coverage ---- */

/* Rows whose label is 1 with a probability of 1 / (1 + exp(-3 z - 1)), z normal; the model multiplies 3 z + 1 by
 * `sharp`: calibrated where that is 1. The rows from `first` on of an endless table. */
static void make_table(double sharp, int64_t first, int64_t n, float *probs, int32_t *labels) {
    float *z = malloc((size_t)n * sizeof *z);
    tri__random_normal(1, tri__random_id("z"), 1, first, n, z);
    for (int64_t i = 0; i < n; i++) {
        double logit = 3 * (double)z[i] + 1;
        uint32_t word = tri__philox(1, 2, (uint32_t)(first + i), 0, 0, 0).word[0];
        labels[i] = (double)word * 0x1p-32 < 1 / (1 + exp(-logit));
        probs[2 * i + 1] = (float)(1 / (1 + exp(-sharp * logit)));
        probs[2 * i] = 1 - probs[2 * i + 1];
    }
    free(z);
}

/* How many of so many tables have intervals that hold the figures of a very long one. */
static void count_covered(double sharp, int covered[static TRI_FIGURES], int tables) {
    enum { LONG = 200000, ROWS_EACH = 150 };
    const tri_label_set classes = {.n = 2, .label = names, .positive = 1};
    float *probs = malloc(2 * LONG * sizeof *probs);
    int32_t *labels = malloc(LONG * sizeof *labels);
    tri_scores s;
    make_table(sharp, 0, LONG, probs, labels);
    assert_int_equal(tri__scores(probs, labels, LONG, &classes, &s), TRI_OK);
    const double truth[TRI_FIGURES] = {s.loss, s.log_loss, s.accuracy, s.f1_macro, s.pr_auc, s.average_precision,
                                       s.roc_auc, s.reliability.ece, s.reliability.brier};
    for (int t = 0; t < tables; t++) {
        tri_intervals got;
        make_table(sharp, LONG + t * ROWS_EACH, ROWS_EACH, probs, labels);
        assert_int_equal(tri__bootstrap(probs, labels, ROWS_EACH, &classes, 200, 1, &got), TRI_OK);
        for (int f = 0; f < TRI_FIGURES; f++)
            covered[f] += got.of[f].low <= truth[f] + 1e-3 * (f == TRI_FIGURE_ECE) && truth[f] <= got.of[f].high;
        tri__intervals_free(&got);
    }
    tri__scores_free(&s);
    free(probs);
    free(labels);
}

/* 95 % intervals hold the figure in about 95 % of tables: here at least 87 of 100, of a calibrated model, one that is
 * too sure, and one that is too cautious. */
TEST(test_coverage) {
    static const double sharp[] = {1, 1.6, 0.5};
    enum { TABLES = 100 };
    for (size_t k = 0; k < sizeof sharp / sizeof *sharp; k++) {
        int covered[TRI_FIGURES] = {0};
        count_covered(sharp[k], covered, TABLES);
        for (int f = 0; f < TRI_FIGURES; f++)
            if (covered[f] < 7 * TABLES / 8)
                fail_msg("times %.1f, figure %d: %d of %d", sharp[k], f, covered[f], TABLES);
    }
}

/* Two thresholds with an F1 of 2 / 3, and with a cost of 2: the lower one, which finds more. */
TEST(test_ties) {
    const float probs[] = {0.1f, 0.9f, 0.2f, 0.8f, 0.3f, 0.7f, 0.4f, 0.6f};
    const int32_t labels[] = {1, 0, 0, 1};
    static const char *const targets[] = {"f1", "cost=1:2"};
    for (int k = 0; k < 2; k++) {
        tri_decision_spec spec = {.probs = probs, .labels = labels, .n = 4, .n_classes = 2, .positive = 1};
        tri_decision_fit fit;
        assert_int_equal(tri__threshold_parse(targets[k], &spec.threshold), TRI_OK);
        assert_int_equal(tri__decision_fit(&spec, &fit), TRI_OK);
        assert_true(fit.decision.temperature == 1 && fit.end == TRI_TEMPERATURE_NONE);
        assert_true(fit.decision.threshold == (double)0.6f);
    }
}

TEST(test_kept) {
    float probs[] = {0.9f, 0.1f, 0.4f, 0.6f, 0.7f, 0.3f, 0.2f, 0.8f};
    int32_t labels[] = {0, 1, 1, 0};
    tri_decision_spec spec = {.probs = probs, .labels = labels, .n = 4, .n_classes = 2, .positive = 1, .scale = 1,
                              .threshold = {.kind = TRI_THRESHOLD_RECALL, .value = 0.9}};
    tri_decision_fit fit;
    tri_decision back;
    assert_int_equal(tri__decision_fit(&spec, &fit), TRI_OK);
    tri_json *told = tri__decision_json(&fit, &spec, names, 12);
    assert_string_equal(tri__json_string_value(tri__json_get(told, "chosen_for")), "recall=0.9");
    assert_string_equal(tri__json_string_value(tri__json_get(told, "positive")), "yes");
    char *text = tri__json_text(told, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(17)); /* as a manifest has it */
    tri__json_decref(told);
    assert_int_equal(tri__json_parse(text, strlen(text), "decision", TRI_DATA, &told), TRI_OK);
    assert_int_equal(tri__decision_parse(told, "run", names, 2, &back), TRI_OK);
    assert_true(back.temperature == fit.decision.temperature && back.threshold == fit.decision.threshold);
    assert_true(back.has_threshold && back.positive == 1);
    assert_int_equal(tri__decision_parse(told, "run", names, 3, &back), TRI_DATA);
    assert_int_equal(tri__decision_parse(told, "run", (char *[]){"a", "b"}, 2, &back), TRI_DATA);
    assert_non_null(strstr(tri_error(), "run/manifest.json: state.decision: its positive label"));
    free(text);
    tri__json_decref(told);
    assert_int_equal(tri__decision_parse(NULL, "run", names, 2, &back), TRI_OK);
    assert_true(back.temperature == 1 && !back.has_threshold);
}

TEST(test_damaged) {
    static const char *const texts[] = {
        "{}", "{\"temperature\": 0}", "{\"temperature\": -1}", "{\"temperature\": 1e9}", "{\"temperature\": \"1\"}",
        "{\"temperature\": 1, \"threshold\": 3, \"positive\": \"yes\"}",
        "{\"temperature\": 1, \"threshold\": -0.5, \"positive\": \"yes\"}",
        "{\"temperature\": 1, \"threshold\": true, \"positive\": \"yes\"}", "{\"temperature\": 1, \"threshold\": 0.5}",
        "{\"temperature\": 1, \"threshold\": 0.5, \"positive\": 1}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tri_json *object;
        tri_decision back;
        assert_int_equal(tri__json_parse(texts[i], strlen(texts[i]), "decision", TRI_DATA, &object), TRI_OK);
        assert_int_equal(tri__decision_parse(object, "run", names, 2, &back), TRI_DATA);
        tri__json_decref(object);
    }
}

TEST(test_forms) {
    static const char *const good[] = {"none", "f1", "precision=0.95", "recall=1", "cost=1:5", "cost=0.5:0.25", "0",
                                       "1", "0.125"},
                      *const bad[] = {"", "F1", "f1=0.5", "precision", "precision=", "precision=0", "precision=1.5",
                                      "recall=-1", "recall=nan", "recall=0.9x", "cost=1", "cost=1:", "cost=:1",
                                      "cost=0:1", "cost=1:inf", "cost=1:2:3", "1.5", "-0.1", "0.5 ", " 0.5", "0x1p-1",
                                      "inf", "accuracy"};
    tri_threshold t;
    char text[TRI_THRESHOLD_TEXT];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(tri__threshold_parse(good[i], &t), TRI_OK);
        assert_string_equal(tri__threshold_text(&t, text), good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (tri__threshold_parse(bad[i], &t) != TRI_USAGE) fail_msg("\"%s\" is taken", bad[i]);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
