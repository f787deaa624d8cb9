/* test_division.c - rows of one table divided into parts and folds: counts as scikit-learn's, groups together, nothing
 * that depends on other rows; the datasets of the parts. */
#include "data/dataset/dataset.h"
#include "tests/lib/test.h"
#include "tests/lib/fitted_table.h"

enum { ROWS = 2000, CLASSES = 5 };

/* The parts of n rows; at [n] on return. */
static void divide(const tri_division *spec, int64_t n, const int32_t *class, int n_classes, const uint64_t *group,
                   uint16_t *at) {
    const tri_division_rows rows = {.n = n, .class = class, .n_classes = n_classes, .group = group};
    assert_int_equal(tri__division_make(spec, &rows, at), TRI_OK);
}

static void count(const uint16_t *at, const int32_t *class, int64_t n, int64_t (*out)[CLASSES], int parts) {
    memset(out, 0, (size_t)parts * sizeof *out);
    for (int64_t i = 0; i < n; i++)
        if (class[i] >= 0) out[at[i]][class[i]]++;
}

static int64_t read_number(char **at) {
    int64_t value = strtoll(*at, at, 10);
    return value;
}

/* A line of tests/golden/splits.txt, which tools/golden_splits.py wrote. */
static void compare_counts(char *line) {
    int32_t class[ROWS];
    uint16_t at[ROWS];
    int64_t have[8][CLASSES], n = 0;
    int folds = strncmp(line, "folds", 5) == 0;
    char *next = line + 5;
    int parts = (int)read_number(&next);
    tri_division spec = {.folds = folds ? parts : 0, .stratify = 1, .seed = 7};
    for (int p = 0; p < 3; p++) spec.share[p] = strtod(next, &next);
    int classes = (int)read_number(&next);
    for (int c = 0; c < classes; c++)
        for (int64_t k = read_number(&next); k > 0; k--) class[n++] = c;
    assert_true(n <= ROWS && parts <= 8 && classes <= CLASSES && tri__division_count(&spec) == parts);
    divide(&spec, n, class, classes, NULL, at);
    count(at, class, n, have, parts);
    for (int p = 0; p < parts; p++)
        for (int c = 0; c < classes; c++) {
            int64_t want = read_number(&next);
            if (have[p][c] != want)
                fail_msg("part %d has %d rows of class %d, not %d: %s", p, (int)have[p][c], c, (int)want, line);
        }
}

TEST(strata_are_those_of_scikit_learn) {
    char *text, *line;
    size_t size;
    int lines = 0;
    assert_int_equal(tri__file_read("tests/golden/splits.txt", 1 << 20, &text, &size), TRI_OK);
    for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (line[0] != '#') compare_counts(line), lines++;
    assert_int_equal(lines, 24);
    free(text);
}

/* Sizes by largest remainder; a rare class has a row in each part; rows without a class are in none; another seed is
 * another division, the same one the same. */
TEST(sizes_and_rare_classes) {
    int32_t class[ROWS];
    uint16_t at[ROWS], again[ROWS];
    int64_t have[3][CLASSES];
    for (int i = 0; i < ROWS; i++) class[i] = i == 5 || i == 99 || i == 1000 ? 2 : i == 7 ? -1 : i % 2;
    tri_division spec = {.share = {0.8, 0.15, 0.05}, .stratify = 1, .seed = 1};
    divide(&spec, ROWS, class, 3, NULL, at);
    count(at, class, ROWS, have, 3);
    for (int p = 0; p < 3; p++) assert_int_equal(have[p][2], 1);
    assert_int_equal(at[7], TRI_FOLDS_MAX);
    divide(&spec, ROWS, class, 3, NULL, again);
    assert_memory_equal(at, again, sizeof at);
    spec.seed = 2;
    divide(&spec, ROWS, class, 3, NULL, again);
    assert_memory_not_equal(at, again, sizeof at);
    spec = (tri_division){.share = {0.7, 0.2, 0.1}, .seed = 1};
    divide(&spec, ROWS, class, 3, NULL, at);
    count(at, class, ROWS, have, 3);
    static const int64_t want[] = {1399, 400, 200}; /* 1999 rows: 1399.3, 399.8, 199.9 */
    for (int p = 0; p < 3; p++) assert_int_equal(have[p][0] + have[p][1] + have[p][2], want[p]);
}

/* A fold's rows are for validation in one run and for training in all others. */
TEST(folds_cover_every_row_once) {
    int32_t class[ROWS];
    uint16_t at[ROWS];
    int64_t have[7] = {0};
    for (int i = 0; i < ROWS; i++) class[i] = i % 3;
    tri_division spec = {.folds = 7, .seed = 3};
    divide(&spec, ROWS, class, 3, NULL, at);
    for (int i = 0; i < ROWS; i++) {
        assert_true(at[i] < 7);
        have[at[i]]++;
    }
    for (int f = 0; f < 7; f++) assert_in_range(have[f], ROWS / 7, ROWS / 7 + 1);
}

