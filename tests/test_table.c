/* test_table.c - tables of good and hostile files with exact positions, and Python's csv module as the yardstick. */
#include "base/json.h"
#include "base/limits.h"
#include "data/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];

static void write_bytes(const char *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static int make_path(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/trident-table-%ld", (long)getpid());
    return 0;
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

static void assert_field(const tri_table *table, int64_t row, int column, const char *want) {
    tri_field_text field = tri__table_field(table, row, column);
    if (field.length != strlen(want) || memcmp(field.text, want, field.length))
        fail_msg("row %d column %d is \"%.*s\", not \"%s\"", (int)row, column, (int)field.length, field.text, want);
}

/* Fields of all rows, header included, joined: '|' after each field, '/' after each row. */
static const struct {
    const char *text, *want;
} good[] = {
    {"a,b\n1,2\n", "a|b|/1|2|/"},
    {"a,b\n1,2", "a|b|/1|2|/"},
    {"a,b\r\n1,2\r\n", "a|b|/1|2|/"},
    {"\xEF\xBB\xBF" "a,b\n1,2\n", "a|b|/1|2|/"},
    {"\xEF\xBB\xBF\"a\",b\n1,2\n", "a|b|/1|2|/"},
    {"a,b\n", "a|b|/"},
    {"a,b", "a|b|/"},
    {"a,b\n1,2\n\n", "a|b|/1|2|/"},
    {"a,b\n1,2\r\n\r\n\n", "a|b|/1|2|/"},
    {"a\n\n1\n", "a|/|/1|/"},
    {"a\n1\n\n", "a|/1|/|/"},
    {",b\n0,1\n", "|b|/0|1|/"},
    {"a,b\n,\n", "a|b|/||/"},
    {"a,b\n,", "a|b|/||/"},
    {"a,b\n\"\",\"\"\n", "a|b|/||/"},
    {"a,b\n\"x,y\",\"p\nq\"\n", "a|b|/x,y|p\nq|/"},
    {"a,b\n\"p\r\nq\",\"\r\"\r\n", "a|b|/p\r\nq|\r|/"},
    {"a,b\n\"say \"\"hi\"\"\",\"\"\"\"\n", "a|b|/say \"hi\"|\"|/"},
    {"\"a \"\"1\"\"\",b\n1,2\n", "a \"1\"|b|/1|2|/"},
    {"a,b\n5'8\",x\"\"y\n", "a|b|/5'8\"|x\"\"y|/"},
    {"a,b\n x , y \n", "a|b|/ x | y |/"},
    {"a,b\n\xC3\xA9,\xF0\x9F\x98\x80\n", "a|b|/\xC3\xA9|\xF0\x9F\x98\x80|/"},
};

static void reads_good_tables(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        write_bytes(good[i].text, strlen(good[i].text));
        tri_table *table;
        if (tri__table_open(path, NULL, &table) != TRI_OK) fail_msg("case %zu: %s", i, tri_error());
        char got[256] = "";
        for (int c = 0; c < tri__table_columns(table); c++) sprintf(got + strlen(got), "%s|", tri__table_name(table, c));
        strcat(got, "/");
        for (int64_t row = 0; row < tri__table_rows(table); row++, strcat(got, "/"))
            for (int c = 0; c < tri__table_columns(table); c++) {
                tri_field_text field = tri__table_field(table, row, c);
                sprintf(got + strlen(got), "%.*s|", (int)field.length, field.text);
            }
        if (strcmp(got, good[i].want)) fail_msg("case %zu: \"%s\", not \"%s\"", i, got, good[i].want);
        tri__table_close(table);
    }
}

/* What follows "path:" in the error. */
static const struct {
    const char *text;
    size_t size; /* 0: up to the 0 byte */
    const char *want;
} bad[] = {
    {"", 0, "1:1: the file is empty"},
    {"\xEF\xBB\xBF", 0, "1:1: the file is empty"},
    {"a,b,c\n1,2,3\n1,2\n", 0, "3:1: row has 2 fields, the header has 3"},
    {"a,b\n1,2,3\n", 0, "2:1: row has 3 fields, the header has 2"},
    {"a,b\n1\n", 0, "2:1: row has 1 field, the header has 2"},
    {"a,b\n\"p\nq\",2\n1\n", 0, "4:1: row has 1 field"},
    {"a,b\r\n\"p\r\nq\r\n\",2\r\n1\r\n", 0, "5:1: row has 1 field"},
    {"a,b\n1,2\n\n3,4\n", 0, "3:1: row has 1 field, the header has 2"},
    {"a,b\n\n1,2\n", 0, "2:1: row has 1 field"},
    {"a,b\n1,\"xy\n", 0, "2:3: quoted field is never closed; it begins here"},
    {"a,b\n\"p\nq\",\"xy\nz", 0, "3:4: quoted field is never closed"},
    {"\"a", 0, "1:1: quoted field is never closed"},
    {"a,b\n1,\"xy\"z\n", 0, "2:7: characters after the closing quote"},
    {"a,b\n1,\"p\nxy\" \n", 0, "3:4: characters after the closing quote"},
    {"a,b\n1,x\xFFz\n", 0, "2:4: invalid UTF-8 byte 0xff"},
    {"a,b\n1,\"\n\nxy\xC3\"\n", 0, "4:3: invalid UTF-8 byte 0xc3"},
    {"a,b\n\xC0\x80,2\n", 0, "2:1: invalid UTF-8 byte 0xc0"},
    {"a,b\n\xED\xA0\x80,2\n", 0, "2:1: invalid UTF-8 byte 0xed"},
    {"\xEF\xBB\xBF\xFF", 0, "1:1: invalid UTF-8 byte 0xff"},
    {"a,b\n1,\0\n", 8, "2:3: NUL byte"},
    {"a,b\n123456789,123456789\0 12345678\n", 34, "2:20: NUL byte"},
    {"a,b\n1\r2,3\n", 0, "2:2: carriage return without a line feed"},
    {"a,b\n1,2\r", 0, "2:4: carriage return without a line feed"},
    {"a,b,a\n", 0, "1:5: column name \"a\" stands twice"},
    {"a,\n", 0, "1:3: column 2 has no name"},
    {",\n", 0, "1:2: column 2 has no name"},
};

static void refuses_bad_tables(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_bytes(bad[i].text, bad[i].size ? bad[i].size : strlen(bad[i].text));
        tri_table *table = (tri_table *)path;
        assert_int_equal(tri__table_open(path, NULL, &table), TRI_DATA);
        assert_null(table);
        const char *error = tri_error();
        assert_int_equal(strncmp(error, path, strlen(path)), 0);
        error += strlen(path) + 1;
        if (strncmp(error, bad[i].want, strlen(bad[i].want))) fail_msg("case %zu: \"%s\", not \"%s\"", i, error, bad[i].want);
    }
}

