/* table.h - tables in files: CSV (RFC 4180), TSV and JSON lines, also compressed (.gz, .zst), Arrow and Parquet, chosen
 * by the file's extension (formats.h); the separator of a CSV file is detected. A name with an asterisk stands for
 * several files that are read as one table (parts.h). Parsed in parallel; rows, fields and errors do not depend on the
 * number of threads or the piece size. A small file is kept in memory; for a large one only the index is, and the text
 * of rows is read again on demand (docs/reference/tables.md). */
#pragma once

#include "base/file.h"

/* A field of a row. Quoted and escaped fields are decoded in memory that the table owns. */
typedef struct tri_field_text {
    const char *text; /* [length] UTF-8, not 0-terminated */
    size_t length;
    int number;       /* 1: a number by its type (JSON, binary files), with a decimal point; 0: a text or a boolean */
} tri_field_text;

typedef enum tri_bad_rows { TRI_BAD_ROWS_FAIL, TRI_BAD_ROWS_SKIP } tri_bad_rows;

typedef struct tri_table_options {
    int threads;           /* 0: 1 */
    tri_bad_rows bad_rows; /* a malformed row is an error, or skipped and counted */
    size_t piece;          /* bytes that a thread parses at a time; 0: automatic. For tests */
    char separator;        /* of CSV and TSV; 0: from the extension, detected for CSV */
    size_t keep;           /* files of up to so many bytes are kept in memory; 0: 64 MiB */
    size_t budget; /* bytes for what its reader keeps of rows: those beyond are not read, tri__table_cut; 0: all are */
    size_t row_cost, column_cost; /* with a budget: bytes of a row, and of each of its columns */
    const struct tri_tables *tables; /* those that paths memory:NAME mean (memory.h); NULL: none */
} tri_table_options;

/* A row that was skipped, and why. */
typedef struct tri_bad_row {
    int64_t line, column;  /* 1-based, bytes */
    const char *why;
} tri_bad_row;

typedef struct tri_table tri_table;

/* Reads the header and finds every row. Failures are TRI_DATA "file:line:column: what" (ragged or unterminated rows,
 * invalid UTF-8, NUL bytes, files that are not tables, ambiguous separators, duplicate or empty header names (an
 * unnamed first column is a row index and is allowed), the limits of base/limits.h). options NULL: the defaults. JSON
 * lines: columns are the union of the objects' keys, in order of first appearance; null and absent values are empty
 * fields; numbers and booleans keep their text; rows with nested values are bad. */
tri_status tri__table_open(const char *path, const tri_table_options *options, tri_table **out);
/* A table in memory as one in a file of this name. The bytes must stay until the table is closed; of text, if
 * options.keep is at least `size`, until this returns. */
tri_status tri__table_open_bytes(const char *name, const void *bytes, size_t size, const tri_table_options *options,
                                 tri_table **out);
/* The endings that names of tables have, one by one from number 0: ".csv", ".csv.gz". `shared`: those that files of
 * other kinds have too. 0: no more. */
enum { TRI_ENDING_BYTES = 16, TRI_ENDINGS_BYTES = 128 };
int tri__table_ending(int shared, int number, char out[static TRI_ENDING_BYTES]);
const char *tri__table_endings(char out[static TRI_ENDINGS_BYTES]); /* in words; `out` is returned */
void tri__table_close(tri_table *table);
static inline void tri__table_drop(tri_table **at) { tri__table_close(*at); }
const char *tri__separator_words(char separator);             /* "semicolons" */
const char *tri__table_path(const tri_table *table);
int64_t tri__table_rows(const tri_table *table);              /* without the header */
int tri__table_cut(const tri_table *table);                   /* there are more, beyond options.budget */
size_t tri__table_cost(const tri_table *table);               /* of all its rows, by its options */
char tri__table_separator(const tri_table *table);            /* 0: JSON lines */
int tri__table_recognised(const tri_table *table); /* the separator differs from what the extension implies */
int tri__table_columns(const tri_table *table);
const char *tri__table_name(const tri_table *table, int column);
/* Why a column cannot be read (it is nested, or of a type that has no text): a phrase that follows its name; NULL: it
 * can. Its fields are empty. */
const char *tri__table_unread(const tri_table *table, int column);
int tri__table_column(const tri_table *table, const char *name); /* the column of this name; -1: none */
/* TRI_DATA, listing the existing columns (and the nearest), if it is missing; TRI_DATA if it cannot be read. */
tri_status tri__table_find(const tri_table *table, const char *name, int *column);
/* Valid until tri__table_done of its row or tri__table_close. Thread-safe. Empty if the file has changed or shrunk
 * since it was opened and the row's text was not in memory: tri__table_check then fails. */
tri_field_text tri__table_field(const tri_table *table, int64_t row, int column);
/* Fields of rows [first, first + count) where numbers are wanted. A binary file's columns of integers, floats and
 * decimals have numbers, which are given without their text: to the bit what reading the text gives. value [count] is
 * NaN where tri__table_field is empty (null, NaN), and infinite where it says what is there. 0: that is so of all
 * (tables of text; other columns). Thread-safe. tri__table_done is due as for fields. */
int tri__table_numbers(const tri_table *table, int64_t first, int64_t count, int column, double *value);
/* TRI_IO if the text of some row could not be read again. Call it after a pass over the rows. */
tri_status tri__table_check(const tri_table *table);
/* Releases the fields of rows [first, first + count): the text of a large file may be freed. The rows can be read
 * again. In a pass over a file larger than memory, call it every few thousand rows. */
void tri__table_done(const tri_table *table, int64_t first, int64_t count);
/* Where a field starts: 1-based line and column (bytes) in the file. Counts lines up to there: slow, for messages. */
void tri__table_where(const tri_table *table, int64_t row, int column, int64_t *line, int64_t *at);
/* The same in words, for messages: "train.csv:12:5"; of several files it names the one, of a binary file the row:
 * "train.arrow: row 12". `out` is returned. */
enum { TRI_PLACE_BYTES = TRI_PATH_MAX + 64 };
const char *tri__table_place(const tri_table *table, int64_t row, int column, char out[static TRI_PLACE_BYTES]);
/* A row's number in the file: from 1, without the header, including skipped rows. */
int64_t tri__table_record(const tri_table *table, int64_t row);
/* Rows skipped under TRI_BAD_ROWS_SKIP, in file order; at most the first 100 are described. */
int64_t tri__table_bad(const tri_table *table, const tri_bad_row **rows, int *described);
