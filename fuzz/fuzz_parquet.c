/* fuzz_parquet.c - a Parquet file, in memory: every field is clean text, the same when it is asked for again and when
 * chunks are freed in between, its number what its text says, and what is damaged is TRI_DATA that names the file. */
#include "fuzz_number.h"

#include "base/text.h"
#include "data/table/table_parts.h"

#include <string.h>

enum { ROWS = 1000, COLUMNS = 64 };

/* A number made of the table's fields. */
static uint64_t read_all(const tri_table *table, int64_t rows, int columns) {
    uint64_t sum = 0;
    for (int64_t row = 0; row < rows; row++) {
        for (int c = 0; c < columns; c++) {
            fuzz_number(table, row, c);
            tri_field_text field = tri__table_field(table, row, c);
            for (size_t at = 0; at < field.length;) {
                int32_t code = tri__utf8_next(field.text, field.length, &at);
                FUZZ_CHECK(code > 0);
                sum = sum * 31 + (uint64_t)code;
            }
            sum = sum * 31 + field.length;
        }
        tri__table_done(table, row, 1);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tri_table_options options = {.keep = size & 1 ? 1 : 0};
    tri_table *table;
    tri_status status = tri__table_open_bytes("t.parquet", data, size, &options, &table);
    FUZZ_CHECK(status == TRI_OK || (status == TRI_DATA && strstr(tri_error(), "t.parquet")));
    if (status != TRI_OK) return 0;
    int64_t rows = tri__table_rows(table) < ROWS ? tri__table_rows(table) : ROWS;
    int columns = tri__table_columns(table) < COLUMNS ? tri__table_columns(table) : COLUMNS, found;
    for (int c = 0; c < columns; c++)
        FUZZ_CHECK(tri__table_find(table, tri__table_name(table, c), &found) ==
                   (tri__table_unread(table, c) ? TRI_DATA : TRI_OK));
    uint64_t sum = read_all(table, rows, columns);
    if (size & 1) FUZZ_CHECK(read_all(table, rows, columns) == sum);
    status = tri__table_check(table);
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA);
    if (status != TRI_OK) FUZZ_CHECK(strstr(tri_error(), "row group") && strstr(tri_error(), "column \""));
    tri__table_close(table);
    return 0;
}
