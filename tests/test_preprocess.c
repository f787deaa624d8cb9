/* test_preprocess.c - numbers, labels, statistics, their JSON, and whole datasets for any number of threads. */
#include "base/file.h"
#include "data/dataset.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], path[96];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/trident-preprocess-%ld", (long)getpid());
    if (mkdir(folder, 0700)) return -1;
    snprintf(path, sizeof path, "%s/table.csv", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return tri__folder_remove(folder) != TRI_OK;
}

static tri_table *table_of(const char *text) {
    assert_int_equal(tri__file_write(path, text, strlen(text)), TRI_OK);
    tri_table *table;
    if (tri__table_open(path, NULL, &table) != TRI_OK) fail_msg("%s", tri_error());
    return table;
}

static char *columns[] = {"x", "y"};

static tri_status fit(const tri_table *table, int n_columns, int n_classes, tri_preprocess **out) {
    return tri__preprocess_fit(table, "label", "text", NULL, columns, n_columns, n_classes, out);
}

static void assert_error(const char *want) {
    if (!strstr(tri_error(), want)) fail_msg("\"%s\" does not say \"%s\"", tri_error(), want);
}

static void computes_statistics(void **state) {
    (void)state;
    tri_table *table = table_of("text,x,y,label\na,1, 7 ,0\nb,,7,1\nc,4,,0\nd,-2.5e0,7.0,1\ne,  ,+7,1\nf,10,7,0\n");
    tri_preprocess *made;
    assert_int_equal(fit(table, 2, 2, &made), TRI_OK);
    const tri_column_stats *x = &made->column[0], *y = &made->column[1];
    assert_string_equal(x->name, "x");
    assert_int_equal(x->missing, 2);
    assert_true(x->fill == 2.5); /* of -2.5, 1, 4, 10 */
    double mean = (1 + 2.5 + 4 - 2.5 + 2.5 + 10) / 6, squares = 0;
    static const double filled[] = {1, 2.5, 4, -2.5, 2.5, 10};
    for (int i = 0; i < 6; i++) squares += (filled[i] - mean) * (filled[i] - mean);
    assert_true(fabs(x->mean - mean) < 1e-15 * 6);
    assert_true(fabs(x->deviation - sqrt(squares / 6)) < 1e-15 * 6);
    assert_true(y->fill == 7 && y->mean == 7 && y->deviation == 1 && y->missing == 1);
    assert_string_equal(made->label[0], "0");
    assert_string_equal(made->label[1], "1");
    assert_null(made->secondary_name);
    tri__preprocess_free(made);
    tri__table_close(table);
}

static void refuses_what_is_no_number(void **state) {
    (void)state;
    static const char *const bad[] = {"nan",  "NaN", "inf",  "-inf", "0x10", "1e999", "-1e999", "1,5", "1.5.2", "--1", "1e", "1e+",
                                      ".",    "e5",  "12a",  "1 2",  "infinity", "1_000", "\302\2401", "1f"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128];
        snprintf(text, sizeof text, "text,x,label\n\"a\nb\",1,0\n\"c\nd\",\"%s\",1\n", bad[i]);
        tri_table *table = table_of(text);
        tri_preprocess *made;
        assert_int_equal(fit(table, 1, 2, &made), TRI_DATA);
        assert_null(made);
        assert_error("table.csv:5:4: \"");
        assert_error(strstr(bad[i], "999") ? "too large" : "is not a decimal number");
        tri__table_close(table);
    }
    static const char *const good[] = {"1", "-1", "+1", "1.", ".5", "1e5", "1E-5", "\t1.25 ", "1e-999", "00012", "123456789012345678901234567890"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[128];
        snprintf(text, sizeof text, "text,x,label\na,\"%s\",0\n", good[i]);
        tri_table *table = table_of(text);
        tri_preprocess *made;
        if (fit(table, 1, 2, &made) != TRI_OK) fail_msg("%s", tri_error());
        assert_true(made->column[0].fill == strtod(good[i], NULL));
        tri__preprocess_free(made);
        tri__table_close(table);
    }
}

