/* test_table.c - valid and invalid tables, with exact positions of faults: CSV, TSV, JSON lines; limits; skipped bad
 * rows; files that change while they are read. */
#include "base/limits.h"
#include "settings/forms.h"
#include "tests/lib/test.h"
#include "tests/lib/table_text.h"

#include <pthread.h>
#include <stdatomic.h>

static void write_text(const char *text) { table_write(text, strlen(text)); }

static int make_path(void **state) {
    (void)state;
    table_name_file(".csv");
    return 0;
}

static int remove_path(void **state) {
    (void)state;
    return unlink(table_path);
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

TEST(reads_good_tables) {
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        write_text(good[i].text);
        tri_table *table;
        if (tri__table_open(table_path, NULL, &table) != TRI_OK) fail_msg("case %zu: %s", i, tri_error());
        char got[256] = "";
        for (int c = 0; c < tri__table_columns(table); c++)
            sprintf(got + strlen(got), "%s|", tri__table_name(table, c));
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
    {"a,b,a\n", 0, "1:5: column name \"a\" appears twice"},
    {"a,\n", 0, "1:3: column 2 has no name"},
    {",\n", 0, "1:2: column 2 has no name"},
};

TEST(refuses_bad_tables) {
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        table_write(bad[i].text, bad[i].size ? bad[i].size : strlen(bad[i].text));
        tri_table *table = (tri_table *)table_path;
        assert_int_equal(tri__table_open(table_path, NULL, &table), TRI_DATA);
        assert_null(table);
        const char *error = tri_error();
        assert_int_equal(strncmp(error, table_path, strlen(table_path)), 0);
        error += strlen(table_path) + 1;
        if (strncmp(error, bad[i].want, strlen(bad[i].want)))
            fail_msg("case %zu: \"%s\", not \"%s\"", i, error, bad[i].want);
    }
}

TEST(missing_files_are_noinput) {
    tri_table *table;
    assert_int_equal(tri__table_open("/tmp/no/such/table.csv", NULL, &table), TRI_NOINPUT);
    assert_non_null(strstr(tri_error(), "/tmp/no/such/table.csv"));
}

TEST(limits_hold) {
    size_t row = TRI_LIMIT_CSV_ROW;
    char *text = malloc(row + 64);
    assert_non_null(text);
    memset(text, 'x', row + 64);
    memcpy(text, "a,b\n1,", 6);
    table_write(text, row + 64);
    tri_table *table;
    assert_int_equal(tri__table_open(table_path, NULL, &table), TRI_DATA);
    assert_non_null(strstr(tri_error(), ":2:1: row is longer than 16 MiB"));
    text[6] = '"';
    table_write(text, row + 64);
    assert_int_equal(tri__table_open(table_path, NULL, &table), TRI_DATA);
    assert_non_null(strstr(tri_error(), ":2:3: quoted field is not closed within 16 MiB"));
    memset(text, ',', TRI_LIMIT_COLUMNS + 1);
    table_write(text, TRI_LIMIT_COLUMNS + 1);
    assert_int_equal(tri__table_open(table_path, NULL, &table), TRI_DATA);
    assert_non_null(strstr(tri_error(), ":1:100001: more than 100000 columns"));
    free(text);
}

TEST(finds_columns_and_places) {
    const char *text = "row_id,Review Text,Rating\n0,\"one\ntwo \"\"x\"\"\n\",5\n1,\"\",\xC3\xA9\n";
    table_write(text, strlen(text));
    tri_table *table;
    assert_int_equal(tri__table_open(table_path, NULL, &table), TRI_OK);
    assert_string_equal(tri__table_path(table), table_path);
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

/* Any change of bytes gives a table or an error with a place in the file; sanitizers watch the rest. */
TEST(survives_mutation) {
    static const char alphabet[] = ",\"\n\r\0ab\xC3\xFF";
    unsigned random = 1;
    for (int round = 0; round < 1000; round++) {
        char text[] = "a,b,c\n1,\"two, \"\"x\"\"\",3\r\n\"p\nq\",,\n7,8,9\n";
        for (int edits = 0; edits < 1 + round % 3; edits++) {
            random = random * 1664525 + 1013904223;
            text[(random >> 8) % (sizeof text - 1)] = alphabet[(random >> 24) % (sizeof alphabet - 1)];
        }
        table_write(text, sizeof text - 1 - (random >> 16) % 4);
        tri_table *table;
        tri_status status = tri__table_open(table_path, NULL, &table);
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
            assert_int_equal(sscanf(tri_error() + strlen(table_path), ":%d:%d: ", &line, &column), 2);
            assert_true(line >= 1 && line <= 8 && column >= 1);
        }
    }
}

