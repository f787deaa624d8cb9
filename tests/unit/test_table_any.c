/* test_table_any.c - hostile tables, and tables that are cut, give the same result with 1 to 4 threads and pieces of
 * any size, and the same as in Python. */
#include "base/limits.h"
#include "data/table/csv.h"
#include "tests/lib/test.h"
#include "tests/lib/table_text.h"

static tri_json *cases(const char *path, tri_json **root) {
    if (tri__json_load(path, TRI_DATA, root) != TRI_OK) fail_msg("%s", tri_error());
    return tri__json_get(*root, "cases");
}

/* What table_text says, without places of fields. */
static char *expected(const tri_json *names, const tri_json *rows) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    tri__json_each(names, i, field) fprintf(out, "[%s]", tri__json_string_value(field));
    fprintf(out, "\n");
    tri__json_each(rows, i, row) {
        tri__json_items(row, field) fprintf(out, "[%s]", tri__json_string_value(field));
        fprintf(out, "\n");
    }
    fclose(out);
    return text;
}

static char *found(const tri_table_options *options, int64_t *bad, const tri_bad_row **rows, int *described,
                   tri_table **table) {
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

TEST(equals_python) {
    tri_json *root;
    table_name_file(".csv");
    assert_true(tri__json_size(cases("tests/golden/csv_python.json", &root)) >= 50);
    tri__json_each(tri__json_get(root, "cases"), i, one) {
        const tri_json *text = tri__json_get(one, "text");
        const tri_json *rows = tri__json_get(one, "rows"), *names = tri__json_at(rows, 0);
        tri_json *body = tri__json_array();
        for (size_t k = 1; k < tri__json_size(rows); k++) tri__json_append(body, tri__json_at(rows, k));
        table_write(tri__json_string_value(text), tri__json_string_length(text));
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
        tri__json_decref(body);
    }
    tri__json_decref(root);
    unlink(table_path);
}

/* The rows left are Python's, each bad row has its place and reason, and without skipping the first of them is the
 * error. */
static void hostile_case(size_t index, const tri_json *one) {
    tri_json *names = tri__json_array(), *bad = tri__json_get(one, "bad");
    for (int c = 0; c < tri__json_integer_value(tri__json_get(one, "columns")); c++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", c);
        tri__json_append_new(names, tri__json_string(name));
    }
    char *want = expected(names, tri__json_get(one, "rows"));
    const tri_bad_row *rows;
    int described;
    int64_t n_bad;
    tri_table *table;
    tri_table_options options = {.bad_rows = TRI_BAD_ROWS_SKIP};
    char *got = found(&options, &n_bad, &rows, &described, &table);
    if (strcmp(got, want)) fail_msg("case %zu:\n%s\nnot\n%s", index, got, want);
    assert_int_equal(n_bad, tri__json_size(bad));
    assert_int_equal(described, n_bad < 100 ? n_bad : 100);
    for (int i = 0; i < described; i++) {
        const tri_json *fault = tri__json_at(bad, (size_t)i);
        const char *why = tri__json_string_value(tri__json_at(fault, 2));
        tri_json_int line = tri__json_integer_value(tri__json_at(fault, 0)),
                     column = tri__json_integer_value(tri__json_at(fault, 1));
        if (rows[i].line != line || rows[i].column != column || strncmp(rows[i].why, why, strlen(why)))
            fail_msg("case %zu: bad row %d is %lld:%lld: %s, not %s", index, i, (long long)rows[i].line,
                     (long long)rows[i].column, rows[i].why, tri__json_text(fault, 0));
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
    tri__json_decref(names);
}

TEST(hostile_bytes) {
    tri_json *root;
    size_t size;
    assert_true(tri__json_size(cases("tests/golden/csv_hostile.json", &root)) >= 300);
    tri__json_each(tri__json_get(root, "cases"), i, one) {
        table_name_file(strcmp(tri__json_string_value(tri__json_get(one, "kind")), "tsv") ? ".csv" : ".tsv");
        char *bytes = from_hex(tri__json_string_value(tri__json_get(one, "hex")), &size);
        table_write(bytes, size);
        hostile_case(i, one);
        free(bytes);
        unlink(table_path);
    }
    tri__json_decref(root);
}

TEST(json_lines) {
    tri_json *root;
    size_t size;
    table_name_file(".jsonl");
    assert_true(tri__json_size(cases("tests/golden/csv_jsonl.json", &root)) >= 80);
    tri__json_each(tri__json_get(root, "cases"), i, one) {
        char *bytes = from_hex(tri__json_string_value(tri__json_get(one, "hex")), &size);
        table_write(bytes, size);
        char *want = expected(tri__json_get(one, "names"), tri__json_get(one, "rows"));
        const tri_json *bad = tri__json_get(one, "bad");
        const tri_bad_row *rows;
        int described;
        int64_t n_bad;
        tri_table *table;
        tri_table_options options = {.bad_rows = TRI_BAD_ROWS_SKIP};
        char *got = found(&options, &n_bad, &rows, &described, &table);
        for (int k = 0; k < described; k++)
            if ((size_t)k >= tri__json_size(bad) ||
                rows[k].line != tri__json_integer_value(tri__json_at(bad, (size_t)k)))
                fail_msg("case %zu: line %lld column %lld is refused: %s\n%.*s", i, (long long)rows[k].line,
                         (long long)rows[k].column, rows[k].why, (int)size, bytes);
        if (n_bad != (int64_t)tri__json_size(bad))
            fail_msg("case %zu: %lld bad lines, not %zu", i, (long long)n_bad, tri__json_size(bad));
        if (strcmp(got, want)) fail_msg("case %zu:\n%s\nnot\n%s", i, got, want);
        tri__table_close(table);
        free(got);
        free(want);
        free(table_text_any_way(TRI_BAD_ROWS_FAIL));
        free(table_text_any_way(TRI_BAD_ROWS_SKIP));
        free(bytes);
    }
    tri__json_decref(root);
    unlink(table_path);
}

/* Rows beyond a budget are not read: the first ones that fit are there, for any threads and pieces, and it is known
 * that more follow. */
TEST(a_budget_bounds_rows) {
    static char text[1 << 16];
    for (int lines = 0; lines < 2; lines++) {
        size_t used = lines ? 0 : (size_t)sprintf(text, "a,b\n");
        for (int i = 0; i < 1000; i++)
            used += (size_t)sprintf(text + used, lines ? "{\"a\": %d, \"b\": \"x y\"}\n" : "%d,x y\n", i);
        table_name_file(lines ? ".jsonl" : ".csv");
        table_write(text, used);
        for (int i = 0; i < 8; i++) {
            int enough = i & 1;
            tri_table_options options = {.threads = i & 2 ? 4 : 1, .piece = i & 4 ? 100 : 0, .row_cost = 2,
                                         .column_cost = 5, .budget = enough ? 999 * 12 : 99 * 12};
            tri_table *table;
            assert_int_equal(tri__table_open(table_path, &options, &table), TRI_OK);
            assert_int_equal(tri__table_rows(table), enough ? 1000 : 100);
            assert_int_equal(tri__table_cut(table), !enough);
            assert_int_equal(tri__table_cost(table), tri__table_rows(table) * 12);
            for (int64_t row = 0; row < tri__table_rows(table); row++) {
                char want[24];
                snprintf(want, sizeof want, "%lld", (long long)row);
                tri_field_text field = tri__table_field(table, row, 0);
                assert_true(field.length == strlen(want) && memcmp(field.text, want, field.length) == 0);
            }
            assert_int_equal(tri__table_check(table), TRI_OK);
            tri__table_close(table);
        }
        unlink(table_path);
    }
    table_name_file(".csv");
    tri_table *table; /* two parts of 48 rows in all, 6 columns each; and binary files */
    tri_table_options options = {.row_cost = 4, .column_cost = 1, .budget = 24 * 10};
    assert_int_equal(tri__table_open("tests/golden/arrow/table-*.arrow", &options, &table), TRI_OK);
    assert_int_equal(tri__table_rows(table), 25);
    assert_true(tri__table_cut(table));
    tri__table_close(table);
    options.budget = 10;
    assert_int_equal(tri__table_open("tests/golden/arrow/table-*.arrow", &options, &table), TRI_OK);
    assert_int_equal(tri__table_rows(table), 2);
    assert_true(tri__table_cut(table));
    tri__table_close(table);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
