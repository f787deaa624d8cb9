/* test_table_any.c - hostile tables are read the same by 1 to 4 threads and pieces of any size, and as Python reads them. */
#include "base/limits.h"
#include "data/csv.h"
#include "table_text.h"

static json_t *cases(const char *path, json_t **root) {
    if (tri__json_load(path, TRI_DATA, root) != TRI_OK) fail_msg("%s", tri_error());
    return json_object_get(*root, "cases");
}

/* What table_text says, without places of fields. */
static char *expected(const json_t *names, const json_t *rows) {
    char *text = NULL;
    size_t size = 0, i, k;
    FILE *out = open_memstream(&text, &size);
    json_t *row, *field;
    json_array_foreach(names, i, field) fprintf(out, "[%s]", json_string_value(field));
    fprintf(out, "\n");
    json_array_foreach(rows, i, row) {
        json_array_foreach(row, k, field) fprintf(out, "[%s]", json_string_value(field));
        fprintf(out, "\n");
    }
    fclose(out);
    return text;
}

static char *found(const tri_table_options *options, int64_t *bad, const tri_bad_row **rows, int *described, tri_table **table) {
    if (tri__table_open(table_path, options, table) != TRI_OK) fail_msg("%s", tri_error());
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (int c = 0; c < tri__table_columns(*table); c++) fprintf(out, "[%s]", tri__table_name(*table, c));
    fprintf(out, "\n");
    for (int64_t row = 0; row < tri__table_rows(*table); row++, fprintf(out, "\n"))
        for (int c = 0; c < tri__table_columns(*table); c++) {
            tri_field_text field = tri__table_field(*table, row, c);
            fprintf(out, "[%.*s]", (int)field.length, field.text);
        }
    fclose(out);
    *bad = tri__table_bad(*table, rows, described);
    return text;
}

static void equals_python(void **state) {
    (void)state;
    json_t *root, *one;
    size_t i;
    table_name_file(".csv");
    assert_true(json_array_size(cases("tests/golden/csv_python.json", &root)) >= 50);
    json_array_foreach(json_object_get(root, "cases"), i, one) {
        const json_t *text = json_object_get(one, "text");
        const json_t *rows = json_object_get(one, "rows"), *names = json_array_get(rows, 0);
        json_t *body = json_array();
        for (size_t k = 1; k < json_array_size(rows); k++) json_array_append(body, json_array_get(rows, k));
        table_write(json_string_value(text), json_string_length(text));
        char *want = expected(names, body);
        const tri_bad_row *bad;
        int described;
        int64_t n_bad;
        tri_table *table;
        char *got = found(NULL, &n_bad, &bad, &described, &table);
        if (strcmp(got, want)) fail_msg("case %zu:\n%s\nnot\n%s", i, got, want);
        tri__table_close(table);
        free(got);
        free(want);
        free(table_text_any_way(TRI_BAD_ROWS_FAIL));
        json_decref(body);
    }
    json_decref(root);
    unlink(table_path);
}

/* The rows left are Python's, each bad row has its place and reason, and without skipping the first of them is the error. */
static void hostile_case(size_t index, const json_t *one) {
    json_t *names = json_array(), *bad = json_object_get(one, "bad");
    for (int c = 0; c < json_integer_value(json_object_get(one, "columns")); c++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", c);
        json_array_append_new(names, json_string(name));
    }
    char *want = expected(names, json_object_get(one, "rows"));
    const tri_bad_row *rows;
    int described;
    int64_t n_bad;
    tri_table *table;
    tri_table_options options = {.bad_rows = TRI_BAD_ROWS_SKIP};
    char *got = found(&options, &n_bad, &rows, &described, &table);
    if (strcmp(got, want)) fail_msg("case %zu:\n%s\nnot\n%s", index, got, want);
    assert_int_equal(n_bad, json_array_size(bad));
    assert_int_equal(described, n_bad < 100 ? n_bad : 100);
    for (int i = 0; i < described; i++) {
        const json_t *fault = json_array_get(bad, (size_t)i);
        const char *why = json_string_value(json_array_get(fault, 2));
        json_int_t line = json_integer_value(json_array_get(fault, 0)), column = json_integer_value(json_array_get(fault, 1));
        if (rows[i].line != line || rows[i].column != column || strncmp(rows[i].why, why, strlen(why)))
            fail_msg("case %zu: bad row %d is %lld:%lld: %s, not %s", index, i, (long long)rows[i].line, (long long)rows[i].column,
                     rows[i].why, json_dumps(fault, 0));
    }
    char *fails = table_text_any_way(TRI_BAD_ROWS_FAIL), first[300];
    if (n_bad) {
        snprintf(first, sizeof first, "status %d:%lld:%lld: %s\n", TRI_DATA, (long long)rows[0].line,
                 (long long)rows[0].column, rows[0].why);
        assert_string_equal(fails, first);
    }
    free(fails);
    free(table_text_any_way(TRI_BAD_ROWS_SKIP));
    tri__table_close(table);
    free(got);
    free(want);
    json_decref(names);
}

static void hostile_bytes(void **state) {
    (void)state;
    json_t *root, *one;
    size_t i, size;
    assert_true(json_array_size(cases("tests/golden/csv_hostile.json", &root)) >= 300);
    json_array_foreach(json_object_get(root, "cases"), i, one) {
        table_name_file(strcmp(json_string_value(json_object_get(one, "kind")), "tsv") ? ".csv" : ".tsv");
        char *bytes = from_hex(json_string_value(json_object_get(one, "hex")), &size);
        table_write(bytes, size);
        hostile_case(i, one);
        free(bytes);
        unlink(table_path);
    }
    json_decref(root);
}

static void json_lines(void **state) {
    (void)state;
    json_t *root, *one;
    size_t i, size;
    table_name_file(".jsonl");
    assert_true(json_array_size(cases("tests/golden/csv_jsonl.json", &root)) >= 80);
    json_array_foreach(json_object_get(root, "cases"), i, one) {
        char *bytes = from_hex(json_string_value(json_object_get(one, "hex")), &size);
        table_write(bytes, size);
        char *want = expected(json_object_get(one, "names"), json_object_get(one, "rows"));
        const json_t *bad = json_object_get(one, "bad");
        const tri_bad_row *rows;
        int described;
        int64_t n_bad;
        tri_table *table;
        tri_table_options options = {.bad_rows = TRI_BAD_ROWS_SKIP};
        char *got = found(&options, &n_bad, &rows, &described, &table);
        for (int k = 0; k < described; k++)
            if ((size_t)k >= json_array_size(bad) || rows[k].line != json_integer_value(json_array_get(bad, (size_t)k)))
                fail_msg("case %zu: line %lld column %lld is refused: %s\n%.*s", i, (long long)rows[k].line, (long long)rows[k].column,
                         rows[k].why, (int)size, bytes);
        if (n_bad != (int64_t)json_array_size(bad))
            fail_msg("case %zu: %lld bad lines, not %zu", i, (long long)n_bad, json_array_size(bad));
        if (strcmp(got, want)) fail_msg("case %zu:\n%s\nnot\n%s", i, got, want);
        tri__table_close(table);
        free(got);
        free(want);
        free(table_text_any_way(TRI_BAD_ROWS_FAIL));
        free(table_text_any_way(TRI_BAD_ROWS_SKIP));
        free(bytes);
    }
    json_decref(root);
    unlink(table_path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_python), cmocka_unit_test(hostile_bytes), cmocka_unit_test(json_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
