/* test_numbers.c - figures of predicted numbers against scikit-learn (tools/golden_numbers.py); targets and back;
 * quantiles that cross; how often conformal intervals hold new rows. */
#include "base/random.h"
#include "data/dataset/target.h"
#include "numbers/number_loss.h"
#include "score/numbers.h"

#include <math.h>

#include "tests/lib/test.h"

enum { ROWS = 128, LEVELS = 5 };

static double same(const void *scale, double value) {
    (void)scale;
    return value;
}

static double at(const tri_json *list, size_t i) { return tri__json_number_value(tri__json_at(list, i)); }

TEST(test_figures_equal_scikit_learns) {
    tri_json *golden;
    assert_int_equal(tri__json_load("tests/golden/numbers.json", TRI_DATA, &golden), TRI_OK);
    assert_true(tri__json_size(tri__json_get(golden, "cases")) >= 6);
    tri__json_items(tri__json_get(golden, "cases"), of) {
        const tri_json *values = tri__json_get(of, "values"), *targets = tri__json_get(of, "targets"),
                       *levels = tri__json_get(of, "levels"), *want = tri__json_get(of, "figures");
        float value[ROWS * LEVELS], target[ROWS];
        double level[LEVELS], loss, got;
        int n = (int)tri__json_size(targets), columns = (int)tri__json_size(values) / n, found = 0;
        for (int i = 0; i < n * columns; i++) value[i] = (float)at(values, (size_t)i);
        for (int i = 0; i < n; i++) target[i] = (float)at(targets, (size_t)i);
        for (int c = 0; c < columns; c++) level[c] = levels ? at(levels, (size_t)c) : 0;
        const tri_number_set set = {.in_units = same, .loss = TRI_NUMBER_SQUARED, .level = levels ? level : NULL,
                                    .n = columns};
        tri_number_figures figures;
        const char *name;
        assert_int_equal(tri__number_scores(value, target, n, &set, &figures, &loss), TRI_OK);
        for (int next = 0; tri__number_figure(&figures, &next, &name, &got); found++) {
            double expected = tri__number_in(want, name);
            if (fabs(got - expected) > 1e-9 * fmax(1, fabs(expected)))
                fail_msg("%s: %s is %.15g, not %.15g", tri__text_in(of, "name"), name, got, expected);
        }
        assert_int_equal(found, levels ? 6 : 4);
    }
    tri__json_decref(golden);
}

TEST(test_targets_are_turned_back) {
    double quantile[] = {-3, 0, 0.5, 10, 40};
    tri_column_stats stats = {.mean = 12.5, .deviation = 3};
    for (int t = 0; t <= TRI_TRANSFORM_LOG; t++) {
        stats.transform = (tri_transform)t;
        stats.quantile = quantile, stats.n_quantiles = 5;
        double before = -INFINITY;
        for (double z = -2; z <= 2; z += 0.125) {
            double value = tri__target_value(&stats, z);
            assert_true(isfinite(value) && value >= before);
            before = value;
        }
    }
    stats.transform = TRI_TRANSFORM_QUANTILE_NORMAL;
    assert_true(fabs(tri__target_value(&stats, 0) - 0.5) < 1e-12); /* the median */
    assert_true(tri__target_value(&stats, 9) == 40 && tri__target_value(&stats, -9) <= -3 + 1e-9);
}

TEST(test_quantiles_are_put_in_order) {
    float values[] = {3, 1, 2, 5, 5, 4};
    const float want[] = {1, 2, 3, 4, 5, 5};
    const tri_number_set set = {.in_units = same, .n = 3};
    tri__number_sort(&set, values, 2);
    assert_memory_equal(values, want, sizeof want);
}

TEST(test_what_is_not_finite_is_refused) {
    const float values[] = {1, NAN}, targets[] = {1, 2};
    const tri_number_set set = {.in_units = same, .n = 1};
    tri_number_figures figures;
    double loss;
    assert_int_equal(tri__number_scores(values, targets, 2, &set, &figures, &loss), TRI_NOTFINITE);
    assert_int_equal(tri__number_scores(values, targets, 0, &set, &figures, &loss), TRI_DATA);
}

/* Fitted to 200 rows whose errors are skewed, an interval of 90 % holds 90 % of new rows on average, and not much more;
 * with two columns the model's own quantiles are far too narrow. */
TEST(test_intervals_hold_new_rows) {
    enum { FIT = 200, NEW = 400, TIMES = 200 };
    static float random[2 * (FIT + NEW)], values[2 * (FIT + NEW)], targets[FIT + NEW];
    for (int columns = 1; columns <= 2; columns++) {
        const tri_number_set set = {.in_units = same, .n = columns};
        double held = 0;
        for (int t = 0; t < TIMES; t++) {
            tri__random_normal(7, tri__random_id("numbers"), 1, (int64_t)t * 2 * (FIT + NEW), 2 * (FIT + NEW), random);
            for (int i = 0; i < FIT + NEW; i++) {
                targets[i] = 5 * random[2 * i] + expf(random[2 * i + 1]);
                for (int c = 0; c < columns; c++)
                    values[i * columns + c] = 5 * random[2 * i] + (columns == 1 ? 1 : (float)c * 0.1f);
            }
            tri_conformal around;
            assert_int_equal(tri__conformal_fit(values, targets, FIT, columns, 0.9, &around), TRI_OK);
            assert_true(around.share == 0.9);
            for (int i = FIT; i < FIT + NEW; i++) {
                tri_interval is = tri__conformal_of(&around, &set, values + i * columns);
                held += (double)targets[i] >= is.low && (double)targets[i] <= is.high;
            }
        }
        held /= NEW * TIMES;
        if (!(held > 0.895 && held < 0.91)) fail_msg("%d columns: %.4f of new rows are inside", columns, held);
    }
}

TEST(test_too_few_rows_promise_nothing) {
    const float values[] = {1, 2, 3, 4, 5, 6, 7, 8}, targets[] = {1, 2, 3, 4, 5, 6, 7, 8};
    tri_conformal around;
    assert_int_equal(tri__conformal_fit(values, targets, 8, 1, 0.9, &around), TRI_OK);
    assert_true(around.share == 0);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
