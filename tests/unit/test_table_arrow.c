/* test_table_arrow.c - Arrow files and streams: every type as text, dictionaries that grow, compression; columns that
 * are not read; numbers; what is damaged. The files come from tools/golden_arrow.py. */
#include "data/table/columnar.h"
#include "data/table/unpack.h"
#include "tests/lib/test.h"
#include "tests/lib/table_numbers.h"

static const char *golden(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "tests/golden/arrow/%s", name);
    return path;
}

/* The first rows of a table as text; columns that are not read as "?". The caller frees it. */
static char *rows_of(const tri_table *table) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (int64_t row = 0; row < tri__table_rows(table) && row < 100; row++, fprintf(out, "\n"))
        for (int c = 0; c < tri__table_columns(table); c++) {
            tri_field_text field = tri__table_field(table, row, c);
            double value;
            (void)table_number(table, row, c, &value);
            if (tri__table_unread(table, c)) fprintf(out, "%s?", c ? "|" : "");
            else fprintf(out, "%s%.*s", c ? "|" : "", (int)field.length, field.text);
        }
    fclose(out);
    return text;
}

static void expect_rows(const char *name, const char *rows) {
    for (size_t keep = 0; keep < 2; keep++) {
        tri_table *table;
        if (tri__table_open(golden(name), &(tri_table_options){.keep = keep}, &table) != TRI_OK)
            fail_msg("%s", tri_error());
        for (int again = 0; again < 2; again++) {
            char *text = rows_of(table);
            assert_string_equal(text, rows);
            free(text);
            for (int64_t row = 0; row < tri__table_rows(table); row++) tri__table_done(table, row, 1);
        }
        assert_int_equal(tri__table_check(table), TRI_OK);
        tri__table_close(table);
    }
}

TEST(reads_every_type) {
    static const char rows[] =
        "-128|0|-32768|65535|-2147483648|4294967295|-9223372036854775808|18446744073709551615|0.1|0.1|0.1|true|"
        "2024-01-31|2024-01-31|12:00:01.005|12:00:01.005000000|2024-01-31 12:00:01|2024-01-31 12:00:01.005000Z|-1.50|"
        "123456789012345678901234567890.5000|é,\"\n|a text of more than twelve bytes|a text of more than twelve bytes|"
        "ab|abc||x|?|?|1\n"
        "|||||||||||||||||||||||||||?|?|\n"
        "127|255|1|0|5|5|5|5|-2.0|1e+30||false|"
        "2024-01-31|2024-01-31|12:00:01.005|12:00:01.005000000|2024-01-31 12:00:01|2024-01-31 12:00:01.005000Z|-1.50|"
        "123456789012345678901234567890.5000||x|short||xyz||y|?|?|3\n";
    expect_rows("types.arrow", rows);
    expect_rows("stream.arrow", rows);
    if (tri__packer_version(TRI_PACKER_LZ4)) expect_rows("lz4.feather", rows);
    if (tri__packer_version(TRI_PACKER_ZSTD)) expect_rows("zstd.arrow", rows);
}

TEST(follows_dictionaries) {
    expect_rows("replaced.arrow", "a\n\nb\nc\na\nz\nz\n");
    expect_rows("deltas.arrow", "a\n\nb\nc\na\na\na\n");
    expect_rows("deltas_file.arrow", "a\n\nb\nc\na\na\na\n");
}

/* Integers, floats and decimals are given as numbers; nothing else is. */
TEST(has_the_numbers_of_its_texts) {
    const char *names[] = {"types.arrow", "stream.arrow", "lz4.feather", "zstd.arrow"};
    for (int i = 0; i < 4; i++) {
        if (i >= 2 && !tri__packer_version(i == 2 ? TRI_PACKER_LZ4 : TRI_PACKER_ZSTD)) continue;
        for (size_t keep = 0; keep < 2; keep++) {
            tri_table *table;
            assert_int_equal(tri__table_open(golden(names[i]), &(tri_table_options){.keep = keep}, &table), TRI_OK);
            assert_int_equal(table_numbers_compare(table, table, names[i]), 25);
            for (int c = 0; c < tri__table_columns(table); c++)
                if (!tri__table_unread(table, c) &&
                    table_has_numbers(table, c) != (c <= 10 || c == 18 || c == 19))
                    fail_msg("%s: column %s", names[i], tri__table_name(table, c));
            assert_int_equal(tri__table_check(table), TRI_OK);
            tri__table_close(table);
        }
    }
}

/* A format whose numbers say which row they are of. */
static tri_status give_numbers(const tri_table *table, void *state, const tri_column_group *group, int column,
                               int as_numbers, tri_column_text *out) {
    (void)table, (void)state, (void)column;
    assert_true(as_numbers);
    double *number = malloc((size_t)group->rows * sizeof *number);
    assert_non_null(number);
    for (int64_t i = 0; i < group->rows; i++) number[i] = (double)(group->of + group->from + i);
    out->field = (tri_field_span *)(void *)number, out->bytes = 8 * (size_t)group->rows;
    return TRI_OK;
}
static int always(const void *state, int column) { return state && !column; }
static void free_nothing(void *state) { assert_non_null(state); }

