/* test_memory.c - tables in memory: every layout of Arrow arrays, batches that begin anywhere, columns of several
 * streams, what contradicts itself; that nothing is copied or kept; and the same table written for another process. */
#include "data/table/memory.h"
#include "tests/lib/arrow_arrays.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"

enum { ROWS = 41, SKIP = 3, ALL = ROWS + SKIP };

static char text_bytes[16 * ALL], view_bytes[40 * ALL];
static int32_t text_offset[ALL + 1], codes[ALL], place_offset[4] = {0, 5, 9, 15};
static int64_t long_offset[ALL + 1], integer[ALL], view_size[1];
static double real[ALL];
static uint8_t valid[(ALL + 7) / 8], flag[(ALL + 7) / 8];
static struct view {
    int32_t length;
    char begin[4];
    int32_t buffer, at;
} view[ALL];

/* Row i as text, columns joined; what the arrays below hold. */
static char *expected(int i, char out[static 200]) {
    static const char *const places[] = {"north", "east", "south!"};
    char number[32] = "", long_text[64] = "";
    if (i % 5) snprintf(number, sizeof number, "%d", i - 20);
    if (i % 3 == 0) snprintf(long_text, sizeof long_text, "a text that is not inside its view %d", i);
    else snprintf(long_text, sizeof long_text, "in%d", i);
    snprintf(out, 200, "w%d|w%d|%s|%.2f|%s|%s|%s", i, i, number, i + 0.25, i % 7 ? "false" : "true", places[i % 3],
             long_text);
    return out;
}

static void fill(void) {
    memset(valid, 0, sizeof valid);
    memset(flag, 0, sizeof flag);
    int32_t at = 0, in_views = 0;
    for (int k = 0; k < ALL; k++) {
        int i = k - SKIP; /* the first SKIP rows are nobody's */
        at += sprintf(text_bytes + at, "w%d", i);
        text_offset[k + 1] = at, long_offset[k + 1] = at;
        integer[k] = i - 20, real[k] = i + 0.25, codes[k] = ((i % 3) + 3) % 3;
        if (i % 5) valid[k / 8] |= (uint8_t)(1 << k % 8);
        if (i % 7 == 0) flag[k / 8] |= (uint8_t)(1 << k % 8);
        char text[64];
        int n = i % 3 ? snprintf(text, sizeof text, "in%d", i)
                      : snprintf(text, sizeof text, "a text that is not inside its view %d", i);
        view[k] = (struct view){.length = n};
        if (n <= 12) memcpy(view[k].begin, text, (size_t)n);
        else {
            memcpy(view[k].begin, text, 4);
            view[k].at = in_views;
            memcpy(view_bytes + in_views, text, (size_t)n);
            in_views += n;
        }
    }
    view_size[0] = in_views;
}

static made_column names = {"", "u", 3, {NULL, place_offset, "northeastsouth!"}, 0, NULL, 3};

static made_stream all_columns(void) {
    fill();
    return (made_stream){.column = {{"text", "u", 3, {NULL, text_offset, text_bytes}, 0, NULL, 0},
                                    {"long", "U", 3, {NULL, long_offset, text_bytes}, 0, NULL, 0},
                                    {"integer", "l", 2, {valid, integer}, -1, NULL, 0},
                                    {"real", "g", 2, {NULL, real}, 0, NULL, 0},
                                    {"flag", "b", 2, {NULL, flag}, 0, NULL, 0},
                                    {"place", "i", 2, {NULL, codes}, 0, &names, 0},
                                    {"view", "vu", 4, {NULL, view, view_bytes, view_size}, 0, NULL, 0}},
                         .n = 7, .rows = ROWS, .batch = ROWS, .skip = SKIP, .fails_at = -1};
}

static tri_status add(tri_tables *tables, const char *name, const char *column, made_stream *made) {
    struct ArrowArrayStream stream;
    make_stream(made, &stream);
    return tri_tables_add(tables, name, column, &stream);
}

static tri_table *open_table(const tri_tables *tables, const char *path) {
    tri_table *table;
    if (tri__table_open(path, &(tri_table_options){.tables = tables}, &table) != TRI_OK) fail_msg("%s", tri_error());
    return table;
}