/* What separates fields is recognised by header and rows, quotes taken into account; what is not clear is refused. */
TEST(recognises_separators) {
    static const struct {
        const char *text;
        char separator; /* 0: refused */
        int columns;
    } cases[] = {
        {"a,b\n1,2\n", ',', 2},
        {"a;b;c\n1;2,5;x\n3;4,5;y\n", ';', 3},
        {"a\tb\n1\t2\n", '\t', 2},
        {"a|b\n1|2\n", '|', 2},
        {"a;b\n", ';', 2},
        {"a;b\r\n\"x;\r\ny\";2\r\n", ';', 2},
        {"text,label\none; two; three,1\nfour; five; six,0\n", ',', 2}, /* texts full of semicolons */
        {"text;more,label\n1;2;3,1\n4;5;6,0\n", ',', 2},                /* and a header with one */
        {"\"text;more\",label\n\"1;2\",1\n\"3;4\",0\n", ',', 2},
        {"text,label|x\none,1\n", ',', 2},
        {"Preis;Kosten, EUR;label\n1,5;2,5;x\n2,5;3,5;y\n", ';', 3}, /* a header with a comma */
        {"a;b\n1;2\n1;2\n1;2;3\n", ';', 2},                          /* a bad row among good ones */
        {"a,b\n1\n2\n3\n", ',', 2}, /* bad rows: commas are never given up for nothing */
        {"text\none; two\nthree\n", ',', 1},
        {"text; or more\none\ntwo\n", ',', 1}, /* one column */
        {"text; or more\none; two; three\nfour; five; six\nseven\n", 0, 0},
        {"a,b;c\n1,2;3\n4,5;6\n", 0, 0},
        {"a;b|c\n1;2|3\n", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_table_options options = {.bad_rows = TRI_BAD_ROWS_SKIP};
        tri_table *table;
        table_write(cases[i].text, strlen(cases[i].text));
        tri_status status = tri__table_open(table_path, &options, &table);
        if (!cases[i].separator) {
            assert_int_equal(status, TRI_DATA);
            assert_non_null(strstr(tri_error(), "--separator"));
            options.separator = ',';
            assert_int_equal(tri__table_open(table_path, &options, &table), TRI_OK);
            assert_int_equal(tri__table_separator(table), ',');
            assert_false(tri__table_recognised(table));
        } else {
            if (status != TRI_OK) fail_msg("case %zu: %s", i, tri_error());
            if (tri__table_separator(table) != cases[i].separator || tri__table_columns(table) != cases[i].columns)
                fail_msg("case %zu: %d columns, '%c'", i, tri__table_columns(table), tri__table_separator(table));
            assert_int_equal(tri__table_recognised(table), cases[i].separator != ',');
        }
        tri__table_close(table);
    }
    static const struct {
        const char *text;
        int separator; /* -1: refused */
    } names[] = {{"auto", 0}, {"comma", ','}, {";", ';'}, {"\t", '\t'}, {"\\t", '\t'},
                 {"|", '|'},  {"pipe", '|'},  {"x", -1},  {"", -1}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char separator;
        assert_int_equal(tri__separator_parse(names[i].text, &separator), names[i].separator < 0 ? TRI_USAGE : TRI_OK);
        if (names[i].separator >= 0) assert_int_equal(separator, names[i].separator);
    }
}

/* A row's number counts the rows that were left out, however the file is cut. */
TEST(numbers_rows_as_the_file_has_them) {
    enum { ROWS = 400 };
    char text[ROWS * 24] = "a,b\n", *at = text + 4;
    for (int i = 1; i <= ROWS; i++) at += sprintf(at, i % 7 == 3 ? "%d\n" : "%d,\"x\ny\"\n", i);
    table_write(text, (size_t)(at - text));
    static const size_t pieces[] = {0, 40, 333};
    for (int i = 0; i < 3; i++) {
        tri_table *table;
        tri_table_options options = {.threads = 1 + i, .bad_rows = TRI_BAD_ROWS_SKIP, .piece = pieces[i]};
        assert_int_equal(tri__table_open(table_path, &options, &table), TRI_OK);
        for (int64_t row = 0; row < tri__table_rows(table); row++) {
            tri_field_text field = tri__table_field(table, row, 0);
            char number[16];
            snprintf(number, sizeof number, "%.*s", (int)field.length, field.text);
            assert_int_equal(tri__table_record(table, row), atoi(number));
        }
        assert_int_equal(tri__table_rows(table), ROWS - 57);
        tri__table_close(table);
    }
}

/* Files that are no tables are named as what they are, with the way out. */
TEST(names_what_is_no_table) {
    static const struct {
        const char *ending, *bytes;
        size_t n;
        const char *what, *way;
    } cases[] = {
        {".csv", "\x1F\x8B\x08\0\0\0", 6, "gzip", ".csv.gz"},
        {".csv", "PAR1\x15\x04", 6, "Parquet", ".parquet"},
        {".xlsx", "PK\x03\x04\x14", 5, "Excel", "--convert-to csv"},
        {".xls", "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1\0", 9, "Excel", "--convert-to csv"},
        {".json", "\n [\n {\"a\": 1}]", 13, "JSON array", "jq -c '.[]' "},
        {".csv", "[{\"a\": 1}]", 10, "JSON array", ".jsonl"},
        {".csv", "{\"a\": 1}\n", 9, "JSON", ".jsonl"},
        {".csv", "\xFF\xFE" "a\0,\0b\0", 8, "UTF-16", "iconv -f UTF-16"},
        {".csv", "a,b\ncaf\xE9,1\n", 11, "invalid UTF-8", "Latin-1, iconv -f LATIN1 -t UTF-8 /tmp/"},
        {".csv", "caf\xE9,b\n1,1\n", 11, ":1:4: invalid UTF-8", "iconv -f LATIN1"},
        {".csv", "a,b\nit\x92s,1\n", 11, "invalid UTF-8", "iconv -f WINDOWS-1252"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_table *table;
        table_name_file(cases[i].ending);
        table_write(cases[i].bytes, cases[i].n);
        assert_int_equal(tri__table_open(table_path, NULL, &table), TRI_DATA);
        if (!strstr(tri_error(), cases[i].what) || !strstr(tri_error(), cases[i].way))
            fail_msg("case %zu: %s", i, tri_error());
        remove(table_path);
    }
    table_name_file(".csv");
    table_write("[id],b\n1,2\n", 11); /* not JSON */
    tri_table *table;
    assert_int_equal(tri__table_open(table_path, NULL, &table), TRI_OK);
    tri__table_close(table);
    table_name_file(".jsonl");
    table_write("{\"a\": 1}\n", 9);
    assert_int_equal(tri__table_open(table_path, &(tri_table_options){.separator = ';'}, &table),
                     TRI_OK); /* it has none */
    assert_int_equal(tri__table_separator(table), 0);
    tri__table_close(table);
    remove(table_path);
    table_name_file(".csv");
}

TEST(tabs_separate_tsv) {
    table_name_file(".tsv");
    write_text("a\tb\n1,5\t\"x\ty\"\n\"say \"\"hi\"\"\"\t,\n");
    char *text = table_text(NULL);
    assert_string_equal(text, "[a][b]\n2:1[1,5]2:5[x\ty]\n3:1[say \"hi\"]3:14[,]\nbad 0\n");
    free(text);
    unlink(table_path);
    table_name_file(".csv");
}

static const struct {
    const char *text, *want;
} lines[] = {
    {"{\"a\": 1, \"b\": \"x\"}\n{\"b\": null, \"c\": true}\n",
     "[a][b][c]\n1:7[1]1:15[x]1:1[]\n2:1[]2:1[]2:18[true]\nbad 0\n"},
    {"\xEF\xBB\xBF{\"a\":-0.5e+7}\r\n\r\n", "[a]\n1:6[-0.5e+7]\nbad 0\n"},
    {"{\"a\":\"\\\"\\\\\\/\\n\\u00e9\\ud83d\\ude00\\u0041\"}", "[a]\n1:6[\"\\/\n\xC3\xA9\xF0\x9F\x98\x80"
                                                               "A]\nbad 0\n"},
    {"{\"\\u0061\":1}\n{\"a\":\"\"}\n{}\n", "[a]\n1:11[1]\n2:6[]\n3:1[]\nbad 0\n"},
    {"{\"b\":1,\"a\":2}\n{\"a\":3,\"b\":4}\n", "[b][a]\n1:6[1]1:12[2]\n2:12[4]2:6[3]\nbad 0\n"},
    {"", "status 3:1:1: the file is empty; one JSON object a line was expected\n"},
    {"{\"a\":1}\n\n{\"a\":2}\n", "status 3:2:1: empty line; one JSON object a line was expected\n"},
    {"{\"a\":[1]}\n",
     "status 3:1:6: the value of \"a\" is a list; only strings, numbers, true, false and null make a table "
     "(several labels of a row are one string, as \"a;b\")\n"},
    {"{\"long name\": {\"b\":1}}\n",
     "status 3:1:15: the value of \"long name\" is an object; only strings, numbers, true, false and null "
     "make a table\n"},
    {"[1]\n", "status 3:1:1: '[' where an object ('{') was expected\n"},
    {"{\"a\":1,\"b\":2,\"a\":3}\n", "status 3:1:14: key \"a\" appears twice in the object\n"},
    {"{\"a\":1} x\n", "status 3:1:9: 'x' where the end of the line was expected\n"},
    {"{\"a\":1,}\n", "status 3:1:8: '}' where a key in double quotes was expected\n"},
    {"{\"a\" 1}\n", "status 3:1:6: '1' where ':' was expected\n"},
    {"{\"a\":1\n", "status 3:1:7: the line ends where ',' or '}' was expected\n"},
    {"{\"a\":NaN}\n", "status 3:1:6: 'N' where a value (NaN and Infinity are not JSON; write null) was expected\n"},
    {"{\"a\":01}\n", "status 3:1:6: a number that JSON does not know\n"},
    {"{\"a\":1.}\n", "status 3:1:6: a number that JSON does not know\n"},
    {"{\"\\\\u0061\":1}\n{\"\\u0061\":2}\n",
     "[\\u0061][a]\n1:12[1]1:1[]\n2:1[]2:11[2]\nbad 0\n"}, /* two keys, one text */
    {"{\"a\":\"x}\n", "status 3:1:6: string is never closed; it begins here\n"},
    {"{\"a\":\"x\ty\"}\n", "status 3:1:8: control character 0x09 in a string; write \\u0009\n"},
    {"{\"a\":\"\\x\"}\n", "status 3:1:7: unknown escape after a backslash\n"},
    {"{\"a\":\"\\ud83dx\"}\n", "status 3:1:7: half of a surrogate pair\n"},
    {"{\"a\":\"\\udc00\"}\n", "status 3:1:7: half of a surrogate pair\n"},
    {"{\"a\":\"\\u0000\"}\n", "status 3:1:7: the character U+0000, which no text may hold\n"},
    {"{\"\":1}\n", "status 3:1:2: a key without a name\n"},
    {"{\"a\":1}\n{\"a\":\"\xC3\"}\n",
     "status 3:2:7: invalid UTF-8 byte 0xc3 at byte offset 14; save the file as UTF-8\n"},
};

TEST(reads_json_lines) {
    table_name_file(".jsonl");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        write_text(lines[i].text);
        char *text = table_text(NULL);
        if (strncmp(lines[i].want, "status 3", 8) == 0) {
            char want[300];
            snprintf(want, sizeof want, "status %d%s", TRI_DATA, lines[i].want + 8);
            assert_string_equal(text, want);
        } else {
            assert_string_equal(text, lines[i].want);
        }
        free(text);
    }
    unlink(table_path);
    table_name_file(".csv");
}

/* All kinds of bad rows among good ones; the first hundred of many are described. */
TEST(leaves_bad_rows_out) {
    write_text("a,b\n1,2\n3\n4,\"x\"y\"\n\"5\n\",6\n\xFF,7\n8,\r9\n1,2,3\n10,11\n12,\"never\n13,14\n");
    char *text = table_text_any_way(TRI_BAD_ROWS_SKIP);
    assert_string_equal(text,
                        "[a][b]\n2:1[1]2:3[2]\n5:1[5\n]6:3[6]\n10:1[10]10:4[11]\nbad 6\n"
                        "3:1: row has 1 field, the header has 2\n"
                        "4:6: characters after the closing quote; quotes inside a field are doubled\n"
                        "7:1: invalid UTF-8 byte 0xff at byte offset 25; save the file as UTF-8\n"
                        "8:3: carriage return without a line feed; quote the field or use LF or CRLF line ends\n"
                        "9:1: row has 3 fields, the header has 2\n"
                        "11:4: quoted field is never closed; it begins here\n");
    free(text);
    char many[2000] = "a,b\n";
    for (int i = 0; i < 150; i++) strcat(many, i % 3 ? "1\n" : "1,2\n1\n");
    write_text(many);
    text = table_text_any_way(TRI_BAD_ROWS_SKIP);
    assert_non_null(strstr(text, "\nbad 150\n"));
    int described = 0;
    for (const char *at = text; (at = strstr(at, ":1: row has 1 field")); at++) described++;
    assert_int_equal(described, 100);
    free(text);
}

/* The keys of a bad line make no columns. */
TEST(bad_lines_name_nothing) {
    table_name_file(".jsonl");
    write_text("{\"x\":1,\"y\":[]}\n{\"z\":1,\"z\":2}\n{\"a\":1}\n{\"w\":1}}\n{\"b\":2,\"a\":3}\n");
    char *text = table_text_any_way(TRI_BAD_ROWS_SKIP);
    assert_non_null(strstr(text, "[a][b]\n3:6[1]3:1[]\n5:12[3]5:6[2]\nbad 3\n"));
    free(text);
    unlink(table_path);
    table_name_file(".csv");
}

/* A row that is too long ends where its line does, wherever windows and pieces end. */
TEST(leaves_long_rows_out) {
    size_t size = TRI_LIMIT_CSV_ROW + (3 << 20);
    char *text = malloc(size + 64);
    assert_non_null(text);
    for (int quoted = 0; quoted < 3; quoted++) {
        memset(text, quoted == 2 ? '\r' : 'x', size + 64);
        memcpy(text, "a,b\n1,2\n3,", 10);
        if (quoted == 1) text[10] = '"', text[TRI_LIMIT_CSV_ROW + (1 << 20)] = '\n', memcpy(text + size - 2, "\",", 2);
        memcpy(text + size, "\n4,5\n", 5);
        table_write(text, size + 5);
        static const char *const why[] = {
            "1: row is longer than 16 MiB",
            "3: quoted field is not closed within 16 MiB, the longest row; it begins here",
            "3: carriage return without a line feed; quote the field or use LF or CRLF line ends"};
        for (int threads = 1; threads <= 2; threads++) {
            tri_table_options options = {
                .threads = threads, .bad_rows = TRI_BAD_ROWS_SKIP, .piece = threads == 2 ? 1 << 20 : 0};
            char *got = table_text(&options), want[300];
            int line = quoted == 1 ? 5 : 4;
            snprintf(want, sizeof want, "[a][b]\n2:1[1]2:3[2]\n%d:1[4]%d:3[5]\nbad 1\n3:%s\n", line, line, why[quoted]);
            assert_string_equal(got, want);
            free(got);
        }
    }
    free(text);
}

TEST(lets_rows_go_and_reads_them_again) {
    FILE *file = fopen(table_path, "wb");
    fprintf(file, "n,text\n");
    for (int i = 0; i < 1000; i++) fprintf(file, i % 7 ? "%d,\"say \"\"%d\"\"\"\n" : "%d,%d\n", i, i);
    fclose(file);
    tri_table_options options = {.threads = 2, .piece = 500, .keep = 1};
    tri_table *table;
    assert_int_equal(tri__table_open(table_path, &options, &table), TRI_OK);
    assert_int_equal(tri__table_rows(table), 1000);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t row = 0; row < 1000; row++) {
            char want[32];
            snprintf(want, sizeof want, row % 7 ? "say \"%d\"" : "%d", (int)row);
            assert_field(table, row, 1, want);
            if (row % 100 == 99) tri__table_done(table, row - 99, 100);
        }
    assert_int_equal(tri__table_check(table), TRI_OK);
    tri__table_done(table, 0, 1000);
    assert_int_equal(truncate(table_path, 3000), 0);
    for (int64_t row = 0; row < 1000; row++) assert_true(tri__table_field(table, row, 0).length <= 3);
    assert_int_equal(tri__table_field(table, 999, 0).length, 0);
    assert_int_equal(tri__table_check(table), TRI_IO);
    assert_non_null(strstr(tri_error(), "has changed"));
    int64_t line, at;
    tri__table_where(table, 999, 1, &line, &at);
    assert_true(line >= 1 && at >= 1);
    tri__table_close(table);
}

