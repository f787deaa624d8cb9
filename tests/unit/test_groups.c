/* test_groups.c - figures by group: which rows are one, and figures that are those of scikit-learn on a group's rows
 * alone, which is what fairlearn's MetricFrame calls it with. */
#include "serve/infer/groups.h"

#include <math.h>

#include "tests/lib/test.h"

enum { PER = 4, TIMES = 5, ROWS = 2 * PER * TIMES + 3, RESAMPLES = 200 };

/* Of scikit-learn 1.9.1, positive label 1 (test_metrics.c: "plain", "all wrong", "only class 1"); each row of the first
 * two is there five times, which changes none of these figures. Accuracy's interval is Wilson's, by hand. */
static const struct {
    const char *name;
    int n, times;
    float probs[PER];
    int32_t labels[PER];
    double accuracy, f1_macro, pr_auc, roc_auc, log_loss, low, high;
} cases[] = {
    {"plain", 4, TIMES, {0.1f, 0.4f, 0.35f, 0.8f}, {0, 0, 1, 1}, 0.75, 0.7333333333333334, 0.7916666666666666, 0.75,
     0.47228795102999166, 0.531299122381256, 0.8881382985923343},
    {"wrong", 4, TIMES, {0.125f, 0.25f, 0.75f, 0.875f}, {1, 1, 0, 0}, 0, 0, 0.29166666666666663, 0, 1.732867951399863,
     0, 0.16112515805281938},
    {"few", 3, 1, {0.25f, 0.75f, 0.5f}, {1, 1, 1}, 1.0 / 3, 0.25, 1, NAN, 0.789041204710539, 0.061491944720396215,
     0.7923403991979523}};
enum { GROUPS = sizeof cases / sizeof *cases };

static void expect_near(const char *name, const char *what, double got, double want, double tolerance) {
    if (isnan(got) && isnan(want)) return;
    if (!(fabs(got - want) <= tolerance)) fail_msg("%s: %s is %.17g, expected %.17g", name, what, got, want);
}

/* Rows of the groups in turn. Returns how many there are. */
static int64_t make_rows(float *probs, int32_t *labels, int32_t *of, tri_group_scores *group) {
    int64_t n = 0;
    for (int time = 0; time < TIMES; time++)
        for (int row = 0; row < PER; row++)
            for (int g = 0; g < GROUPS; g++) {
                if (row >= cases[g].n || time >= cases[g].times) continue;
                probs[2 * n] = (float)(1.0 - (double)cases[g].probs[row]), probs[2 * n + 1] = cases[g].probs[row];
                labels[n] = cases[g].labels[row], of[n++] = g;
                group[g].rows++;
            }
    return n;
}

