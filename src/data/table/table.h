/* table.h - tables in files: CSV (RFC 4180), TSV (.tsv) and JSON lines (.jsonl, .ndjson, .json), chosen by the file's
 * ending; what separates the fields of a CSV file is recognised. Parsed in parallel; the same rows, fields and errors
 * whatever the number of threads and the size of their pieces. A small file is held in memory; of a large one only the
 * index is, and the text of rows is read again when it is asked for (docs/reference/tables.md). */
#ifndef TRI_DATA_TABLE_TABLE_H
#define TRI_DATA_TABLE_TABLE_H

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
    char separator;        /* of CSV and TSV, JSON lines have none; 0: by the ending, of CSV as recognised */
    size_t keep;           /* files of up to so many bytes are held in memory; 0: 64 MiB */
} tri_table_options;

/* A row that was left out, and why. */
typedef struct tri_bad_row {
    int64_t line, column;  /* 1-based, bytes */
    const char *why;
} tri_bad_row;

typedef struct tri_table tri_table;

/* Reads the header and finds every row. Failures are TRI_DATA "file:line:column: what" (ragged or unterminated rows,
 * invalid UTF-8, NUL bytes, files that are not tables, separators that are not clear, duplicate or empty header names
 * (an unnamed first column is a row index and is allowed), the limits of base/limits.h). options NULL: the defaults.
 * JSON lines: columns are the union of the objects' keys, in order of first appearance; null and absent are empty
 * fields; numbers and booleans keep their text; nested values are bad. */
tri_status tri__table_open(const char *path, const tri_table_options *options, tri_table **out);
void tri__table_close(tri_table *table);
const char *tri__separator_words(char separator);             /* "semicolons" */
const char *tri__table_path(const tri_table *table);
int64_t tri__table_rows(const tri_table *table);              /* without the header */
char tri__table_separator(const tri_table *table);            /* 0: JSON lines */
int tri__table_recognised(const tri_table *table);            /* the separator is another than the ending says */
int tri__table_columns(const tri_table *table);
const char *tri__table_name(const tri_table *table, int column);
/* TRI_DATA naming the columns there are (and the nearest) when it is missing. */
tri_status tri__table_find(const tri_table *table, const char *name, int *column);
/* Valid until tri__table_done of its row or tri__table_close. Any thread may ask. Empty when the file has changed or
 * shrunk since it was opened and the row's text was not in memory: tri__table_check then says so. */
tri_field_text tri__table_field(const tri_table *table, int64_t row, int column);
/* TRI_IO when some row's text could not be read again. Ask after a pass over the rows. */
tri_status tri__table_check(const tri_table *table);
/* The caller holds no field of rows [first, first + count) any more: the memory of a large file's text may be freed.
 * The rows can be read again. For a pass over a file larger than memory, call it after each few thousand rows. */
void tri__table_done(const tri_table *table, int64_t first, int64_t count);
/* Where a field starts: 1-based line and column (bytes) in the file. Counts lines up to there: meant for messages. */
void tri__table_where(const tri_table *table, int64_t row, int column, int64_t *line, int64_t *at);
/* A row's number in the file: from 1, the header not counted, rows left out counted. */
int64_t tri__table_record(const tri_table *table, int64_t row);
/* Rows left out under TRI_BAD_ROWS_SKIP, in file order; at most the first 100 are described. */
int64_t tri__table_bad(const tri_table *table, const tri_bad_row **rows, int *described);

#endif
