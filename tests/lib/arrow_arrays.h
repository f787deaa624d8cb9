/* arrow_arrays.h - streams of the Arrow C interface over arrays of a test, in batches that begin anywhere, and a count
 * of what was not released. */
#ifndef TESTS_ARROW_ARRAYS_H
#define TESTS_ARROW_ARRAYS_H

#include "trident_table.h"

enum { MADE_BUFFERS = 4, MADE_COLUMNS = 8 };

/* A column: buffers as the interface has them, for all rows of all batches. */
typedef struct made_column {
    const char *name, *format;
    int n_buffers;
    const void *buffer[MADE_BUFFERS];
    int64_t nulls;                         /* -1: unknown */
    const struct made_column *dictionary;  /* NULL: none */
    int64_t length;                        /* of a dictionary */
} made_column;

typedef struct made_stream {
    made_column column[MADE_COLUMNS];
    int n;
    int bare;               /* 1: of its only column's values, not of structures */
    int64_t rows, batch;    /* in all; in each batch */
    int64_t skip;           /* rows of the buffers before the first: the offset of arrays */
    int64_t fails_at;       /* the row at which the stream fails; -1: it does not */
    int64_t row;            /* the next */
} made_stream;

extern long made_held; /* schemas, arrays and streams that were not released */

/* `made` must last as long as the stream. */
void make_stream(made_stream *made, struct ArrowArrayStream *out);

#endif
