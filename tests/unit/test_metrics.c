/* test_metrics.c - scores against scikit-learn 1.9.1: precision_recall_curve + auc, average_precision_score,
 * roc_auc_score, precision_recall_fscore_support, f1_score(average="macro"), confusion_matrix and log_loss of the same
 * rows. */
#include "score/best.h"
#include "score/metrics.h"

#include <math.h>

#include "tests/lib/test.h"

enum { ROWS = 8, CLASSES = 3 };

/* Probabilities of class 1 for two classes, of all for three. NAN: undefined. */
static const struct {
    const char *name;
    int classes, n;
    float probs[ROWS * CLASSES];
    int32_t labels[ROWS];
    double weights[CLASSES]; /* all 0: none given */
    double accuracy, f1_macro, pr_auc, roc_auc, log_loss, loss;
    double f1[CLASSES], precision[CLASSES], recall[CLASSES];
    int64_t support[CLASSES];
    double average_precision;
    struct {
        double pr_auc, average_precision, roc_auc;
    } of_0; /* of two classes, when class 0 is the positive one */
    int64_t confusion[CLASSES * CLASSES];
} cases[] = {
    {"plain", 2, 4, {0.1f, 0.4f, 0.35f, 0.8f}, {0, 0, 1, 1}, {1, 2}, 0.75, 0.7333333333333334, 0.7916666666666666,
     0.75, 0.47228795102999166, 0.5270195803435986, {0.8, 2.0 / 3}, {2.0 / 3, 1}, {1, 0.5}, {2, 2},
     0.8333333333333333, {0.7916666666666666, 0.8333333333333333, 0.75}, {2, 0, 1, 1}},
    {"ties", 2, 8, {0.5f, 0.5f, 0.25f, 0.75f, 0.75f, 0.5f, 0.25f, 0.75f}, {0, 1, 0, 1, 0, 1, 1, 1}, {1, 3}, 0.5, 0.5,
     0.7291666666666665, 0.5666666666666667, 0.7143845601593699, 0.689499011975647, {0.5, 0.5}, {0.4, 2.0 / 3}, {2.0 /
     3, 0.4}, {3, 5}, 0.6583333333333332, {0.5291666666666667, 0.42499999999999993, 0.5666666666666667}, {2, 1, 3,
     2}},
    {"all ties", 2, 6, {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f}, {0, 1, 0, 1, 1, 1}, {0}, 1.0 / 3, 0.25,
     0.8333333333333333, 0.5, 0.6931471805599453, 0.6931471805599453, {0.5, 0}, {1.0 / 3, 0}, {1, 0}, {2, 4},
     0.6666666666666666, {0.6666666666666666, 0.3333333333333333, 0.5}, {2, 0, 4, 0}},
    {"only class 1", 2, 3, {0.25f, 0.75f, 0.5f}, {1, 1, 1}, {0}, 1.0 / 3, 0.25, 1, NAN, 0.789041204710539,
     0.789041204710539, {0, 0.5}, {0, 1}, {0, 1.0 / 3}, {0, 3}, 1, {NAN, NAN, NAN}, {0, 0, 2, 1}},
    {"only class 0", 2, 3, {0.25f, 0.75f, 0.5f}, {0, 0, 0}, {0}, 2.0 / 3, 0.4, NAN, NAN, 0.789041204710539,
     0.789041204710539, {0.8, 0}, {1, 0}, {2.0 / 3, 0}, {3, 0}, NAN, {1, 1, NAN}, {2, 1, 0, 0}},
    {"all right", 2, 4, {0.125f, 0.25f, 0.75f, 0.875f}, {0, 0, 1, 1}, {0}, 1, 1, 1, 1, 0.21060673253815176,
     0.21060673253815176, {1, 1}, {1, 1}, {1, 1}, {2, 2}, 1, {1, 1, 1}, {2, 0, 0, 2}},
    {"all wrong", 2, 4, {0.125f, 0.25f, 0.75f, 0.875f}, {1, 1, 0, 0}, {0}, 0, 0, 0.29166666666666663, 0,
     1.732867951399863, 1.732867951399863, {0, 0}, {0, 0}, {0, 0}, {2, 2}, 0.41666666666666663, {0.29166666666666663,
     0.41666666666666663, 0}, {0, 2, 2, 0}},
    {"one row", 2, 1, {0.75f}, {1}, {0}, 1, 1, 1, NAN, 0.2876820724517809, 0.2876820724517809, {0, 1}, {0, 1}, {0, 1},
     {0, 1}, 1, {NAN, NAN, NAN}, {0, 0, 0, 1}},
    {"one fraud in five, all alike", 2, 5, {0.25f, 0.25f, 0.25f, 0.25f, 0.25f}, {0, 1, 1, 1, 1}, {0}, 0.2, 1.0 / 6,
     0.9, 0.5, 1.1665719033862687, 1.1665719033862687, {1.0 / 3, 0}, {0.2, 0}, {1, 0}, {1, 4}, 0.8, {0.6, 0.2, 0.5},
     {1, 0, 4, 0}},
    {"three classes", 3, 7, {0.5f, 0.25f, 0.25f, 0.25f, 0.5f, 0.25f, 0.25f, 0.25f, 0.5f, 0.625f, 0.125f, 0.25f,
     0.125f, 0.125f, 0.75f, 0.375f, 0.375f, 0.25f, 0.25f, 0.25f, 0.5f}, {0, 1, 2, 1, 2, 0, 0}, {1, 2, 4}, 5.0 / 7,
     0.7111111111111111, 0.6701058201058201, 0.7222222222222223, 0.9733841099918671, 0.8352510167478686, {2.0 / 3, 2.0
     / 3, 0.8}, {2.0 / 3, 1, 2.0 / 3}, {2.0 / 3, 0.5, 1}, {3, 2, 2}, 0.6772486772486772, {0, 0, 0}, {2, 0, 1, 1, 1, 0,
     0, 0, 2}},
    {"class 1 absent", 3, 7, {0.5f, 0.25f, 0.25f, 0.25f, 0.5f, 0.25f, 0.25f, 0.25f, 0.5f, 0.625f, 0.125f, 0.25f,
     0.125f, 0.125f, 0.75f, 0.375f, 0.375f, 0.25f, 0.25f, 0.25f, 0.5f}, {0, 2, 2, 0, 2, 0, 0}, {0}, 5.0 / 7,
     0.5079365079365079, 0.8759920634920634, 0.8333333333333333, 0.8424854340098449, 0.8424854340098449, {6.0 / 7, 0,
     2.0 / 3}, {1, 0, 2.0 / 3}, {0.75, 0, 2.0 / 3}, {4, 0, 3}, 0.8075396825396826, {0, 0, 0}, {3, 0, 1, 0, 0, 0, 0, 1,
     2}},
    {"class 1 neither label nor prediction", 3, 4, {0.5f, 0.25f, 0.25f, 0.25f, 0.25f, 0.5f, 0.5f, 0.125f, 0.375f,
     0.125f, 0.25f, 0.625f}, {0, 2, 2, 2}, {0}, 0.75, 0.7333333333333334, 0.875, 0.9166666666666667,
     0.7092818108443382, 0.7092818108443382, {2.0 / 3, 0, 0.8}, {0.5, 0, 1}, {1, 0, 2.0 / 3}, {1, 0, 3}, 0.75, {0, 0,
     0}, {1, 0, 0, 0, 0, 0, 1, 0, 2}},
};