/* Groups of 1 to 40 rows and one of 300: together, and sizes near the shares; with strata, classes too. */
TEST(groups_stay_together) {
    static const struct {
        tri_division spec;
        double share[4];
    } cases[] = {{{.share = {0.8, 0.1, 0.1}, .seed = 4}, {0.8, 0.1, 0.1}},
                 {{.share = {0.8, 0.1, 0.1}, .stratify = 1, .seed = 4}, {0.8, 0.1, 0.1}},
                 {{.share = {0.6, 0.4}, .stratify = 1, .seed = 5}, {0.6, 0.4}},
                 {{.folds = 4, .stratify = 1, .seed = 5}, {0.25, 0.25, 0.25, 0.25}}};
    int32_t class[ROWS];
    uint64_t group[ROWS];
    for (int i = 0, g = 0, left = 300; i < ROWS; i++, left--) {
        if (!left) g++, left = 1 + g * 7 % 40;
        group[i] = (uint64_t)g * 0x9E3779B97F4A7C15u;
        class[i] = i % 7 == 0;
    }
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        uint16_t at[ROWS];
        int64_t have[4][CLASSES], all[2] = {0};
        int parts = tri__division_count(&cases[k].spec);
        divide(&cases[k].spec, ROWS, class, 2, group, at);
        for (int i = 1; i < ROWS; i++)
            if (group[i] == group[i - 1]) assert_int_equal(at[i], at[i - 1]);
        count(at, class, ROWS, have, parts);
        for (int i = 0; i < ROWS; i++) all[class[i]]++;
        for (int p = 0; p < parts; p++) {
            double rows = (double)(have[p][0] + have[p][1]), want = cases[k].share[p] * ROWS;
            if (rows < want - 25 || rows > want + 25)
                fail_msg("case %zu: part %d has %g rows, not %g", k, p, rows, want);
            double rare = (double)have[p][1], wanted = cases[k].share[p] * (double)all[1];
            if (cases[k].spec.stratify && (rare < wanted * 0.8 - 5 || rare > wanted * 1.2 + 5))
                fail_msg("case %zu: part %d has %g rows of class 1, not %g", k, p, rare, wanted);
        }
    }
}

/* One group has half of the rows: whatever the shuffle, it is dealt first, and the others fill the parts. */
TEST(a_large_group_comes_first) {
    int32_t class[ROWS] = {0};
    uint64_t group[ROWS];
    uint16_t at[ROWS];
    for (int i = 0; i < ROWS; i++) group[i] = i < ROWS / 2 ? 7 : (uint64_t)i * 0x9E3779B97F4A7C15u;
    for (uint64_t seed = 0; seed < 16; seed++) {
        const tri_division spec = {.share = {0.8, 0.1, 0.1}, .seed = seed};
        int64_t have[3][CLASSES];
        divide(&spec, ROWS, class, 1, group, at);
        count(at, class, ROWS, have, 3);
        assert_in_range(have[0][0], 1598, 1602);
        assert_in_range(have[1][0], 198, 202);
    }
}

/* A table of `rows` rows: x is the row's number, label "a" every tenth, group of three rows. */
static const char *const texts[] = {"a", "b a", "a b b"};
static void write_rows(int rows, int changed) {
    FILE *out = fopen(path, "w");
    fputs("text,x,label,who\n", out);
    for (int i = 0; i < rows; i++)
        fprintf(out, "%s,%d,%s,g%d\n", texts[i % 3], i == changed ? 5000 : i, i % 10 ? "b" : "a", i / 3);
    fclose(out);
}

