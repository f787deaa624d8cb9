/* fuzz_table.h - what must hold for any table: its text is clean, its places lie in the file, and it is the same, row
 * by row and fault by fault, whatever the pieces and the policy for bad rows, in memory and read from a file. */
#ifndef TRI_FUZZ_FUZZ_TABLE_H
#define TRI_FUZZ_FUZZ_TABLE_H

#include "fuzz.h"

#include "base/text.h"
#include "data/table/table_parts.h"

#include <stdio.h>
#include <string.h>

static void fuzz_clean(tri_field_text field) {
    for (size_t at = 0; at < field.length;) FUZZ_CHECK(tri__utf8_next(field.text, field.length, &at) > 0);
}

static void fuzz_same(const tri_table *a, const tri_table *b) {
    FUZZ_CHECK(tri__table_rows(a) == tri__table_rows(b) && tri__table_columns(a) == tri__table_columns(b));
    for (int c = 0; c < tri__table_columns(a); c++) FUZZ_CHECK(!strcmp(tri__table_name(a, c), tri__table_name(b, c)));
    for (int64_t row = 0; row < tri__table_rows(a); row++)
        for (int c = 0; c < tri__table_columns(a); c++) {
            tri_field_text x = tri__table_field(a, row, c), y = tri__table_field(b, row, c);
            FUZZ_CHECK(x.length == y.length && !memcmp(x.text, y.text, x.length));
            fuzz_clean(x);
        }
    const tri_bad_row *bad_a, *bad_b;
    int n_a, n_b;
    FUZZ_CHECK(tri__table_bad(a, &bad_a, &n_a) == tri__table_bad(b, &bad_b, &n_b) && n_a == n_b);
    for (int i = 0; i < n_a; i++)
        FUZZ_CHECK(bad_a[i].line == bad_b[i].line && bad_a[i].column == bad_b[i].column &&
                   !strcmp(bad_a[i].why, bad_b[i].why));
    FUZZ_CHECK(tri__table_check(a) == TRI_OK && tri__table_check(b) == TRI_OK);
}

static int fuzz_table(const char *name, const uint8_t *data, size_t size) {
    char path[256], error[1024], want[1024];
    fuzz_write(name, data, size);
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    tri_table_options skip = {.bad_rows = TRI_BAD_ROWS_SKIP}, pieces = skip;
    pieces.piece = 24 + size % 101 + size / 16, pieces.keep = 1;
    tri_table *a, *b, *strict;
    tri_status status = tri__table_open_bytes(path, data, size, &skip, &a);
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA);
    snprintf(error, sizeof error, "%s", status == TRI_OK ? "" : tri_error());
    FUZZ_CHECK(tri__table_open(path, &pieces, &b) == status);
    FUZZ_CHECK(status == TRI_OK || !strcmp(error, tri_error()));
    tri_status alone = tri__table_open_bytes(path, data, size, NULL, &strict);
    if (status != TRI_OK) {
        FUZZ_CHECK(alone == status);
        return 0;
    }
    fuzz_same(a, b);
    const tri_bad_row *bad;
    int described;
    if (tri__table_bad(a, &bad, &described)) {
        snprintf(want, sizeof want, "%s:%lld:%lld: %s", path, (long long)bad->line, (long long)bad->column, bad->why);
        FUZZ_CHECK(alone == TRI_DATA && !strncmp(tri_error(), want, strlen(want))); /* then how to make it UTF-8 */
    } else {
        FUZZ_CHECK(alone == TRI_OK);
        fuzz_same(a, strict);
    }
    for (int64_t row = 0; row < tri__table_rows(a) && tri__table_columns(a) && row < 4; row++) {
        int64_t line, at;
        tri__table_where(a, row, tri__table_columns(a) - 1, &line, &at);
        FUZZ_CHECK(line >= 1 && at >= 1 && (uint64_t)line <= size + 1 && (uint64_t)at <= size + 1);
    }
    tri__table_close(strict);
    tri__table_close(b);
    tri__table_close(a);
    return 0;
}

#endif
