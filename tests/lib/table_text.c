/* table_text.c - see table_text.h. */
#include "tests/lib/table_text.h"

char table_path[96];

void table_write(const void *bytes, size_t size) {
    FILE *file = fopen(table_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

char *table_text(const tri_table_options *options) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    tri_table *table;
    tri_status status = tri__table_open(table_path, options, &table);
    if (status != TRI_OK) {
        assert_null(table);
        const char *error = tri_error();
        size_t n = strlen(table_path);
        if (strncmp(error, table_path, n) == 0) error += n;
        const char *way_out = strstr(error, ": if it is "); /* how to make it UTF-8, with the file's name */
        fprintf(out, "status %d%.*s\n", status, (int)(way_out ? (size_t)(way_out - error) : strlen(error)), error);
        fclose(out);
        return text;
    }
    for (int c = 0; c < tri__table_columns(table); c++) fprintf(out, "[%s]", tri__table_name(table, c));
    fprintf(out, "\n");
    for (int64_t row = 0; row < tri__table_rows(table); row++, fprintf(out, "\n"))
        for (int c = 0; c < tri__table_columns(table); c++) {
            int64_t line, at;
            tri__table_where(table, row, c, &line, &at);
            tri_field_text field = tri__table_field(table, row, c);
            fprintf(out, "%lld:%lld[%.*s]", (long long)line, (long long)at, (int)field.length, field.text);
        }
    const tri_bad_row *bad;
    int described;
    fprintf(out, "bad %lld\n", (long long)tri__table_bad(table, &bad, &described));
    for (int i = 0; i < described; i++)
        fprintf(out, "%lld:%lld: %s\n", (long long)bad[i].line, (long long)bad[i].column, bad[i].why);
    assert_int_equal(tri__table_check(table), TRI_OK);
    tri__table_close(table);
    fclose(out);
    return text;
}

char *table_text_any_way(tri_bad_rows bad_rows) {
    static const size_t pieces[] = {1, 2, 3, 7, 16, 64, 100, 1000};
    static unsigned turn;
    tri_table_options options = {.bad_rows = bad_rows};
    char *want = table_text(&options);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        options.piece = pieces[i];
        options.threads = 1 + (int)(turn++ % 4);
        options.keep = turn & 1 ? 1 : 0;
        char *got = table_text(&options);
        if (strcmp(got, want))
            fail_msg("%d threads, pieces of %zu bytes, keep %zu:\n%s\nbut one thread:\n%s", options.threads,
                     options.piece, options.keep, got, want);
        free(got);
    }
    return want;
}

char *from_hex(const char *hex, size_t *size) {
    *size = strlen(hex) / 2;
    char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < *size; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        bytes[i] = (char)byte;
    }
    return bytes;
}
