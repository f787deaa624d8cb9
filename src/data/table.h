/* table.h - tables in files: CSV (RFC 4180), TSV and JSON lines, chosen by the file's ending. Memory-mapped and parsed in
 * parallel; the same rows, fields and errors whatever the number of threads and the size of their pieces. */
#ifndef TRI_DATA_TABLE_H
#define TRI_DATA_TABLE_H

#include "base/file.h"

/* A field of a row. Quoted and escaped fields are decoded in the table's own memory. */
typedef struct tri_field_text {
    const char *text; /* [length] UTF-8, no 0 byte at its end */
    size_t length;
} tri_field_text;

typedef enum tri_bad_rows { TRI_BAD_ROWS_FAIL, TRI_BAD_ROWS_SKIP } tri_bad_rows;

typedef struct tri_table_options {
    int threads;           /* 0: 1 */
    tri_bad_rows bad_rows; /* a row that cannot be read: an error, or left out and counted */
    size_t piece;          /* bytes that a thread parses at a time; 0: as the table thinks best. For tests */
} tri_table_options;

/* A row that was left out, and why. */
typedef struct tri_bad_row {
    int64_t line, column;  /* 1-based, bytes */
    const char *why;
} tri_bad_row;

typedef struct tri_table tri_table;

/* Reads the header and finds every row. Failures are TRI_DATA "file:line:column: what" (ragged or unterminated rows,
 * invalid UTF-8, NUL bytes, duplicate or empty header names (an unnamed first column is a row index and is allowed), the
 * limits of base/limits.h). options NULL: the defaults. JSON lines: columns are the union of the objects' keys, in order
 * of first appearance; null and absent are empty fields; numbers and booleans keep their text; nested values are bad. */
tri_status tri__table_open(const char *path, const tri_table_options *options, tri_table **out);
void tri__table_close(tri_table *table);
const char *tri__table_path(const tri_table *table);
int64_t tri__table_rows(const tri_table *table);              /* without the header */
int tri__table_columns(const tri_table *table);
const char *tri__table_name(const tri_table *table, int column);
/* TRI_DATA naming the columns there are (and the nearest) when it is missing. */
tri_status tri__table_find(const tri_table *table, const char *name, int *column);
tri_field_text tri__table_field(const tri_table *table, int64_t row, int column);
/* Where a field starts: 1-based line and column (bytes) in the file. */
void tri__table_where(const tri_table *table, int64_t row, int column, int64_t *line, int64_t *at);
/* Rows left out under TRI_BAD_ROWS_SKIP, in file order; at most the first 100 are described. */
int64_t tri__table_bad(const tri_table *table, const tri_bad_row **rows, int *described);

#endif
