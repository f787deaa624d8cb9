/* arrow.h - Arrow IPC: files (.arrow, .feather version 2) and streams, which Hugging Face data sets keep under .arrow.
 * arrow_schema.c reads columns, arrow.c finds the batches, arrow_values.c makes text of their values. Of metadata only
 * FlatBuffers are read (flat.h). */
#pragma once

#include "data/table/columnar.h"
#include "data/table/flat.h"
#include "data/table/unpack.h"
#include "data/table/value_text.h"

/* How a column's values are stored. */
typedef enum tri_arrow_layout {
    TRI_ARROW_NESTED,        /* lists, structures and what else is no value: not read */
    TRI_ARROW_NULL,
    TRI_ARROW_FIXED,         /* values of `width` bytes */
    TRI_ARROW_BITS,
    TRI_ARROW_BYTES,         /* text of `width` bytes each */
    TRI_ARROW_TEXT,          /* offsets of `width` bytes */
    TRI_ARROW_VIEWS
} tri_arrow_layout;

typedef struct tri_arrow_type {
    tri_arrow_layout layout;
    tri_value_type values;
} tri_arrow_type;

typedef struct tri_arrow_column {
    tri_arrow_type type;     /* of a dictionary's values, where there is one */
    int encoded;             /* values are indices of a dictionary */
    int64_t dictionary;
    tri_value_type index;
    size_t node, buffer, view; /* its first ones in a batch; `buffer` without the buffers of views before it */
} tri_arrow_column;

/* What every batch of these fields has. */
typedef struct tri_arrow_counts {
    size_t nodes, buffers, views;
} tri_arrow_counts;

typedef struct tri_arrow_batch {
    uint64_t body;           /* where it is in the file */
    int64_t rows;
    tri_codec codec;
    size_t dictionaries;     /* that were read before it */
    int64_t *nulls;          /* [counts.nodes] */
    struct tri_arrow_buffer {
        uint64_t at, size;   /* in the body */
    } *buffer;               /* [counts.buffers + all of views] */
    size_t *views;           /* [counts.views + 1] buffers of the views before each */
} tri_arrow_batch;

typedef struct tri_arrow_dictionary {
    int64_t id;
    int delta;               /* it continues the previous one of its id */
    int used;                /* a column that is read needs it; else `values` was not read */
    tri_arrow_type type;
    tri_arrow_batch values;
    _Atomic(tri_column_text *) text; /* read on first use */
} tri_arrow_dictionary;

typedef struct tri_arrow {
    tri_arrow_column *column; /* [table->columns] */
    tri_arrow_counts counts;
    int version;             /* of the metadata: 3 is V4, 4 is V5 */
    tri_arrow_batch *batch;
    size_t batches, room_batches;
    tri_arrow_dictionary *dictionary;
    size_t dictionaries, room_dictionaries;
    pthread_mutex_t lock;    /* for reading dictionaries */
} tri_arrow;

/* Sets the table's columns. */
tri_status tri__arrow_schema(tri_table *table, tri_arrow *arrow, tri_flat *flat, tri_flat_table schema);
/* What a dictionary's batch has, its one field being of this type. */
tri_arrow_counts tri__arrow_counts(const tri_arrow_type *type);

/* tri_format's. */
tri_status tri__arrow_load(const tri_table *table, void *state, const tri_column_group *group, int column,
                           int as_numbers, tri_column_text *out);
int tri__arrow_has_numbers(const void *state, int column);