static void finds_the_classes(void **state) {
    (void)state;
    static const struct {
        const char *labels[4];
        int n_classes;
        const char *want[3]; /* or the error, first */
        tri_status status;
    } cases[] = {
        {{"0", "1", "1.0", " 0 "}, 2, {"0", "1"}, TRI_OK},
        {{"0", "2", "0", "2"}, 3, {"0", "1", "2"}, TRI_OK},
        {{"no", "yes", "no", "yes"}, 2, {"no", "yes"}, TRI_OK},
        {{"1", "2", "1", "2"}, 2, {"1", "2"}, TRI_OK},
        {{"b", "c", "a", "b"}, 3, {"a", "b", "c"}, TRI_OK},
        {{"no", "yes", "maybe", "yes"}, 2, {"3 different labels where 2 classes are expected: \"maybe\", \"no\", \"yes\""}, TRI_DATA},
        {{"x", "x", "x", "x"}, 2, {"1 different label where 2 classes are expected: \"x\""}, TRI_DATA},
        {{"0", "1", "", "1"}, 2, {":4:3: \"\" in column \"label\" is no label"}, TRI_DATA},
        {{"0", "1", "2", "1"}, 2, {"3 different labels"}, TRI_DATA},
        {{"0", "1", "-1", "1"}, 2, {"3 different labels"}, TRI_DATA},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256] = "text,label\n";
        for (int k = 0; k < 4; k++) sprintf(text + strlen(text), "t,%s\n", cases[i].labels[k]);
        tri_table *table = table_of(text);
        tri_preprocess *made;
        assert_int_equal(fit(table, 0, cases[i].n_classes, &made), cases[i].status);
        if (cases[i].status != TRI_OK) assert_error(cases[i].want[0]);
        for (int k = 0; made && k < made->n_classes; k++) assert_string_equal(made->label[k], cases[i].want[k]);
        tri__preprocess_free(made);
        tri__table_close(table);
    }
}

static void needs_columns_and_rows(void **state) {
    (void)state;
    tri_preprocess *made;
    tri_table *table = table_of("text,x,label\n");
    assert_int_equal(fit(table, 1, 2, &made), TRI_DATA);
    assert_error("no rows");
    tri__table_close(table);
    table = table_of("text,z,label\na,1,0\n");
    assert_int_equal(fit(table, 1, 2, &made), TRI_DATA);
    assert_error("no column \"x\"");
    tri__table_close(table);
    table = table_of("text,x,label\na,,0\n");
    assert_int_equal(fit(table, 1, 2, &made), TRI_DATA);
    assert_error("no number in any row");
    tri__table_close(table);
    table = table_of("text,x,label\na,1e308,0\nb,-1e308,1\n");
    assert_int_equal(fit(table, 1, 2, &made), TRI_DATA);
    assert_error("too large to standardise");
    tri__table_close(table);
}

static void comes_back_from_json(void **state) {
    (void)state;
    tri_table *table = table_of("text,x,y,label\na,0.1,1e-300,no\nb,0.7,3e15,yes\nc,,123456.789,no\n");
    tri_preprocess *made, *back;
    assert_int_equal(tri__preprocess_fit(table, "label", "text", "text", columns, 2, 2, &made), TRI_OK);
    json_t *json = tri__preprocess_json(made);
    assert_non_null(json);
    char *text = json_dumps(json, JSON_REAL_PRECISION(17));
    json_decref(json);
    assert_int_equal(tri__json_parse(text, strlen(text), "memory", TRI_DATA, &json), TRI_OK);
    assert_int_equal(tri__preprocess_parse(json, "memory", &back), TRI_OK);
    for (int c = 0; c < 2; c++) {
        assert_string_equal(made->column[c].name, back->column[c].name);
        assert_memory_equal(&made->column[c].fill, &back->column[c].fill, sizeof(double));
        assert_memory_equal(&made->column[c].mean, &back->column[c].mean, sizeof(double));
        assert_memory_equal(&made->column[c].deviation, &back->column[c].deviation, sizeof(double));
        assert_int_equal(made->column[c].missing, back->column[c].missing);
    }
    assert_string_equal(back->label_name, "label");
    assert_string_equal(back->secondary_name, "text");
    assert_string_equal(back->label[1], "yes");
    tri__preprocess_free(back);
    static const char *const keys[] = {"label_name", "primary_text_name", "columns", "labels"};
    for (int i = 0; i < 4; i++) { /* each of them is needed */
        json_t *less = json_copy(json);
        json_object_del(less, keys[i]);
        assert_int_equal(tri__preprocess_parse(less, "memory", &back), TRI_DATA);
        assert_error(keys[i]);
        json_decref(less);
    }
    json_object_set_new(json_array_get(json_object_get(json, "columns"), 0), "deviation", json_real(0));
    assert_int_equal(tri__preprocess_parse(json, "memory", &back), TRI_DATA);
    json_decref(json);
    free(text);
    tri__preprocess_free(made);
    tri__table_close(table);
}

static tri_tokenizer *tokenizer(void) {
    static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n##a\n##b\n";
    char file[128];
    snprintf(file, sizeof file, "%s/vocab.txt", folder);
    assert_int_equal(tri__file_write(file, vocabulary, sizeof vocabulary - 1), TRI_OK);
    tri_tokenizer *made;
    if (tri__tokenizer_load(folder, &made) != TRI_OK) fail_msg("%s", tri_error());
    return made;
}