TEST(a_class_without_rows_is_named) {
    static const struct {
        int rows;
        tri_division spec;
        const char *want;
    } cases[] = {
        {20, {.share = {0.8, 0.1, 0.1}, .stratify = 1}, "no row of class \"a\" for "},
        {20, {.share = {0.8, 0.1, 0.1}, .stratify = 1}, "it has 2 of 20 rows; a class needs a row for each of 3 parts"},
        {60, {.share = {0.9, 0.05, 0.05}, .seed = 3}, "--stratify gives every part rows of each class"},
        {20, {.folds = 3}, "a class needs a row for each of 3 folds"},
        {40, {.folds = 4, .group_by = "who"}, "rows with the same \"who\" stay together (--group-by): take --stratify"},
        {40, {.share = {0.5, 0.5}, .group_by = "whom"}, "there is no column \"whom\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_table *table;
        tri_preprocess *made;
        tri_preprocess_spec spec = spec_of(1, 2);
        write_rows(cases[i].rows, -1);
        assert_int_equal(tri__table_open(path, NULL, &table), TRI_OK);
        spec.parts = &cases[i].spec;
        if (tri__preprocess_fit(table, &spec, 1, &made) != TRI_DATA) fail_msg("case %zu is accepted", i);
        assert_error(cases[i].want);
        tri__table_close(table);
    }
}

/* Columns are fitted on the rows for training: another row changes nothing. */
TEST(held_out_rows_do_not_leak) {
    const tri_division parts = {.share = {0.6, 0.2, 0.2}, .stratify = 1, .seed = 9};
    uint8_t part[200];
    double mean[3] = {0}, all = 0, n = 0;
    for (int changed = -1; changed < 200; changed += 20) {
        tri_table *table;
        tri_preprocess *made;
        tri_preprocess_spec spec = spec_of(1, 2);
        spec.parts = &parts;
        write_rows(200, changed);
        assert_int_equal(tri__table_open(path, NULL, &table), TRI_OK);
        assert_int_equal(tri__preprocess_fit(table, &spec, 1, &made), TRI_OK);
        assert_int_equal(tri__division_find(table, &parts, made, part), TRI_OK);
        if (changed < 0) {
            mean[0] = made->column[0].mean, mean[1] = made->column[0].deviation, mean[2] = made->column[0].fill;
            for (int i = 0; i < 200; i++)
                if (part[i] == TRI_ROWS_TRAIN) all += i, n++;
            assert_float_equal(mean[0], all / n, 1e-9);
        } else if (part[changed] == TRI_ROWS_TRAIN) {
            assert_true(made->column[0].mean > mean[0]);
        } else {
            assert_true(made->column[0].mean == mean[0] && made->column[0].deviation == mean[1] &&
                        made->column[0].fill == mean[2]);
        }
        tri__preprocess_free(made);
        tri__table_close(table);
    }
}

/* ---- datasets ---- */

static tri_tokenizer *both[2];

static tri_dataset *open_table(const tri_division *parts, const tri_preprocess *given, const char *cache,
                               tri_preprocess **preprocess) {
    tri_preprocess_spec fit = spec_of(1, 2);
    tri_dataset_spec spec = {.path = path, .tokenizer = both, .max_len = 16, .need_labels = 1, .threads = 2,
                             .parts = parts, .cache = cache, .preprocess = given};
    tri_dataset *data;
    fit.parts = parts;
    tri_status status = given ? tri__dataset_open(&spec, &data) : tri__dataset_fit(&spec, &fit, preprocess, &data);
    if (status != TRI_OK) fail_msg("%s", tri_error());
    return data;
}

/* A part is what a table of only its rows is: the same digest, ids and numbers; from memory or from the store of the
 * whole table, of which there is one. */
TEST(a_part_is_a_table_of_its_rows) {
    const tri_division parts = {.share = {0.6, 0.2, 0.2}, .stratify = 1, .seed = 9};
    char cache[128], vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n", file[128];
    snprintf(cache, sizeof cache, "%s/cache", folder);
    snprintf(file, sizeof file, "%s/vocab.txt", folder);
    assert_int_equal(tri__file_write(file, vocabulary, sizeof vocabulary - 1), TRI_OK);
    assert_int_equal(tri__tokenizer_load(folder, &both[0]), TRI_OK);
    for (int stored = 0; stored < 3; stored++) { /* in memory, made, found */
        tri_preprocess *made, *with;
        write_rows(100, -1);
        tri_dataset *whole = open_table(&parts, NULL, stored ? cache : NULL, &made), *part[3], *alone;
        assert_int_equal(whole->from_store, stored == 2);
        for (int p = 0; p < 3; p++) assert_int_equal(tri__dataset_part(whole, (tri_rows_for)p, &part[p]), TRI_OK);
        tri__dataset_close(whole);
        assert_int_equal(part[0]->n + part[1]->n + part[2]->n, 100);
        assert_int_equal(part[1]->n, 20);
        for (int p = 0; p < 3; p++) {
            FILE *out = fopen(path, "w");
            fputs("text,x,label,who\n", out);
            for (int64_t i = 0; i < part[p]->n; i++)
                fprintf(out, "%s,%d,%s,g\n", texts[part[p]->row[i] % 3], (int)part[p]->row[i],
                        part[p]->row[i] % 10 ? "b" : "a");
            fclose(out);
            alone = open_table(NULL, made, NULL, &with);
            assert_true(alone->digest == part[p]->digest);
            for (int64_t i = 0; i < alone->n; i++) {
                float x, y;
                assert_int_equal(tri__dataset_numbers(alone, i, &x), TRI_OK);
                assert_int_equal(tri__dataset_numbers(part[p], i, &y), TRI_OK);
                assert_true(x == y && alone->labels[i] == part[p]->labels[i]);
            }
            tri__dataset_close(alone);
            tri__dataset_close(part[p]);
        }
        tri__preprocess_free(made);
    }
    tri__tokenizer_free(both[0]);
    assert_int_equal(tri__folder_remove_all(cache), TRI_OK);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_folder, remove_folder); }
