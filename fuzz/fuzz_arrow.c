/* fuzz_arrow.c - an Arrow file or stream, in memory: what is accepted is clean text, the same whether it is kept or
 * read again; what is damaged is TRI_DATA, when it is opened or when a column is read. */
#include "fuzz_number.h"

#include "data/table/table_parts.h"

#include "base/text.h"

#include <string.h>

enum { ROWS = 200 }; /* a few bytes can say any number of rows of nulls */

static void same_field(const tri_table *a, const tri_table *b, int64_t row, int column) {
    tri_field_text x = tri__table_field(a, row, column), y = tri__table_field(b, row, column);
    for (size_t at = 0; at < x.length;) FUZZ_CHECK(tri__utf8_next(x.text, x.length, &at) > 0);
    FUZZ_CHECK(x.length == y.length && !memcmp(x.text, y.text, x.length));
    fuzz_number(b, row, column);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tri_table *a, *b;
    tri_status status = tri__table_open_bytes("t.arrow", data, size, NULL, &a);
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA);
    if (status != TRI_OK) return 0;
    FUZZ_CHECK(tri__table_open_bytes("t.arrow", data, size, &(tri_table_options){.keep = 1}, &b) == TRI_OK);
    int64_t rows = tri__table_rows(a), done = 0;
    for (int64_t row = 0; row < rows; row = row == ROWS && rows > 2 * ROWS ? rows - ROWS : row + 1) {
        for (int c = 0; c < tri__table_columns(a); c++) same_field(a, b, row, c);
        if (row % 7 == 6 && row < ROWS) tri__table_done(b, done, row + 1 - done), done = row + 1;
    }
    status = tri__table_check(a);
    FUZZ_CHECK((status == TRI_OK || status == TRI_DATA) && (tri__table_check(b) == TRI_OK) == (status == TRI_OK));
    tri__table_close(b);
    tri__table_close(a);
    return 0;
}
