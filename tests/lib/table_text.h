/* table_text.h - a table, or the error of opening it, as one text, for comparison. For tests of tables. */
#ifndef TRI_TESTS_TABLE_TEXT_H
#define TRI_TESTS_TABLE_TEXT_H

#include "base/json.h"
#include "data/table/table.h"

#include <unistd.h>

#include "tests/lib/test.h"

extern char table_path[96];

static inline void table_name_file(const char *ending) {
    snprintf(table_path, sizeof table_path, "/tmp/trident-table-%ld%s", (long)getpid(), ending);
}

void table_write(const void *bytes, size_t size);

/* Names; rows, each field with its position; bad rows. Or the error without the path. The caller frees it. */
char *table_text(const tri_table_options *options);

/* Expects the same text for various numbers of threads, piece sizes and ways to keep the rows' text; returns it. The
 * caller frees it. */
char *table_text_any_way(tri_bad_rows bad_rows);

/* Bytes from hexadecimal digits; the caller frees them. */
char *from_hex(const char *hex, size_t *size);

#endif