static void missing_files_are_noinput(void **state) {
    (void)state;
    tri_table *table;
    assert_int_equal(tri__table_open("/tmp/no/such/table.csv", NULL, &table), TRI_NOINPUT);
    assert_non_null(strstr(tri_error(), "/tmp/no/such/table.csv"));
}

static void limits_hold(void **state) {
    (void)state;
    size_t row = TRI_LIMIT_CSV_ROW;
    char *text = malloc(row + 64);
    assert_non_null(text);
    memset(text, 'x', row + 64);
    memcpy(text, "a,b\n1,", 6);
    write_bytes(text, row + 64);
    tri_table *table;
    assert_int_equal(tri__table_open(path, NULL, &table), TRI_DATA);
    assert_non_null(strstr(tri_error(), ":2:1: row is longer than 16 MiB"));
    text[6] = '"';
    write_bytes(text, row + 64);
    assert_int_equal(tri__table_open(path, NULL, &table), TRI_DATA);
    assert_non_null(strstr(tri_error(), ":2:3: quoted field is not closed within 16 MiB"));
    memset(text, ',', TRI_LIMIT_COLUMNS + 1);
    write_bytes(text, TRI_LIMIT_COLUMNS + 1);
    assert_int_equal(tri__table_open(path, NULL, &table), TRI_DATA);
    assert_non_null(strstr(tri_error(), ":1:100001: more than 100000 columns"));
    free(text);
}

