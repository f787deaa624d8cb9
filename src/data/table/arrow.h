/* arrow.h - Arrow IPC: files (.arrow, .feather version 2) and streams, which Hugging Face data sets keep under .arrow.
 * arrow_schema.c reads columns, arrow.c finds the batches, arrow_values.c makes text of their values. Of metadata only
 * FlatBuffers are read (flat.h). */
#pragma once

#include "data/table/columnar.h"
#include "data/table/flat.h"
#include "data/table/value_text.h"

/* A type's number in the union Type of Schema.fbs. */
enum {
    TRI_FLAT_NONE, TRI_FLAT_NIL, TRI_FLAT_INT, TRI_FLAT_FLOATING, TRI_FLAT_BINARY, TRI_FLAT_UTF8, TRI_FLAT_BOOL,
    TRI_FLAT_DECIMAL, TRI_FLAT_DATE, TRI_FLAT_TIME, TRI_FLAT_TIMESTAMP, TRI_FLAT_INTERVAL, TRI_FLAT_LIST,
    TRI_FLAT_STRUCT, TRI_FLAT_UNION, TRI_FLAT_FIXED_BINARY, TRI_FLAT_FIXED_LIST, TRI_FLAT_MAP, TRI_FLAT_DURATION,
    TRI_FLAT_LARGE_BINARY, TRI_FLAT_LARGE_UTF8, TRI_FLAT_LARGE_LIST, TRI_FLAT_RUN_ENDS, TRI_FLAT_BINARY_VIEW,
    TRI_FLAT_UTF8_VIEW, TRI_FLAT_LIST_VIEW, TRI_FLAT_LARGE_LIST_VIEW, TRI_FLAT_TYPES
};
/* The slots of tables of Message.fbs and Schema.fbs. */
enum { TRI_MESSAGE_VERSION, TRI_MESSAGE_HEADER_TYPE, TRI_MESSAGE_HEADER, TRI_MESSAGE_BODY, TRI_MESSAGE_SLOTS };
enum { TRI_HEADER_NONE, TRI_HEADER_SCHEMA, TRI_HEADER_DICTIONARY, TRI_HEADER_BATCH };
enum { TRI_BATCH_LENGTH, TRI_BATCH_NODES, TRI_BATCH_BUFFERS, TRI_BATCH_COMPRESSION, TRI_BATCH_VIEWS, TRI_BATCH_SLOTS };
enum { TRI_DICTIONARY_ID, TRI_DICTIONARY_DATA, TRI_DICTIONARY_DELTA, TRI_DICTIONARY_SLOTS };
enum { TRI_SCHEMA_ENDIANNESS, TRI_SCHEMA_FIELDS, TRI_SCHEMA_SLOTS };
enum {
    TRI_FLAT_FIELD_NAME, TRI_FLAT_FIELD_NULLABLE, TRI_FLAT_FIELD_TYPE_TYPE, TRI_FLAT_FIELD_TYPE,
    TRI_FLAT_FIELD_DICTIONARY, TRI_FLAT_FIELD_CHILDREN, TRI_FLAT_FIELD_SLOTS
};
enum { TRI_ENCODING_ID, TRI_ENCODING_INDEX, TRI_ENCODING_SLOTS };
enum { TRI_NODE_BYTES = 16, TRI_BUFFER_BYTES = 16 };

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

/* Buffers that a type has in a batch, without those of children and, of views, the ones that are counted there. */
int tri__arrow_buffers(int number);

/* tri_format's. */
tri_status tri__arrow_load(const tri_table *table, void *state, const tri_column_group *group, int column,
                           int as_numbers, tri_column_text *out);
int tri__arrow_has_numbers(const void *state, int column);