static void loads_the_same_with_any_threads(void **state) {
    (void)state;
    enum { ROWS = 1500 };
    char *text = malloc(ROWS * 128), *to = text + sprintf(text, "text,title,x,y,label\n");
    for (int i = 0; i < ROWS; i++) {
        to += sprintf(to, "\"");
        static const char *const parts[] = {"a", "b", " ", "ab"};
        for (int k = 0; k < (i * 7) % 40; k++) to += sprintf(to, "%s", parts[(i + k) % 4]);
        to += sprintf(to, "\",%s,%d,%s,%d\n", i % 3 ? "a b" : "", i % 10, i % 5 ? "2" : "", i % 2);
    }
    tri_table *table = table_of(text);
    free(text);
    tri_preprocess *fitted;
    assert_int_equal(tri__preprocess_fit(table, "label", "text", "title", columns, 2, 2, &fitted), TRI_OK);
    tri_tokenizer *both[2] = {tokenizer(), NULL};
    both[1] = both[0];
    tri_dataset *one, *many;
    assert_int_equal(tri__dataset_load(table, fitted, both, 16, 1, 1, &one), TRI_OK);
    assert_int_equal(tri__dataset_load(table, fitted, both, 16, 1, 4, &many), TRI_OK);
    assert_int_equal(one->n, ROWS);
    assert_int_equal(one->n_texts, 2);
    assert_int_equal(one->memory, many->memory);
    for (int t = 0; t < 2; t++) {
        assert_memory_equal(one->text[t].start, many->text[t].start, (ROWS + 1) * sizeof(int64_t));
        assert_memory_equal(one->text[t].ids, many->text[t].ids, (size_t)one->text[t].start[ROWS] * sizeof(int32_t));
    }
    assert_memory_equal(one->numbers, many->numbers, ROWS * 2 * sizeof(float));
    int64_t longest = 0;
    for (int64_t row = 0; row < ROWS; row++) {
        tri_field_text field = tri__table_field(table, row, 0);
        int32_t ids[16];
        int n = tri__tokenizer_encode(both[0], field.text, field.length, 16, ids);
        int64_t start = one->text[0].start[row], length = one->text[0].start[row + 1] - start;
        assert_int_equal(length, n);
        assert_memory_equal(one->text[0].ids + start, ids, (size_t)n * sizeof *ids);
        assert_int_equal(one->labels[row], row % 2);
        double x = ((double)(row % 10) - fitted->column[0].mean) / fitted->column[0].deviation;
        assert_true(one->numbers[2 * row] == (float)x);
        assert_true(one->numbers[2 * row + 1] == 0); /* constant, missing values filled */
        if (length > longest) longest = length;
        if (row % 3 == 0) assert_int_equal(one->text[1].start[row + 1] - one->text[1].start[row], 2); /* [CLS] [SEP] */
    }
    assert_int_equal(longest, 16);
    tri__dataset_free(one);
    tri__dataset_free(many);
    tri__preprocess_free(fitted);
    tri__tokenizer_free(both[0]);
    tri__table_close(table);
}

static void knows_labels_at_evaluation(void **state) {
    (void)state;
    tri_table *table = table_of("text,label\na,no\nb,yes\n");
    tri_preprocess *fitted;
    assert_int_equal(fit(table, 0, 2, &fitted), TRI_OK);
    tri__table_close(table);
    tri_tokenizer *both[2] = {tokenizer(), NULL};
    static const struct {
        const char *text, *error;
        int needed, labels;
    } cases[] = {
        {"label,text\nyes,a\nno,b\n", NULL, 1, 1},
        {"text,label\na,yes\nb,maybe\n", ":3:3: \"maybe\" in column \"label\" is none of the known labels: \"no\", \"yes\"", 1, 0},
        {"text,label\na,yes\nb,\n", ":3:3: \"\" in column \"label\" is none of the known labels", 1, 0},
        {"text,other\na,yes\n", "there is no column \"label\"", 1, 0},
        {"text,other\na,yes\n", NULL, 0, 0},
        {"text,label\na,\n", NULL, 0, 0},
        {"text,label\n", NULL, 1, 1},
        {"title,label\na,no\n", "there is no column \"text\"", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        table = table_of(cases[i].text);
        tri_dataset *data;
        tri_status status = tri__dataset_load(table, fitted, both, 16, cases[i].needed, 2, &data);
        assert_int_equal(status, cases[i].error ? TRI_DATA : TRI_OK);
        if (cases[i].error) assert_error(cases[i].error);
        else assert_int_equal(data->labels != NULL, cases[i].labels);
        if (i == 0) assert_true(data->labels[0] == 1 && data->labels[1] == 0);
        tri__dataset_free(data);
        tri__table_close(table);
    }
    tri__tokenizer_free(both[0]);
    tri__preprocess_free(fitted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computes_statistics),    cmocka_unit_test(refuses_what_is_no_number),
        cmocka_unit_test(finds_the_classes),      cmocka_unit_test(needs_columns_and_rows),
        cmocka_unit_test(comes_back_from_json),   cmocka_unit_test(loads_the_same_with_any_threads),
        cmocka_unit_test(knows_labels_at_evaluation),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
