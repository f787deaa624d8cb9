/* test_search_space.c - spaces of a search: what is drawn from them; rungs of successive halving. */
#include "base/file.h"
#include "job/sweep.h"
#include "tests/lib/test.h"
#include "tests/lib/scratch.h"
#include "job/search_space.h"

#include <math.h>

enum { TRIALS = 400, SEED = 42 };
static const double FIRST = 0.364663; /* Philox of key (42, xxh32 "lr"), worked out in Python: it stays so */

static tri_search_space space_of(const char *text) {
    char path[TRI_PATH_MAX];
    tri_search_space space;
    assert_int_equal(tri__path_join(path, folder, "space.json"), TRI_OK);
    assert_int_equal(tri__file_write(path, text, strlen(text)), TRI_OK);
    assert_int_equal(tri__search_read(path, &space), TRI_OK);
    return space;
}

static double drawn(const tri_search_space *space, const char *key, uint32_t seed, int64_t trial) {
    tri_json *values = tri__search_draw(space, seed, trial);
    assert_non_null(values);
    double value = tri__json_number_value(tri__json_get(values, key));
    tri__json_decref(values);
    return value;
}

/* Quarters of each range, on its own scale, get a quarter of the trials. */
TEST(draws_fill_the_range) {
    tri_search_space space = space_of("{\"lr\": {\"from\": 1e-5, \"to\": 1e-1, \"scale\": \"log\"},"
                               "\"weight_decay\": {\"from\": 0, \"to\": 0.4},"
                               "\"warmup_steps\": {\"from\": 1, \"to\": 4},"
                               "\"batch_size\": [8, 16, 32, 64]}");
    int in[4][4] = {{0}};
    for (int trial = 1; trial <= TRIALS; trial++) {
        double lr = drawn(&space, "lr", SEED, trial), decay = drawn(&space, "weight_decay", SEED, trial),
               steps = drawn(&space, "warmup_steps", SEED, trial), batch = drawn(&space, "batch_size", SEED, trial);
        assert_true(lr >= 1e-5 && lr <= 1e-1 && decay >= 0 && decay <= 0.4);
        assert_true(steps == floor(steps) && steps >= 1 && steps <= 4);
        in[0][(int)fmin(3, log10(lr) + 5)]++;
        in[1][(int)fmin(3, decay * 10)]++;
        in[2][(int)steps - 1]++;
        in[3][(int)log2(batch) - 3]++;
    }
    for (int k = 0; k < 4; k++)
        for (int q = 0; q < 4; q++) assert_in_range(in[k][q], 70, 130); /* 100 expected; 3.5 deviations */
    tri__search_free(&space);
}

/* A value depends on seed, trial and key: not on the other keys, nor on trials before. */
TEST(draws_stand_alone) {
    tri_search_space both = space_of("{\"weight_decay\": [0, 1], \"lr\": {\"from\": 0, \"to\": 1}}"),
              one = space_of("{\"lr\": {\"from\": 0, \"to\": 1}}");
    int equal = 0;
    for (int trial = 1; trial <= 50; trial++) {
        assert_true(drawn(&both, "lr", SEED, trial) == drawn(&one, "lr", SEED, trial));
        equal += drawn(&one, "lr", SEED, trial) == drawn(&one, "lr", SEED + 1, trial);
        equal += drawn(&one, "lr", SEED, trial) == drawn(&one, "lr", SEED, trial + 1);
    }
    assert_int_equal(equal, 0);
    assert_true(fabs(drawn(&one, "lr", SEED, 1) - FIRST) < 1e-9);
    tri__search_free(&both);
    tri__search_free(&one);
}

TEST(logarithmic_whole_numbers) {
    tri_search_space space = space_of("{\"batch_size\": {\"from\": 1, \"to\": 7, \"scale\": \"log\"}}");
    int n[8] = {0};
    for (int trial = 1; trial <= TRIALS; trial++) n[(int)drawn(&space, "batch_size", SEED, trial)]++;
    assert_in_range(n[1], 100, 170); /* log 2 / log 8 of 400 */
    assert_in_range(n[2] + n[3], 100, 170);
    assert_in_range(n[4] + n[5] + n[6] + n[7], 100, 170);
    tri__search_free(&space);
}

/* "1x27 3x9 9x3 27x1": epochs x trials. */
static void expect_rungs(int trials, int64_t epochs, int factor, const char *text) {
    tri_rung rung[TRI_RUNGS_MAX];
    char said[256] = "";
    int n = tri__rungs(trials, epochs, factor, rung);
    for (int i = 0; i < n; i++)
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s%lldx%d", i ? " " : "", (long long)rung[i].epochs,
                 rung[i].trials);
    assert_string_equal(said, text);
}

TEST(rungs_halve) {
    expect_rungs(27, 27, 3, "1x27 3x9 9x3 27x1");
    expect_rungs(27, 10, 3, "1x27 3x9 10x3"); /* epochs end the ladder */
    expect_rungs(6, 81, 3, "27x6 81x2");      /* trials do */
    expect_rungs(10, 7, 2, "1x10 3x5 7x2");
    expect_rungs(5, 9, 1, "9x5");
    expect_rungs(1, 9, 3, "9x1");
    expect_rungs(9, 1, 3, "1x9");
}

int main(int argc, char **argv) { return run_listed(argc, argv, setup, teardown); }