static void finds_columns_and_places(void **state) {
    (void)state;
    const char *text = "row_id,Review Text,Rating\n0,\"one\ntwo \"\"x\"\"\n\",5\n1,\"\",\xC3\xA9\n";
    write_bytes(text, strlen(text));
    tri_table *table;
    assert_int_equal(tri__table_open(path, NULL, &table), TRI_OK);
    assert_string_equal(tri__table_path(table), path);
    int column;
    assert_int_equal(tri__table_find(table, "Rating", &column), TRI_OK);
    assert_int_equal(column, 2);
    assert_int_equal(tri__table_find(table, "review_text", &column), TRI_DATA);
    assert_non_null(strstr(tri_error(), "did you mean \"Review Text\"?"));
    assert_non_null(strstr(tri_error(), "row_id, Review Text, Rating"));
    assert_field(table, 0, 1, "one\ntwo \"x\"\n");
    static const int want[2][3][2] = {{{2, 1}, {2, 3}, {4, 3}}, {{5, 1}, {5, 3}, {5, 6}}};
    for (int row = 0; row < 2; row++)
        for (int c = 0; c < 3; c++) {
            int64_t line, at;
            tri__table_where(table, row, c, &line, &at);
            assert_int_equal(line, want[row][c][0]);
            assert_int_equal(at, want[row][c][1]);
        }
    tri__table_close(table);
}

static void equals_python(void **state) {
    (void)state;
    json_t *root, *one;
    assert_int_equal(tri__json_load("tests/golden/csv_python.json", TRI_DATA, &root), TRI_OK);
    size_t i;
    assert_true(json_array_size(json_object_get(root, "cases")) >= 50);
    json_array_foreach(json_object_get(root, "cases"), i, one) {
        const json_t *text = json_object_get(one, "text"), *rows = json_object_get(one, "rows");
        write_bytes(json_string_value(text), json_string_length(text));
        tri_table *table;
        if (tri__table_open(path, NULL, &table) != TRI_OK) fail_msg("case %zu: %s", i, tri_error());
        assert_int_equal(tri__table_rows(table) + 1, json_array_size(rows));
        for (int c = 0; c < tri__table_columns(table); c++)
            assert_string_equal(tri__table_name(table, c), json_string_value(json_array_get(json_array_get(rows, 0), (size_t)c)));
        for (int64_t row = 0; row < tri__table_rows(table); row++) {
            const json_t *fields = json_array_get(rows, (size_t)row + 1);
            assert_int_equal(tri__table_columns(table), json_array_size(fields));
            for (int c = 0; c < tri__table_columns(table); c++)
                assert_field(table, row, c, json_string_value(json_array_get(fields, (size_t)c)));
        }
        tri__table_close(table);
    }
    json_decref(root);
}

/* Any change of bytes gives a table or an error with a place in the file; sanitizers watch the rest. */
static void survives_mutation(void **state) {
    (void)state;
    static const char alphabet[] = ",\"\n\r\0ab\xC3\xFF";
    unsigned random = 1;
    for (int round = 0; round < 1000; round++) {
        char text[] = "a,b,c\n1,\"two, \"\"x\"\"\",3\r\n\"p\nq\",,\n7,8,9\n";
        for (int edits = 0; edits < 1 + round % 3; edits++) {
            random = random * 1664525 + 1013904223;
            text[(random >> 8) % (sizeof text - 1)] = alphabet[(random >> 24) % (sizeof alphabet - 1)];
        }
        write_bytes(text, sizeof text - 1 - (random >> 16) % 4);
        tri_table *table;
        tri_status status = tri__table_open(path, NULL, &table);
        if (status == TRI_OK) {
            int64_t line, at;
            for (int64_t row = 0; row < tri__table_rows(table); row++) {
                tri__table_where(table, row, tri__table_columns(table) - 1, &line, &at);
                assert_true(line >= 2 && line <= 8 && at >= 1);
            }
            tri__table_close(table);
        } else {
            int line, column;
            assert_int_equal(status, TRI_DATA);
            assert_int_equal(sscanf(tri_error() + strlen(path), ":%d:%d: ", &line, &column), 2);
            assert_true(line >= 1 && line <= 8 && column >= 1);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_good_tables),        cmocka_unit_test(refuses_bad_tables),
        cmocka_unit_test(missing_files_are_noinput), cmocka_unit_test(limits_hold),
        cmocka_unit_test(finds_columns_and_places), cmocka_unit_test(equals_python),
        cmocka_unit_test(survives_mutation),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
