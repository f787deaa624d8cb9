/* columnar.h - tables of binary files that hold columns: rows in groups, and in each group the values of one column
 * together. A format (Arrow) says how many rows each group has and gives a column's values as text; finding the group,
 * reading on first use by any thread, freeing what was used, and errors come with this. Parquet decides itself what
 * stays in memory (parquet.c), and takes only what all tables of columns have.
 *
 * A group is divided into chunks of equal rows (the last may have fewer): what is read and freed at once. */
#ifndef TRI_DATA_TABLE_COLUMNAR_H
#define TRI_DATA_TABLE_COLUMNAR_H

#include "data/table/table_parts.h"

/* A column's values in some rows, as text or as numbers. */
typedef struct tri_column_text {
    const char *text;        /* UTF-8 */
    const uint32_t *end;     /* [rows] where each ends in `text`; the next begins there. NULL: all are empty */
    const double *number;    /* [rows] what their texts are read as (value_text.h), NaN: empty; if not as text */
    void *own[2];            /* what is freed with it; may be NULL */
} tri_column_text;

void tri__column_text_clear(tri_column_text *text); /* frees what it owns */

typedef struct tri_columnar_format {
    /* The text of rows [first, first + rows) of a group. May be called by several threads. A failure is reported by
     * tri__table_check, with this function's words. */
    tri_status (*load)(const tri_table *table, void *state, int64_t group, int column, int64_t first, int64_t rows,
                       tri_column_text *out);
    /* The same as numbers, of a column that has some; called instead where only numbers are wanted. */
    tri_status (*numbers)(const tri_table *table, void *state, int64_t group, int column, int64_t first, int64_t rows,
                          tri_column_text *out);
    int (*has_numbers)(const void *state, int column);
    void (*close)(void *state);
} tri_columnar_format;

/* Makes `table` one of columns. Its columns, names, unread and types are set before or after; `state` is the format's,
 * and closed with the table, also if this fails. */
tri_status tri__columnar_begin(tri_table *table, const tri_columnar_format *format, void *state);
/* Appends a group. chunk: rows that are loaded together, at least 1. */
tri_status tri__columnar_group(tri_table *table, int64_t rows, int64_t chunk);
/* ---- what all tables of columns have ---- */

/* The first failure of the threads that read a table: a field cannot fail, so tri__table_check tells it later. */
typedef struct tri_columns_failure {
    pthread_mutex_t lock;
    tri_status status; /* under the lock, as the words */
    tri_words words;
    _Atomic int failed;
} tri_columns_failure;
void tri__columns_failure_init(tri_columns_failure *failure);
void tri__columns_failure_free(tri_columns_failure *failure);
void tri__columns_fail(tri_columns_failure *failure, tri_status status); /* with this thread's words */
tri_status tri__columns_check(tri_columns_failure *failure);
/* tri_table_kind: a row's number is its line. */
void tri__columns_where(const tri_table *table, int64_t row, int column, int64_t *line, int64_t *at);
void tri__columns_place(const tri_table *table, int64_t row, int column, char out[static TRI_PLACE_BYTES]);
/* Whether the bytes are UTF-8 without 0 bytes: a field's text. */
int tri__bytes_are_text(const char *bytes, size_t size);

#endif