TEST(joins_the_numbers_of_groups) {
    static const tri_format format = {TRI_COLUMN_TABLE, .load = give_numbers, .has_numbers = always,
                                      .free = free_nothing};
    char *unread[] = {NULL};
    tri_table table = {.path = "t", .columns = 1, .unread = unread, .source = {.memory = "", .size = 2},
                       .options = {.keep = 1}, .format = &format};
    assert_int_equal(tri__columns_begin(&table, &table), TRI_OK);
    assert_int_equal(tri__columns_add(&table, 4, 0, 0), TRI_OK);
    assert_int_equal(tri__columns_add(&table, 6, 0, 4), TRI_OK);
    assert_int_equal(tri__columns_add(&table, 7, 10, 0), TRI_OK);
    for (int64_t first = 0; first < 17; first++)
        for (int64_t n = 0; n <= 17 - first; n++) {
            double value[18] = {[17] = -1};
            value[n] = -1;
            assert_true(tri__table_numbers(&table, first, n, 0, value));
            for (int64_t i = 0; i < n; i++) assert_true(value[i] == (double)(first + i));
            assert_true(value[n] == -1);
            tri__table_done(&table, first, n);
        }
    table.format->close(&table);
}

TEST(refuses_nested_columns_by_name) {
    tri_table *table;
    int column;
    assert_int_equal(tri__table_open(golden("types.arrow"), NULL, &table), TRI_OK);
    assert_int_equal(tri__table_find(table, "last", &column), TRI_OK);
    assert_int_equal(tri__table_find(table, "list", &column), TRI_DATA);
    assert_non_null(strstr(tri_error(), "types.arrow: column \"list\" holds lists"));
    assert_int_equal(tri__table_find(table, "struct", &column), TRI_DATA);
    char place[TRI_PLACE_BYTES];
    assert_string_equal(tri__table_place(table, 2, 0, place), "tests/golden/arrow/types.arrow: row 3");
    tri__table_close(table);
}

static char *load(const char *name, size_t *size) {
    char *bytes;
    assert_int_equal(tri__file_read(golden(name), 1 << 20, &bytes, size), TRI_OK);
    return bytes;
}

/* A column of timestamps, declared to be durations, has whole numbers of its unit, as it has in Parquet. */
TEST(durations_are_whole_numbers) {
    enum { TIMESTAMP = 10, DURATION = 18 };
    int found = 0, column;
    size_t size;
    char *bytes = load("types.arrow", &size);
    for (size_t i = 0; i < size; i++) {
        tri_table *table;
        if (bytes[i] != TIMESTAMP) continue;
        bytes[i] = DURATION;
        if (tri__table_open_bytes("t.arrow", bytes, size, NULL, &table) == TRI_OK) {
            tri_field_text field = {0};
            double value = 0;
            if (tri__table_find(table, "stamp", &column) == TRI_OK) field = tri__table_field(table, 0, column);
            if (field.length == 10 && memcmp(field.text, "1706702401", 10) == 0) {
                assert_int_equal(table_number(table, 0, column, &value), CELL_NUMBER);
                assert_true(value == 1706702401);
                found++;
            }
            tri__table_close(table);
        }
        bytes[i] = TIMESTAMP;
    }
    assert_int_equal(found, 1);
    free(bytes);
}

/* Reads a table; its status, from opening or from reading. */
static tri_status read_all(const char *bytes, size_t size) {
    tri_table *table;
    TRI_TRY(tri__table_open_bytes("t.arrow", bytes, size, NULL, &table));
    free(rows_of(table));
    tri_status status = tri__table_check(table);
    tri__table_close(table);
    return status;
}

/* The first place of a text in bytes. */
static char *find(char *bytes, size_t size, const char *text, size_t n) {
    char *found = memmem(bytes, size, text, n);
    assert_non_null(found);
    return found;
}

TEST(names_what_is_damaged) {
    size_t size;
    char *bytes = load("deltas.arrow", &size);
    for (size_t cut = 0; cut < size; cut++) { /* only at the end of a message is a shorter stream one */
        tri_status status = read_all(bytes, cut);
        if (status != TRI_OK) assert_int_equal(status, TRI_DATA);
        if (status != TRI_OK) assert_non_null(strstr(tri_error(), "t.arrow"));
    }
    free(bytes);
    bytes = load("types.arrow", &size);
    for (size_t cut = 0; cut < size; cut += 7) { /* a file ends in its footer */
        assert_int_equal(read_all(bytes, cut), TRI_DATA);
    }
    char *text = find(bytes, size, "a text of more", 14);
    text[2] = '\xC3';
    assert_int_equal(read_all(bytes, size), TRI_DATA);
    assert_non_null(strstr(tri_error(), "column \"large\", batch 1, row 1 of it: bytes that are not text in UTF-8"));
    text[2] = 0;
    assert_int_equal(read_all(bytes, size), TRI_DATA);
    assert_non_null(strstr(tri_error(), "0 byte"));
    free(bytes);
}

/* Single bytes changed: the same rows, others, or TRI_DATA, never anything else. */
TEST(survives_mutation) {
    size_t size;
    char *bytes = load("stream.arrow", &size);
    for (size_t at = 0; at < size; at += 3) {
        char was = bytes[at];
        bytes[at] = (char)(at % 2 ? was ^ 0x55 : 0xFF);
        tri_status status = read_all(bytes, size);
        if (status != TRI_OK && status != TRI_DATA) fail_msg("byte %zu: status %d, %s", at, status, tri_error());
        bytes[at] = was;
    }
    free(bytes);
}

TEST(refuses_other_arrows) {
    assert_int_equal(read_all("FEA1 and so on", 14), TRI_DATA);
    assert_non_null(strstr(tri_error(), "Feather version 1"));
    assert_int_equal(read_all("", 0), TRI_DATA);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
