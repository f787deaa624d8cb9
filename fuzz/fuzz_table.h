/* fuzz_table.h - what must hold for any table: its text is clean, its places lie in the file, and it is the same, row
 * by row and fault by fault, whatever the pieces and the policy for bad rows, in memory and read from a file. */
#ifndef TRI_FUZZ_FUZZ_TABLE_H
#define TRI_FUZZ_FUZZ_TABLE_H

#include "fuzz.h"

#include "base/text.h"
#include "data/table/reading.h"
#include "data/table/table_parts.h"

#include <stdio.h>
#include <string.h>

static void fuzz_clean(tri_field_text field) {
    for (size_t at = 0; at < field.length;) FUZZ_CHECK(tri__utf8_next(field.text, field.length, &at) > 0);
    for (int comma = 0; comma < 2; comma++) { /* a canonical form is its own */
        const tri_reading reading = {.decimal = comma ? ',' : '.'};
        char out[TRI_CANONICAL_BYTES], again[TRI_CANONICAL_BYTES];
        tri_field_text form = tri__field_canonical(&reading, field, out);
        form.number = 0;
        tri_field_text same = tri__field_canonical(&reading, form, again);
        FUZZ_CHECK(form.length == same.length && !memcmp(form.text, same.text, form.length));
    }
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

/* The same from a file, in pieces, which are kept. */
static void fuzz_pieces(const char *path, const char *name, const uint8_t *data, size_t size, const tri_table *a,
                        const char *error) {
    tri_table_options pieces = {.bad_rows = TRI_BAD_ROWS_SKIP, .piece = 24 + size % 101 + size / 16, .keep = 1};
    tri_table *b;
    fuzz_write(name, data, size);
    tri_status status = tri__table_open(path, &pieces, &b);
    FUZZ_CHECK((status == TRI_OK) == (a != NULL));
    if (!a) {
        FUZZ_CHECK(status == TRI_DATA && !strcmp(error, tri_error()));
        return;
    }
    fuzz_same(a, b);
    tri__table_close(b);
}

/* Where the first bad row is an error. */
static void fuzz_strict(const char *path, const uint8_t *data, size_t size, const tri_table *a) {
    char want[1024];
    const tri_bad_row *bad;
    int described;
    tri_table *strict;
    tri_status status = tri__table_open_bytes(path, data, size, NULL, &strict);
    if (a && !tri__table_bad(a, &bad, &described)) {
        FUZZ_CHECK(status == TRI_OK);
        fuzz_same(a, strict);
        tri__table_close(strict);
        return;
    }
    FUZZ_CHECK(status == TRI_DATA);
    if (!a) return;
    snprintf(want, sizeof want, "%s:%lld:%lld: %s", path, (long long)bad->line, (long long)bad->column, bad->why);
    FUZZ_CHECK(!strncmp(tri_error(), want, strlen(want))); /* then how to make it UTF-8 */
}

/* Whole and in memory; then once more, as the input's bytes choose: in pieces, or strictly. */
static int fuzz_table(const char *name, const uint8_t *data, size_t size) {
    char path[256], error[1024];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    tri_table_options skip = {.bad_rows = TRI_BAD_ROWS_SKIP};
    tri_table *a;
    tri_status status = tri__table_open_bytes(path, data, size, &skip, &a);
    FUZZ_CHECK(status == TRI_OK ? a != NULL : status == TRI_DATA && !a);
    snprintf(error, sizeof error, "%s", a ? "" : tri_error());
    if (fuzz_choice(data, size, 2)) fuzz_pieces(path, name, data, size, a, error);
    else fuzz_strict(path, data, size, a);
    if (!a) return 0;
    for (int64_t row = 0; row < tri__table_rows(a) && tri__table_columns(a) && row < 4; row++) {
        int64_t line, at;
        tri__table_where(a, row, tri__table_columns(a) - 1, &line, &at);
        FUZZ_CHECK(line >= 1 && at >= 1 && (uint64_t)line <= size + 1 && (uint64_t)at <= size + 1);
    }
    tri__table_close(a);
    return 0;
}

#endif