static void expect_near(const char *name, const char *what, double got, double want, double tolerance) {
    if (isnan(got) && isnan(want)) return;
    if (!(fabs(got - want) <= tolerance)) fail_msg("%s: %s is %.17g, expected %.17g", name, what, got, want);
}

static char *const names[] = {"good", "bad", "odd"};

static tri_label_set classes_of(int n, const double *weights, int positive) {
    return (tri_label_set){.n = n, .label = names, .weights = weights, .positive = n == 2 ? positive : -1};
}

/* Which class is the positive one changes areas and nothing else. */
static void expect_of_0(size_t i, const float *probs, const double *weights, const tri_scores *of_1) {
    tri_scores s;
    const tri_label_set classes = classes_of(2, weights, 0);
    assert_int_equal(tri__scores(probs, cases[i].labels, cases[i].n, &classes, &s), TRI_OK);
    assert_string_equal(tri__scores_positive(&s), "good");
    assert_string_equal(tri__scores_positive(of_1), "bad");
    expect_near(cases[i].name, "pr_auc of 0", s.pr_auc, cases[i].of_0.pr_auc, 1e-14);
    expect_near(cases[i].name, "average_precision of 0", s.average_precision, cases[i].of_0.average_precision, 1e-14);
    expect_near(cases[i].name, "roc_auc of 0", s.roc_auc, cases[i].of_0.roc_auc, 1e-14);
    assert_true(s.loss == of_1->loss && s.accuracy == of_1->accuracy && s.f1_macro == of_1->f1_macro);
    tri__scores_free(&s);
}

