/* table_rows.c - prints a table as the readers have it, for comparison with other readers (tools/parity_arrow.py and
 * tools/parity_parquet.py).
 *   table_rows [--keep BYTES] [--threads N] [--rows N] FILE...
 * For each file: its names as a JSON array of strings, then each row (or the first N); a column that cannot be read is
 * null, and a field whose number (tri__table_numbers) is not what its text is read as says so. The last line of a file
 * is "ok", or its error. Without a file: says what it is for. */
#include "data/table/reading.h"
#include "tests/lib/table_number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_text(tri_field_text field) {
    putchar('"');
    for (size_t i = 0; i < field.length; i++) {
        unsigned char byte = (unsigned char)field.text[i];
        if (byte == '"' || byte == '\\') printf("\\%c", byte);
        else if (byte < 0x20) printf("\\u%04x", byte);
        else putchar(byte);
    }
    putchar('"');
}

static int has_other_number(const tri_table *table, int64_t row, int column) {
    double value = 0, want = 0;
    table_cell cell = table_number(table, row, column, &value);
    tri_number number = tri__field_number(&(tri_reading){.decimal = '.'}, tri__table_field(table, row, column), &want);
    if (cell == CELL_TEXT) return 0;
    return cell == CELL_EMPTY ? number != TRI_NUMBER_MISSING
                                  : number != TRI_NUMBER_GOOD || memcmp(&value, &want, sizeof value);
}

static void print_row(const tri_table *table, int64_t row) {
    for (int c = 0; c < tri__table_columns(table); c++) {
        printf("%s", c ? "," : "[");
        if (tri__table_unread(table, c)) printf("null");
        else if (row < 0) print_text((tri_field_text){tri__table_name(table, c), strlen(tri__table_name(table, c)), 0});
        else if (has_other_number(table, row, c)) printf("\"another number than its text\"");
        else print_text(tri__table_field(table, row, c));
    }
    puts("]");
}

static tri_status print_table(const char *path, const tri_table_options *options, int64_t most) {
    tri_table *table;
    TRI_TRY(tri__table_open(path, options, &table));
    int64_t rows = tri__table_rows(table) < most ? tri__table_rows(table) : most, done = 0;
    for (int64_t row = -1; row < rows; row++) {
        print_row(table, row);
        if (row % 1000 == 999) tri__table_done(table, done, row + 1 - done), done = row + 1;
    }
    tri_status status = tri__table_check(table);
    tri__table_close(table);
    return status;
}

int main(int argc, char **argv) {
    tri_table_options options = {0};
    int64_t most = INT64_MAX;
    if (argc < 2) puts("table_rows: prints tables for tools/parity_arrow.py and parity_parquet.py");
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--keep") && i + 1 < argc) options.keep = (size_t)atoll(argv[++i]);
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc) options.threads = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--rows") && i + 1 < argc) most = atoll(argv[++i]);
        else {
            tri_status status = print_table(argv[i], &options, most);
            if (status == TRI_OK) puts("ok");
            else printf("%d %s\n", status, tri_error());
        }
        fflush(stdout);
    }
    return 0;
}