static void expect_all(tri_table *table) {
    assert_int_equal(tri__table_rows(table), ROWS);
    for (int row = 0; row < ROWS; row++) {
        char want[200], have[200] = "";
        for (int c = 0; c < 7; c++) {
            tri_field_text field = tri__table_field(table, row, c);
            snprintf(have + strlen(have), sizeof have - strlen(have), "%s%.*s", c ? "|" : "", (int)field.length,
                     field.text);
        }
        assert_string_equal(have, expected(row, want));
    }
    double value[ROWS];
    assert_int_equal(tri__table_numbers(table, 0, ROWS, 3, value), 1);
    for (int row = 0; row < ROWS; row++) assert_true(value[row] == row + 0.25);
    assert_int_equal(tri__table_check(table), TRI_OK);
    tri__table_close(table);
}

TEST(reads_every_layout_in_batches_of_any_size) {
    for (int64_t batch = 1; batch <= ROWS + 1; batch += batch < 9 ? 1 : 16) {
        tri_tables *tables;
        assert_int_equal(tri_tables_open(&tables), TRI_OK);
        made_stream made = all_columns();
        made.batch = batch;
        if (add(tables, "train", NULL, &made) != TRI_OK) fail_msg("%s", tri_error());
        assert_int_equal(tri_tables_rows(tables, "train"), ROWS);
        assert_int_equal(tri_tables_rows(tables, "valid"), -1);
        expect_all(open_table(tables, "memory:train"));
        expect_all(open_table(tables, "memory:train"));
        tri_tables_close(tables);
        assert_int_equal(made_held, 0);
    }
}

TEST(columns_of_several_streams_need_not_have_the_same_batches) {
    tri_tables *tables;
    assert_int_equal(tri_tables_open(&tables), TRI_OK);
    made_stream made = all_columns(), label = {.column = {{"x", "l", 2, {valid, integer}, -1, NULL, 0}}, .n = 1,
                                               .bare = 1, .rows = ROWS, .batch = 7, .skip = SKIP, .fails_at = -1};
    made.batch = 10;
    assert_int_equal(add(tables, "train", NULL, &made), TRI_OK);
    assert_int_equal(add(tables, "train", "label", &label), TRI_OK);
    tri_table *table = open_table(tables, "memory:train");
    int column;
    assert_int_equal(tri__table_find(table, "label", &column), TRI_OK);
    for (int row = 0; row < ROWS; row++) {
        tri_field_text field = tri__table_field(table, row, column);
        char have[32], want[32] = "";
        snprintf(have, sizeof have, "%.*s", (int)field.length, field.text);
        if (row % 5) snprintf(want, sizeof want, "%d", row - 20);
        assert_string_equal(have, want);
    }
    expect_all(table);
    tri_tables_close(tables);
    assert_int_equal(made_held, 0);
}

TEST(values_are_not_copied) {
    tri_tables *tables;
    const tri_image *image;
    assert_int_equal(tri_tables_open(&tables), TRI_OK);
    made_stream made = all_columns();
    assert_int_equal(add(tables, "train", NULL, &made), TRI_OK);
    assert_int_equal(tri__memory_find(tables, "train", &image), TRI_OK);
    int texts = 0, views = 0;
    for (size_t i = 0; i < image->pieces; i++) {
        texts += image->piece[i].bytes == text_bytes + text_offset[SKIP];
        views += image->piece[i].bytes == view_bytes;
    }
    assert_int_equal(texts, 2);
    assert_int_equal(views, 1);
    tri_tables_close(tables);
}

TEST(a_written_table_is_an_arrow_stream) {
    tri_tables *tables;
    char path[128];
    assert_int_equal(tri_tables_open(&tables), TRI_OK);
    made_stream made = all_columns();
    made.batch = 13;
    assert_int_equal(add(tables, "t", NULL, &made), TRI_OK);
    snprintf(path, sizeof path, "%s/t.arrow", folder);
    FILE *file = fopen(path, "w");
    assert_int_equal(tri_tables_write(tables, "t", fileno(file)), TRI_OK);
    assert_int_equal(tri_tables_write(tables, "u", fileno(file)), TRI_NOINPUT);
    fclose(file);
    tri_tables_close(tables);
    expect_all(open_table(NULL, path));
}

static void expect_failure(tri_tables *tables, const char *name, const char *column, made_stream *made,
                           tri_status status, const char *words) {
    assert_int_equal(add(tables, name, column, made), status);
    if (!strstr(tri_error(), words)) fail_msg("\"%s\" lacks \"%s\"", tri_error(), words);
}

