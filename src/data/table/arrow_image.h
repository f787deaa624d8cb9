/* arrow_image.h - an Arrow stream whose values stay where they are: its bytes are pieces of memory, of which only the
 * metadata, and what must be changed to begin a batch, are its own. It is read by position like a file
 * (table_source.c), so that tables in memory need no reader of their own, and can be written for another process. */
#pragma once

#include "data/table/table.h"
#include "trident_table.h"

typedef struct tri_image {
    struct tri_image_piece {
        uint64_t at, size;   /* in the stream; zeros are between two pieces */
        const void *bytes;
        int owned;           /* freed with the image */
    } *piece;                /* [pieces] */
    size_t pieces, room;
    uint64_t size;
} tri_image;

/* A column of a table, to which each batch adds values. */
typedef struct tri_image_column {
    const char *name;
    const struct ArrowSchema *schema;
    const struct ArrowArray *dictionary; /* the last one written; NULL: none yet */
} tri_image_column;

/* Rows [first, first + n) of an array, whose own offset is added. */
typedef struct tri_image_values {
    const struct ArrowArray *array;
    int64_t first;
} tri_image_values;

/* Appends the schema, then batches of n rows: values [n_columns]. TRI_DATA, naming `name` and the column, for formats
 * that are unknown and arrays that contradict them. */
tri_status tri__image_schema(tri_image *image, const char *name, const tri_image_column *columns, int n_columns);
tri_status tri__image_batch(tri_image *image, const char *name, tri_image_column *columns, int n_columns,
                            const tri_image_values *values, int64_t n);
/* Bytes [at, at + size), which it has. */
void tri__image_read(const tri_image *image, uint64_t at, char *to, size_t size);
void tri__image_free(tri_image *image);
