/* csv_rows.c - rows of column values from CSV: what is a table in a file is one in a request (data/table), its fields
 * separated by commas. An empty field is a missing value, and empty lines at the end are none. */
#include "serve/server/server_parts.h"

#include "data/table/table.h"

#include <stdlib.h>

static tri_status take_rows(const tri_table *table, tri_row_set *out) {
    int columns = tri__table_columns(table);
    int64_t rows = tri__table_rows(table);
    out->row = malloc(((size_t)rows + 1) * sizeof *out->row);
    out->value = malloc(((size_t)rows * (size_t)columns + 1) * sizeof *out->value);
    if (!out->row || !out->value) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_column_value *to = out->value;
    for (; out->n < rows; out->n++) {
        out->row[out->n] = (tri_row){.value = to, .n = columns};
        for (int c = 0; c < columns; c++, to++) {
            tri_field_text field = tri__table_field(table, out->n, c);
            *to = (tri_column_value){.column = tri__table_name(table, c), .value = field.length ? field.text : NULL,
                                     .length = field.length};
        }
    }
    return TRI_OK;
}

tri_status tri__rows_of_csv(const char *body, size_t length, tri_row_set *out) {
    const tri_table_options options = {.separator = ',', .keep = SIZE_MAX}; /* the body may go, the rows stay */
    *out = (tri_row_set){0};
    while (length && (body[length - 1] == '\n' || body[length - 1] == '\r')) length--;
    tri_status status = tri__table_open_bytes("CSV", body, length, &options, &out->table);
    if (status == TRI_OK) status = take_rows(out->table, out);
    if (status != TRI_OK) tri__row_set_free(out);
    return status;
}