TEST(what_contradicts_itself_is_refused) {
    tri_tables *tables;
    assert_int_equal(tri_tables_open(&tables), TRI_OK);
    made_stream made = all_columns(), other;
    assert_int_equal(add(tables, "train", NULL, &made), TRI_OK);
    long held = made_held;
    other = all_columns(), other.rows = 5;
    expect_failure(tables, "train", NULL, &other, TRI_DATA, "5 rows, but the columns before have 41");
    other = all_columns();
    expect_failure(tables, "train", NULL, &other, TRI_DATA, "two columns are named \"text\"");
    other = all_columns();
    expect_failure(tables, "train", "label", &other, TRI_DATA, "was given 7 columns");
    other = all_columns(), other.fails_at = 0;
    expect_failure(tables, "valid", NULL, &other, TRI_DATA, "the producer is tired");
    other = all_columns(), other.batch = 8, other.fails_at = 16;
    expect_failure(tables, "valid", NULL, &other, TRI_DATA, "the producer is tired");
    other = all_columns(), other.column[3].format = "q";
    expect_failure(tables, "valid", NULL, &other, TRI_DATA, "column \"real\" has the Arrow format \"q\"");
    other = all_columns(), other.column[5].dictionary = NULL, other.column[5].n_buffers = 1;
    expect_failure(tables, "valid", NULL, &other, TRI_DATA, "column \"place\": its Arrow array lacks buffers");
    int32_t bad[ALL + 1];
    memcpy(bad, text_offset, sizeof bad);
    bad[SKIP] = bad[ALL] + 1;
    other = all_columns(), other.column[0].buffer[1] = bad;
    expect_failure(tables, "valid", NULL, &other, TRI_DATA, "column \"text\": its Arrow array has offsets");
    other = all_columns(), other.bare = 1;
    expect_failure(tables, "valid", NULL, &other, TRI_DATA, "needs the name of its column");
    other = all_columns();
    expect_failure(tables, "a+b", NULL, &other, TRI_USAGE, "cannot be the name of a table");
    assert_int_equal(made_held, held);
    expect_all(open_table(tables, "memory:train"));
    tri_table *table;
    assert_int_equal(tri__table_open("memory:valid", &(tri_table_options){.tables = tables}, &table), TRI_NOINPUT);
    assert_non_null(strstr(tri_error(), "no such table in memory; there is train"));
    assert_int_equal(tri__table_open("memory:valid", NULL, &table), TRI_NOINPUT);
    tri_tables_close(tables);
    assert_int_equal(made_held, 0);
}

TEST(nested_columns_say_why_they_are_not_read) {
    static const struct {
        const char *format, *words;
    } cases[] = {{"+l", "holds lists"}, {"+w:3", "holds lists"}, {"+s", "holds structures"}, {"+m", "holds maps"},
                 {"+ud:0,1", "holds unions"}, {"+r", "is run-end encoded"}, {"tiM", "holds intervals"},
                 {"+vl", "holds lists"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_tables *tables;
        int column;
        assert_int_equal(tri_tables_open(&tables), TRI_OK);
        made_stream made = all_columns();
        made.column[3].format = cases[i].format;
        assert_int_equal(add(tables, "train", NULL, &made), TRI_OK);
        tri_table *table = open_table(tables, "memory:train");
        assert_int_equal(tri__table_find(table, "real", &column), TRI_DATA);
        assert_non_null(strstr(tri_error(), cases[i].words));
        assert_int_equal(tri__table_field(table, 1, 4).length, 5);
        tri__table_close(table);
        tri_tables_close(tables);
    }
}

/* Formats of a value of 4 or 8 bytes, and what 86,400 is in each. */
TEST(times_and_decimals_are_read_as_in_files) {
    static const struct {
        const char *format, *text;
    } cases[] = {{"tdm", "1970-01-01"}, {"tsm:", "1970-01-01 00:01:26.400"},
                 {"tss:UTC", "1970-01-02 00:00:00Z"}, {"tDs", "86400"}, {"d:9,2,64", "864.00"}, {"w:8", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_tables *tables;
        int64_t value[1] = {!strcmp(cases[i].format, "w:8") ? 0x6867666564636261 : 86400};
        made_stream made = {.column = {{"v", cases[i].format, 2, {NULL, value}, 0, NULL, 0}}, .n = 1, .rows = 1,
                            .batch = 1, .fails_at = -1};
        assert_int_equal(tri_tables_open(&tables), TRI_OK);
        assert_int_equal(add(tables, "t", NULL, &made), TRI_OK);
        tri_table *table = open_table(tables, "memory:t");
        tri_field_text field = tri__table_field(table, 0, 0);
        char text[64];
        snprintf(text, sizeof text, "%.*s", (int)field.length, field.text);
        assert_string_equal(text, cases[i].text ? cases[i].text : "abcdefgh");
        tri__table_close(table);
        tri_tables_close(tables);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, setup, teardown); }
