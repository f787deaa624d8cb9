/* parquet.h - internals of Parquet files: the footer (parquet_meta.c), pages of a column (parquet_pages.c), their
 * values as text (parquet_values.c, parquet_bits.c).
 *
 * A file has row groups; in each, a column is a chunk of pages, which is read and decoded as a whole.
 * Format: github.com/apache/parquet-format. */
#pragma once

#include "data/table/columnar.h"
#include "data/table/value_text.h"

/* Physical types, encodings and page types, by the format's numbers. */
enum { PQ_BOOLEAN, PQ_INT32, PQ_INT64, PQ_INT96, PQ_FLOAT, PQ_DOUBLE, PQ_BYTE_ARRAY, PQ_FIXED, PQ_TYPES };
enum {
    PQ_PLAIN = 0,
    PQ_PLAIN_DICTIONARY = 2,
    PQ_RLE = 3,
    PQ_BIT_PACKED = 4,
    PQ_DELTA_BINARY_PACKED = 5,
    PQ_DELTA_LENGTH_BYTE_ARRAY = 6,
    PQ_DELTA_BYTE_ARRAY = 7,
    PQ_RLE_DICTIONARY = 8,
    PQ_BYTE_STREAM_SPLIT = 9
};
enum { PQ_DATA_PAGE, PQ_INDEX_PAGE, PQ_DICTIONARY_PAGE, PQ_DATA_PAGE_V2 };

/* A column without nesting. */
typedef struct tri_parquet_column {
    int leaf;               /* its number among all columns, nested ones included; -1: it cannot be read */
    int type;               /* PQ_* */
    int optional;           /* values may be null */
    tri_value_type values;
} tri_parquet_column;

/* A column of a row group in the file. */
typedef struct tri_parquet_chunk {
    uint64_t begin, bytes;  /* its pages */
    int64_t values;
    int codec;              /* by the format's numbers */
    int encrypted, elsewhere, absent; /* elsewhere: in another file; absent: the footer does not say where */
} tri_parquet_chunk;

typedef struct tri_parquet_group {
    int number;              /* in the file, from 1 */
    int64_t rows;
    tri_parquet_chunk *chunk; /* [table->columns] */
} tri_parquet_group;

/* Memory that a chunk needs only while it is decoded, kept for the next. */
typedef struct tri_parquet_scratch {
    uint8_t *window;         /* [window_room] bytes of the file */
    size_t window_room;
    tri_column_buffer page; /* an unpacked page */
} tri_parquet_scratch;

typedef struct tri_parquet {
    tri_parquet_column *column; /* [table->columns] */
    int leaves;              /* columns, those of nested ones included */
    int32_t *column_of;      /* [leaves] -1: it is inside a nested one */
    int64_t groups;          /* with rows */
    tri_parquet_group *group; /* [groups] */
    pthread_mutex_t lock;    /* for what follows */
    tri_parquet_scratch scratch; /* of no one, or empty */
} tri_parquet;

/* Reads the footer: columns, names, rows, groups. */
tri_status tri__parquet_footer(tri_table *table, tri_parquet *file);
int tri__parquet_has_numbers(const void *state, int column);
/* tri_format's. TRI_DATA, with column and row group, if it is damaged. */
tri_status tri__parquet_load(const tri_table *table, void *state, const tri_column_group *group, int column,
                             int as_numbers, tri_column_text *out);
/* Whether the footer says that a column of a group cannot be decoded; `why` then follows the column's name. */
int tri__parquet_refused(const tri_table *table, const tri_parquet_group *group, int column, char *why, size_t size);

/* A column of a row group while it is decoded. */
typedef struct tri_parquet_reader {
    tri_column_place place;
    const tri_parquet_group *group;
    const tri_parquet_chunk *chunk;
    const tri_parquet_column *column;
    int as_numbers;
    tri_codec codec;
    uint64_t next;           /* of the file: what was not read yet */
    uint8_t *window;         /* bytes of the file [window_from, window_end) */
    size_t window_from, window_end, window_room;
    tri_column_buffer text, page; /* the fields' text; an unpacked page */
    tri_column_buffer levels, numbers;
    tri_field_span *dictionary; /* [n_dictionary] */
    uint32_t n_dictionary;
    int has_dictionary;
    tri_field_span *field; /* [group->rows] */
    int64_t rows;            /* decoded so far */
    uint32_t *crc;           /* [8 * 256], made when a page has a checksum */
} tri_parquet_reader;

tri_status tri__parquet_no_memory(const tri_parquet_reader *r);
/* Reserves text, whose offsets have 32 bits. */
tri_status tri__parquet_text_room(tri_parquet_reader *r, uint64_t more);

/* A page's values. They lie in the reader's text at `begin`, if in_text, so that texts need not be copied. */
typedef struct tri_parquet_values {
    const uint8_t *bytes;
    size_t size;
    int encoding;
    int64_t n;               /* without nulls */
    int in_text;
    size_t begin;
} tri_parquet_values;
/* Decodes values into out [n]. */
tri_status tri__parquet_values(tri_parquet_reader *r, const tri_parquet_values *values, tri_field_span *out);
/* Whether an encoding leaves texts as they are. */
int tri__parquet_in_place(const tri_parquet_column *column, int encoding);

/* A run of RLE and bit-packing: numbers of `width` bits. */
typedef struct tri_parquet_runs {
    const uint8_t *at, *end; /* 8 bytes beyond `end` may be read */
    int width;
} tri_parquet_runs;
typedef struct tri_parquet_run {
    uint64_t count;          /* of a packed run: a multiple of 8, the last may be too many */
    int packed;
    uint32_t value;          /* if not packed */
    const uint8_t *bits;     /* if packed */
} tri_parquet_run;
/* 0: damaged, or nothing left. */
int tri__parquet_run(tri_parquet_runs *runs, tri_parquet_run *run);
/* Expands levels of one bit to bytes [n]; *set: how many are 1. 0: damaged. */
int tri__parquet_levels(const uint8_t *bytes, size_t size, int64_t n, uint8_t *out, int64_t *set);
/* DELTA_BINARY_PACKED numbers: exactly n, or (n < 0) as many as there are, at most -n. Returns how many; -1: damaged.
 * `used`: bytes. */
int64_t tri__parquet_deltas(const uint8_t *bytes, size_t size, int64_t n, int64_t *out, size_t *used);

static inline uint32_t tri__load32(const uint8_t *at) {
    uint32_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}
static inline uint64_t tri__load64(const uint8_t *at) {
    uint64_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}
/* The number of `width` (at most 32) bits that begins at a bit. Reads 8 bytes. */
static inline uint32_t tri__bits_at(const uint8_t *bytes, uint64_t bit, int width) {
    return (uint32_t)(tri__load64(bytes + bit / 8) >> (bit & 7) & (((uint64_t)1 << width) - 1));
}