TEST(test_cases) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float probs[ROWS * CLASSES];
        memcpy(probs, cases[i].probs, sizeof probs);
        for (int r = 0; cases[i].classes == 2 && r < cases[i].n; r++) {
            probs[2 * r] = (float)(1.0 - (double)cases[i].probs[r]);
            probs[2 * r + 1] = cases[i].probs[r];
        }
        tri_scores s;
        const double *weights = cases[i].weights[0] ? cases[i].weights : NULL;
        const tri_label_set classes = classes_of(cases[i].classes, weights, 1);
        assert_int_equal(tri__scores(probs, cases[i].labels, cases[i].n, &classes, &s), TRI_OK);
        const char *name = cases[i].name;
        assert_int_equal(s.rows, cases[i].n);
        assert_int_equal(s.n_classes, cases[i].classes);
        expect_near(name, "accuracy", s.accuracy, cases[i].accuracy, 1e-15);
        expect_near(name, "macro f1", s.f1_macro, cases[i].f1_macro, 1e-15);
        expect_near(name, "pr_auc", s.pr_auc, cases[i].pr_auc, 1e-14);
        expect_near(name, "average_precision", s.average_precision, cases[i].average_precision, 1e-14);
        expect_near(name, "roc_auc", s.roc_auc, cases[i].roc_auc, 1e-14);
        expect_near(name, "log_loss", s.log_loss, cases[i].log_loss, 1e-7); /* 1 - p is rounded to float */
        expect_near(name, "loss", s.loss, cases[i].loss, 1e-7);
        for (int c = 0; c < s.n_classes; c++) {
            expect_near(name, "f1", s.f1[c], cases[i].f1[c], 1e-15);
            expect_near(name, "precision", s.precision[c], cases[i].precision[c], 1e-15);
            expect_near(name, "recall", s.recall[c], cases[i].recall[c], 1e-15);
            assert_int_equal(s.support[c], cases[i].support[c]);
        }
        size_t cells = (size_t)(s.n_classes * s.n_classes);
        assert_memory_equal(s.confusion, cases[i].confusion, cells * sizeof *s.confusion);
        if (s.n_classes == 2) expect_of_0(i, probs, weights, &s);
        else assert_null(tri__scores_positive(&s));
        tri__scores_free(&s);
    }
}

