/* limits.h - all limits of parsers (fault model M8). Sizes are checked against the file's length before anything is
 * allocated for them. */
#pragma once

enum {
    TRI_LIMIT_JSON_DEPTH = 64,
    TRI_LIMIT_STRING = 1 << 20,              /* bytes of a JSON string */
    TRI_LIMIT_JSON_FILE = 100 * 1000 * 1000, /* bytes; also a safetensors header */
    TRI_LIMIT_JSON_MEMORY = 1600 * 1000 * 1000, /* bytes of parsed JSON in memory, by an upper estimate */
    TRI_LIMIT_TENSORS = 1000 * 1000,         /* with 2 dims each, just within that */
    TRI_LIMIT_CSV_ROW = 16 << 20,            /* bytes */
    TRI_LIMIT_COLUMNS = 100 * 1000,
    TRI_LIMIT_PARQUET_FOOTER = 256 << 20,    /* bytes */
    TRI_LIMIT_GROUP_ROWS = 64 << 20,         /* of a row group of Parquet */
    TRI_LIMIT_VOCABULARY = 10 * 1000 * 1000,
    TRI_RANKS_PER_NODE = 256 /* most ranks of one machine */
};
