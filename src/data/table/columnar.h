/* columnar.h - tables of binary files that hold columns: rows in groups, and in each group the values of one column
 * together. A format says how many rows each group has, and decodes a column of a group as text or as numbers
 * (tri_format.load); finding the group, decoding on first use by any thread, what stays in memory, and errors come with
 * this. */
#pragma once

#include "data/table/table_parts.h"

/* A field's bytes in a text; of numbers, the bytes of a double: NaN, if the field is empty. */
typedef struct tri_field_span {
    uint32_t begin, length;
} tri_field_span;

/* A column of a group, decoded as text or as numbers. */
typedef struct tri_column_text {
    char *text;              /* UTF-8; NULL: numbers */
    tri_field_span *field;         /* [rows of the group]; NULL: all are empty */
    size_t bytes;            /* of memory */
    struct tri_column_text *next; /* of those in memory, the oldest first */
    struct tri_column_group *group;
    int cell;                /* its own of the group */
} tri_column_text;

/* A column of a group in memory, or not. */
typedef struct tri_column_cell {
    _Atomic(tri_column_text *) text;
    _Atomic int failed;      /* it cannot be decoded */
    int loading;             /* a thread decodes it; under the lock */
} tri_column_cell;

typedef struct tri_column_group {
    int64_t first, rows;     /* rows of the table */
    int64_t of, from;        /* the format's own: which of its groups, and from which row of that on */
    /* Made together on first use: */
    _Atomic(tri_column_cell *) cell; /* [2, columns] as text, as numbers */
    _Atomic uint64_t *held;  /* [rows / 64, rounded up] a bit for each row whose fields may be in use */
} tri_column_group;

/* Makes `table` one of columns. Its columns, names, unread and types are set before or after; `state` is the format's,
 * and freed with the table (tri_format.free), also if this fails. */
tri_status tri__columns_begin(tri_table *table, void *state);
/* Appends a group of at least one row. */
tri_status tri__columns_add(tri_table *table, int64_t rows, int64_t of, int64_t from);
/* Whether the bytes are UTF-8 without 0 bytes: a field's text. */
int tri__bytes_are_text(const char *bytes, size_t size);

/* Bytes that are appended to. */
typedef struct tri_column_buffer {
    char *at;
    size_t used, room;       /* room also for TRI_TABLE_PAD bytes behind them */
} tri_column_buffer;
/* Room for `more` bytes. 0: out of memory. */
static inline int tri__column_reserve(tri_column_buffer *buffer, size_t more) {
    return tri__grow(&buffer->at, &buffer->room, buffer->used + more + TRI_TABLE_PAD, 1);
}

/* What is being decoded, for messages. */
typedef struct tri_column_place {
    const tri_table *table;
    int column;
    const char *what;        /* "row group", "batch", "dictionary" */
    int64_t number;          /* from 1 */
} tri_column_place;
/* TRI_DATA with file, column and group. */
tri_status tri__column_fail(const tri_column_place *place, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* tri__unpack, with the place in its failures. */
tri_status tri__column_unpack(const tri_column_place *place, tri_codec codec, const void *packed, size_t size,
                              void *out, size_t out_size);