/* Thousands of rows with many and with few ties. */
TEST(test_many) {
    static const struct {
        uint32_t levels;
        double accuracy, f1_macro, pr_auc, average_precision, roc_auc, log_loss, loss;
    } rows[] = {
        {63, 0.738, 0.7377314369914793, 0.8142641146051642, 0.8108895354375406, 0.818997899789979, 0.5170073765542355,
         0.5206638281879206},
        {1023, 0.75, 0.7498999599839936, 0.8373856946577829, 0.8373661411594284, 0.8312909723640529, 0.5048269508193429,
         0.5040257145862134},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum { N = 1000 };
        float probs[2 * N];
        int32_t labels[N];
        uint32_t x = 7, levels = rows[i].levels;
        for (int r = 0; r < N; r++) { /* a linear congruential generator: the same rows in Python */
            uint32_t q = (x = x * 1664525u + 1013904223u) >> 8;
            labels[r] = ((x = x * 1664525u + 1013904223u) >> 8) % levels < q % levels;
            double p = (q % levels + 1) / (double)(levels + 1);
            probs[2 * r] = (float)(1 - p), probs[2 * r + 1] = (float)p;
        }
        tri_scores s;
        const double weights[2] = {1, 2};
        const tri_label_set classes = classes_of(2, weights, 1);
        assert_int_equal(tri__scores(probs, labels, N, &classes, &s), TRI_OK);
        expect_near("many", "accuracy", s.accuracy, rows[i].accuracy, 1e-15);
        expect_near("many", "macro f1", s.f1_macro, rows[i].f1_macro, 1e-14);
        expect_near("many", "pr_auc", s.pr_auc, rows[i].pr_auc, 1e-12);
        expect_near("many", "average_precision", s.average_precision, rows[i].average_precision, 1e-12);
        expect_near("many", "roc_auc", s.roc_auc, rows[i].roc_auc, 1e-12);
        expect_near("many", "log_loss", s.log_loss, rows[i].log_loss, 1e-12);
        expect_near("many", "loss", s.loss, rows[i].loss, 1e-12);
        tri__scores_free(&s);
    }
}

TEST(test_refused) {
    tri_scores s;
    const float bad[] = {0.5f, 0.5f, NAN, 0.5f};
    const int32_t labels[] = {0, 1};
    const tri_label_set classes = classes_of(2, NULL, 1);
    assert_int_equal(tri__scores(bad, labels, 2, &classes, &s), TRI_NOTFINITE);
    assert_non_null(strstr(tri_error(), "class good in row 2"));
    assert_int_equal(tri__scores(bad, labels, 0, &classes, &s), TRI_DATA);
    tri__scores_free(&s);
    const float certain[] = {1, 0};
    assert_int_equal(tri__scores(certain, labels + 1, 1, &classes, &s), TRI_OK);
    assert_true(isfinite(s.loss) && s.loss > 80);
    tri__scores_free(&s);
}

/* Of one fraud in 201 rows, with a model that finds nothing: what is said belongs to the fraud, and says that nothing
 * is found. */
TEST(test_rare) {
    enum { N = 201 };
    float probs[2 * N];
    int32_t labels[N];
    char *const label[] = {"fraud", "ok"};
    for (int i = 0; i < N; i++) probs[2 * i] = 0.25f, probs[2 * i + 1] = 0.75f, labels[i] = i > 0;
    const tri_label_set classes = {.n = 2, .label = label, .positive = 0};
    tri_scores s;
    assert_int_equal(tri__scores(probs, labels, N, &classes, &s), TRI_OK);
    expect_near("rare", "average_precision", s.average_precision, 0.004975124378109453, 1e-15);
    expect_near("rare", "pr_auc", s.pr_auc, 0.5024875621890548, 1e-15);
    tri__scores_free(&s);
}

TEST(test_json) {
    tri_scores s;
    const float probs[] = {0.75f, 0.25f, 0.75f, 0.25f};
    const int32_t labels[] = {0, 1};
    const tri_label_set classes = classes_of(2, NULL, 1);
    assert_int_equal(tri__scores(probs, labels, 1, &classes, &s), TRI_OK);
    tri_json *json = tri__scores_json(&s);
    char *line = tri__json_line(json);
    assert_string_equal(
        line, "{\"loss\":0.287682072,\"accuracy\":1.0,\"f1\":{\"macro\":1.0,\"per_class\":{\"good\":1.0,\"bad\":0.0}},"
              "\"pr_auc\":null,\"average_precision\":null,\"roc_auc\":null,\"log_loss\":0.287682072,"
              "\"positive_label\":\"bad\",\"classes\":{"
              "\"good\":{\"rows\":1,\"precision\":1.0,\"recall\":1.0,\"f1\":1.0},"
              "\"bad\":{\"rows\":0,\"precision\":0.0,\"recall\":0.0,\"f1\":0.0}},"
              "\"confusion\":{\"good\":{\"good\":1,\"bad\":0},\"bad\":{\"good\":0,\"bad\":0}},\"rows\":1,"
              "\"ece\":0.25,\"brier\":0.0625,\"reliability\":[{\"from\":0.733333333,\"to\":0.8,\"rows\":1,"
              "\"confidence\":0.75,\"accuracy\":1.0}]}");
    free(line);
    tri__json_decref(json);
    tri__scores_free(&s);
    assert_int_equal(tri__scores(probs, labels, 2, &classes, &s), TRI_OK);
    json = tri__scores_figures(&s);
    line = tri__json_line(json);
    assert_string_equal(line, "{\"valid_loss\":0.836988217,\"accuracy\":0.5,\"f1_macro\":0.333333333,\"pr_auc\":0.75,"
                              "\"average_precision\":0.5,\"roc_auc\":0.5,\"positive_label\":\"bad\"}");
    free(line);
    tri__json_decref(json);
    tri__scores_free(&s);
}

