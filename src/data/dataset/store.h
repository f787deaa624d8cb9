/* store.h - the file of a token store: a header and arrays, written once, then only read. Without a file, the same
 * arrays are kept in memory. docs/internals/token-store.md has the layout. */
#pragma once

#include "base/file.h"
#include "base/log.h"

typedef struct tri_key {
    uint64_t low, high;      /* xxh3-128 over all inputs of a store */
} tri_key;

/* The inputs of a store, and where they came from. */
typedef struct tri_store_origin {
    tri_key key;             /* of all inputs: the store's name */
    tri_key table;           /* of the table's bytes only */
    uint64_t place;          /* xxh3-64 of the table's path, links resolved */
} tri_store_origin;

typedef enum tri_section {
    TRI_SECTION_NUMBERS,     /* float [n, width] */
    TRI_SECTION_LABELS,      /* 4-byte words, as many for each row; empty: none */
    TRI_SECTION_IDS0,        /* int32 [tokens] */
    TRI_SECTION_START0,      /* int64 [n + 1] */
    TRI_SECTION_IDS1,        /* of all further texts, one after the other */
    TRI_SECTION_START1,      /* int64 [texts - 1, n + 1]; empty: no second text */
    TRI_SECTION_PARTS,       /* uint8 [n] tri_rows_for; empty: the table is not divided */
    TRI_SECTION_NOTES,       /* JSON: skipped rows, preprocessing fitted on this table */
    TRI_SECTION_COUNT
} tri_section;

typedef struct tri_store {
    char *path;                              /* for messages; NULL: closed */
    int fd;                                  /* locked while the store is in use */
    uint64_t file_bytes;
    int64_t rows, width;
    uint64_t offset[TRI_SECTION_COUNT];      /* in the file */
    size_t bytes[TRI_SECTION_COUNT];
} tri_store;

/* How long to wait for another process's lock on a store, what ends the wait early, and where it is logged; all
 * optional. */
typedef struct tri_store_wait {
    double seconds;                          /* 0: 5 */
    const tri_stop *stop;
    const tri_log *log;
} tri_store_wait;

typedef struct tri_store_writer tri_store_writer;

/* folder/<key>.tokens */
tri_status tri__store_path(const char *folder, const tri_key *key, char out[static TRI_PATH_MAX]);
/* Opens a store and checks all of it against its hashes; the caller checks the arrays' content. TRI_NOINPUT: no such
 * store. TRI_DATA: it is damaged, or has another version or key. TRI_BUSY: another process holds its lock. wait: NULL
 * for the defaults. */
tri_status tri__store_open(const char *path, const tri_key *key, const tri_store_wait *wait, tri_store *out);
/* Bytes [at, at + bytes) of a section. TRI_IO if the file has been truncated. Thread-safe. */
tri_status tri__store_read(const tri_store *store, tri_section section, size_t at, size_t bytes, void *out);
/* Another one of the same file, closed on its own. */
tri_status tri__store_share(const tri_store *store, tri_store *out);
void tri__store_close(tri_store *store); /* accepts a zeroed one */

/* path NULL: in memory. */
tri_status tri__store_create(const char *path, const tri_store_origin *origin, const tri_store_wait *wait,
                             tri_store_writer **out);
/* Sections may come in any order, each once. */
tri_status tri__store_begin(tri_store_writer *writer, tri_section section);
tri_status tri__store_append(tri_store_writer *writer, const void *data, size_t bytes);
/* Publishes the store atomically and opens it. The writer is freed even after a failure. */
tri_status tri__store_commit(tri_store_writer *writer, int64_t rows, int64_t width, tri_store *out);
void tri__store_abandon(tri_store_writer *writer); /* accepts NULL */
static inline void tri__store_writer_drop(tri_store_writer **at) { tri__store_abandon(*at); }

/* Whether the store open as `fd` is obsolete: of an older version, or of the same table with other content. A file that
 * is not a store is never superseded. */
int tri__store_superseded(int fd, const tri_store_origin *origin);
/* Cleans a folder of stores before `origin` is built there: removes superseded stores, and temporary files of killed
 * builders. Files that any process has open stay. Returns the number of files removed; failures only leave files in
 * place. */
int tri__store_clean(const char *folder, const tri_store_origin *origin);