TEST(scores_each_group_alone) {
    static char *const names[] = {"good", "bad"};
    const tri_label_set classes = {.n = 2, .label = names, .positive = 1};
    float probs[2 * ROWS];
    int32_t labels[ROWS], of[ROWS];
    tri_group_scores group[GROUPS] = {{0}};
    tri_grouped groups = {.of = of, .group = group, .n = GROUPS};
    tri_scores whole;
    int64_t n = make_rows(probs, labels, of, group);
    assert_int_equal(n, ROWS);
    const tri_scored_rows every = {probs, labels, NULL, n};
    tri_group_scores all = {0};
    assert_int_equal(tri__scores(probs, labels, n, &classes, &whole), TRI_OK);
    assert_int_equal(tri__rows_score(&every, &classes, 0, 1, &all), TRI_OK);
    expect_near("all", "accuracy", whole.accuracy, 16.0 / 43, 1e-15);
    for (int again = 0; again < 2; again++) /* scored twice: as an ensemble's first member, and as its mean */
        assert_int_equal(tri__grouped_score(&groups, &every, &classes, &all, RESAMPLES, 1 + again), TRI_OK);
    for (int g = 0; g < GROUPS; g++) {
        const double *figure = group[g].figure;
        const char *name = cases[g].name;
        tri_interval accuracy = group[g].intervals.of[TRI_FIGURE_ACCURACY];
        expect_near(name, "accuracy", figure[TRI_FIGURE_ACCURACY], cases[g].accuracy, 1e-15);
        expect_near(name, "macro f1", figure[TRI_FIGURE_F1_MACRO], cases[g].f1_macro, 1e-15);
        expect_near(name, "pr_auc", figure[TRI_FIGURE_PR_AUC], cases[g].pr_auc, 1e-14);
        expect_near(name, "roc_auc", figure[TRI_FIGURE_ROC_AUC], cases[g].roc_auc, 1e-14);
        expect_near(name, "log_loss", figure[TRI_FIGURE_LOG_LOSS], cases[g].log_loss, 1e-7);
        expect_near(name, "accuracy's low end", accuracy.low, cases[g].low, 1e-14);
        expect_near(name, "accuracy's high end", accuracy.high, cases[g].high, 1e-14);
        assert_null(group[g].intervals.precision);
    }
    static const tri_figure judged[] = {TRI_FIGURE_ACCURACY, TRI_FIGURE_F1_MACRO, TRI_FIGURE_PR_AUC,
                                        TRI_FIGURE_ROC_AUC, TRI_FIGURE_LOG_LOSS, TRI_FIGURE_BRIER};
    for (size_t f = 0; f < sizeof judged / sizeof *judged; f++) assert_int_equal(groups.worst[judged[f]], 1);
    assert_true(tri__interval_excludes(group[1].intervals.of[TRI_FIGURE_ACCURACY], whole.accuracy));
    assert_false(tri__interval_excludes(group[2].intervals.of[TRI_FIGURE_ACCURACY], whole.accuracy));
    assert_false(tri__interval_excludes(group[2].intervals.of[TRI_FIGURE_ROC_AUC], whole.roc_auc)); /* there is none */
    tri_intervals alone;
    float own_probs[2 * ROWS];
    int32_t own_labels[ROWS];
    int64_t rows = 0;
    for (int64_t i = 0; i < n; i++) {
        if (of[i] != 0) continue;
        memcpy(own_probs + 2 * rows, probs + 2 * i, 2 * sizeof *probs);
        own_labels[rows++] = labels[i];
    }
    assert_int_equal(tri__bootstrap(own_probs, own_labels, rows, &classes, RESAMPLES, 1, &alone), TRI_OK);
    assert_memory_equal(alone.of, group[0].intervals.of, sizeof alone.of);
    assert_true(alone.of[TRI_FIGURE_LOG_LOSS].low < group[0].figure[TRI_FIGURE_LOG_LOSS]);
    tri__intervals_free(&alone);
    tri__scores_free(&whole);
}

/* A group that is all rows is not worse than they are; too small a group is never named. */
TEST(names_no_worst) {
    static char *const names[] = {"good", "bad"};
    const tri_label_set classes = {.n = 2, .label = names, .positive = 1};
    float probs[2 * TRI_GROUP_LEAST];
    int32_t labels[TRI_GROUP_LEAST], of[TRI_GROUP_LEAST] = {0};
    for (int i = 0; i < TRI_GROUP_LEAST; i++) probs[2 * i] = 0.25f, probs[2 * i + 1] = 0.75f, labels[i] = i > 0;
    for (int small = 0; small < 2; small++) {
        tri_group_scores group[2] = {{.rows = TRI_GROUP_LEAST - small}, {.rows = small}};
        tri_grouped groups = {.of = of, .group = group, .n = 1 + small};
        tri_group_scores whole = {0};
        const tri_scored_rows rows = {probs, labels, NULL, TRI_GROUP_LEAST};
        of[0] = small;
        assert_int_equal(tri__rows_score(&rows, &classes, 0, 1, &whole), TRI_OK);
        assert_int_equal(tri__grouped_score(&groups, &rows, &classes, &whole, 0, 1), TRI_OK);
        for (int f = 0; f < TRI_FIGURES; f++) assert_int_equal(groups.worst[f], -1);
        assert_int_equal(group[0].intervals.resamples, 0);
    }
}