/* --best-by: figures by their names; a tie leaves the earlier one, and what is not defined is never better. */
TEST(test_best) {
    const tri_scores s = {.loss = 1, .accuracy = 2, .f1_macro = 3, .pr_auc = 4, .average_precision = 5, .roc_auc = 6};
    static const struct {
        const char *name, *key;
        double figure;
    } rows[] = {{"loss", "valid_loss", 1}, {"accuracy", "accuracy", 2}, {"f1", "f1_macro", 3}, {"pr_auc", "pr_auc", 4},
                {"roc_auc", "roc_auc", 6}};
    tri_settings settings;
    assert_int_equal(tri__settings_init(&settings), TRI_OK);
    tri_json *figures = tri__scores_figures(&s);
    for (int by = TRI_BEST_LOSS; by <= TRI_BEST_ROC_AUC; by++) {
        const tri_option *row = tri__option_find(tri__run_options, "best_by");
        assert_int_equal(tri__option_set_text(row, &settings, "best_by", rows[by].name), TRI_OK);
        assert_int_equal(settings.best_by, by);
        assert_string_equal(tri__best_name((tri_best_by)by), rows[by].name);
        assert_string_equal(tri__best_key((tri_best_by)by), rows[by].key);
        assert_true(tri__best_figure((tri_best_by)by, &s) == rows[by].figure);
        assert_true(tri__json_number_value(tri__json_get(figures, rows[by].key)) == rows[by].figure);
        double better = by == TRI_BEST_LOSS ? 0.4 : 0.6;
        assert_true(tri__best_beats((tri_best_by)by, better, 0.5));
        assert_false(tri__best_beats((tri_best_by)by, 0.5, better));
        assert_false(tri__best_beats((tri_best_by)by, 0.5, 0.5));
        assert_true(tri__best_beats((tri_best_by)by, 0.5, NAN));
        assert_false(tri__best_beats((tri_best_by)by, NAN, NAN));
        assert_false(tri__best_beats((tri_best_by)by, NAN, 0.5));
        assert_false(tri__best_beats((tri_best_by)by, INFINITY, NAN));
    }
    tri__json_decref(figures);
    tri__settings_free(&settings);
}

/* So many classes that no one wants to see each against each. */
TEST(test_many_classes) {
    enum { N = TRI_CONFUSION_MAX + 1 };
    char *label[N], text[N][12];
    float probs[N];
    const int32_t labels[] = {7};
    for (int c = 0; c < N; c++) snprintf(text[c], sizeof text[c], "%d", c), label[c] = text[c], probs[c] = c == 7;
    const tri_label_set classes = {.n = N, .label = label, .positive = -1};
    tri_scores s;
    assert_int_equal(tri__scores(probs, labels, 1, &classes, &s), TRI_OK);
    assert_null(s.confusion);
    assert_true(s.f1_macro == 1);
    tri_json *json = tri__scores_json(&s);
    assert_null(tri__json_get(json, "confusion"));
    assert_true(tri__json_is_null(tri__json_get(json, "positive_label")));
    tri__json_decref(json);
    tri__scores_free(&s);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