/* The same size, other bytes. */
TEST(sees_that_a_file_was_rewritten) {
    tri_table_options options = {.keep = 1};
    tri_table *table, *kept;
    write_text("a,b\n1,2\n");
    assert_int_equal(tri__table_open(table_path, &options, &table), TRI_OK);
    assert_int_equal(tri__table_open(table_path, NULL, &kept), TRI_OK);
    usleep(20000); /* longer than a file's time is coarse */
    write_text("a,b\n\"\",\n");
    assert_int_equal(tri__table_field(table, 0, 0).length, 0);
    assert_int_equal(tri__table_check(table), TRI_IO);
    assert_field(kept, 0, 0, "1");
    assert_int_equal(tri__table_check(kept), TRI_OK);
    tri__table_close(kept);
    tri__table_close(table);
}

/* Cuts the file and makes it whole again until told to stop. */
static void *shake(void *stop) {
    while (!atomic_load((atomic_int *)stop))
        for (long size = 1 << 20; size > 10; size = size * 2 / 3)
            if (truncate(table_path, size)) return stop;
    return NULL;
}

TEST(survives_shrinking) {
    char *text = malloc(1 << 20);
    assert_non_null(text);
    for (size_t i = 0; i < 1 << 20; i += 8) memcpy(text + i, i ? "\"12\",3\n" : "name,b \n", 8);
    table_write(text, 1 << 20);
    atomic_int stop = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, shake, &stop), 0);
    int failed = 0;
    for (int round = 0; round < 60; round++) {
        tri_table_options options = {
            .threads = 1 + round % 2, .bad_rows = TRI_BAD_ROWS_SKIP, .piece = 10000, .keep = round % 3 ? 1 : 0};
        tri_table *table;
        tri_status status = tri__table_open(table_path, &options, &table);
        assert_true(status == TRI_OK || status == TRI_IO || status == TRI_DATA);
        failed += status != TRI_OK;
        for (int64_t row = 0; status == TRI_OK && row < tri__table_rows(table); row++)
            assert_true(tri__table_field(table, row, 0).length < 1 << 20);
        tri__table_close(table);
    }
    atomic_store(&stop, 1);
    void *broken;
    assert_int_equal(pthread_join(thread, &broken), 0);
    assert_null(broken);
    assert_true(failed > 0);
    free(text);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_path, remove_path); }