/* ---- the groups of a column ---- */

enum { TEXT = 1 << 16 };

/* "group rows, ..." of the only column of a table, which is given as field and how often it is there, in turn. */
static char *groups_of(const char *const *field, const int *times, int n, char *out) {
    static char text[TEXT];
    char *at = text;
    int most = 0;
    at += sprintf(at, "id,value\n");
    for (int i = 0; i < n; i++) most = times[i] > most ? times[i] : most;
    for (int time = 0; time < most; time++)
        for (int i = 0; i < n; i++)
            if (time < times[i]) at += sprintf(at, "%d,%s\n", i, field[i]);
    assert_true(at - text < TEXT);
    tri_table *table;
    assert_int_equal(tri__table_open_bytes("t.csv", text, (size_t)(at - text), NULL, &table), TRI_OK);
    int64_t rows = tri__table_rows(table), *row = malloc((size_t)rows * sizeof *row), counted = 0;
    for (int64_t i = 0; i < rows; i++) row[i] = i;
    char *words[] = {"NA"};
    const tri_reading reading = {.decimal = '.', .missing = {words, 1}};
    tri_grouped groups;
    assert_int_equal(tri__grouped_read(table, row, rows, 1, &reading, &groups), TRI_OK);
    assert_string_equal(groups.column, "value");
    *out = 0;
    for (int g = 0; g < groups.n; g++) {
        int64_t of = 0;
        for (int64_t i = 0; i < rows; i++) of += groups.of[i] == g;
        assert_int_equal(of, groups.group[g].rows);
        counted += of;
        sprintf(out + strlen(out), "%s%s %d", g ? ", " : "", groups.group[g].name, (int)of);
    }
    assert_int_equal(counted, rows);
    tri__grouped_free(&groups);
    tri__table_close(table);
    free(row);
    return out;
}

TEST(reads_values) {
    char out[TEXT];
    const char *const regions[] = {"south", "  north ", "NA", "west", "", "north", "east", "1.0", "1"};
    const int times[] = {22, 15, 2, 19, 3, 10, 1, 11, 12};
    assert_string_equal(groups_of(regions, times, 9, out), "north 25, 1 23, south 22, (empty) 5, (rare) 20");
    const char *const one[] = {"x"};
    assert_string_equal(groups_of(one, &times[0], 1, out), "x 22");
    assert_string_equal(groups_of(one, &times[6], 1, out), "(rare) 1");
}

/* numpy.percentile of 1, 2, ..., 100: 25.75, 50.5, 75.25. Twenty values are not cut, and one that is no number makes
 * all of them words. */
TEST(cuts_numbers_at_quartiles) {
    static char digits[102][8];
    const char *field[102];
    int times[102];
    char out[TEXT];
    for (int i = 0; i < 100; i++) {
        snprintf(digits[i], sizeof digits[i], "%d", i + 1);
        field[i] = digits[i], times[i] = 1;
    }
    field[100] = "", times[100] = 2;
    assert_string_equal(groups_of(field, times, 101, out), "1 to 25.75 25, above 25.75 to 50.5 25, above 50.5 to 75.25 "
                        "25, above 75.25 to 100 25, (empty) 2");
    field[101] = "many", times[101] = 1;
    assert_string_equal(groups_of(field, times, 102, out), "(rare) 101, (empty) 2");
    times[0] = 100; /* the first quartile and the median are 1, so no number is in the second quarter */
    assert_string_equal(groups_of(field, times, 100, out), "1 to 1 100, above 1 to 50.5 49, above 50.5 to 100 50");
    for (int i = 0; i < 20; i++) times[i] = i < 2 ? 20 : 1;
    assert_string_equal(groups_of(field, times, 20, out), "1 20, 2 20, (rare) 18");
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
