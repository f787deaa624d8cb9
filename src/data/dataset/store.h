/* store.h - the file of a token store: a header and arrays, written in one go, then only read. The same arrays without
 * a file live in memory. docs/internals/token-store.md has the layout. */
#ifndef TRI_DATA_DATASET_STORE_H
#define TRI_DATA_DATASET_STORE_H

#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"

typedef struct tri_key {
    uint64_t low, high;      /* of xxh3-128 over all that a store was made of */
} tri_key;

/* What a store was made of, and where that came from. */
typedef struct tri_store_origin {
    tri_key key;             /* of all of it: the store's name */
    tri_key table;           /* of the table's bytes alone */
    uint64_t place;          /* xxh3-64 of the table's path, links resolved */
} tri_store_origin;

typedef enum tri_section {
    TRI_SECTION_NUMBERS,     /* float [n, width] */
    TRI_SECTION_LABELS,      /* int32 [n]; empty: none */
    TRI_SECTION_IDS0,        /* int32 [tokens] */
    TRI_SECTION_START0,      /* int64 [n + 1] */
    TRI_SECTION_IDS1,
    TRI_SECTION_START1,      /* empty: no second text */
    TRI_SECTION_NOTES,       /* JSON: rows left out, preprocessing fitted on this table */
    TRI_SECTION_COUNT
} tri_section;

typedef struct tri_store {
    char *path;                              /* for messages; NULL: closed */
    int fd;                                  /* its lock says that the store is in use */
    uint64_t file_bytes;
    int64_t rows, width;
    uint64_t offset[TRI_SECTION_COUNT];      /* in the file */
    size_t bytes[TRI_SECTION_COUNT];
} tri_store;

/* How long somebody else's lock on a store is waited for, what ends the wait early, and who is told of it; any may be
 * left out. */
typedef struct tri_store_wait {
    double seconds;                          /* 0: 5 */
    const tri_stop *stop;
    const tri_log *log;
} tri_store_wait;

typedef struct tri_store_writer tri_store_writer;

/* folder/<key>.tokens */
tri_status tri__store_path(const char *folder, const tri_key *key, char out[static TRI_PATH_MAX]);
/* Opens a store and checks all of it against its hashes; what its arrays hold is for the reader to check. TRI_NOINPUT:
 * there is none. TRI_DATA: it is damaged, of another version, or another key's. TRI_BUSY: somebody else holds its lock.
 * wait: NULL for the usual. */
tri_status tri__store_open(const char *path, const tri_key *key, const tri_store_wait *wait, tri_store *out);
/* Bytes [at, at + bytes) of a section. TRI_IO when they are no longer there. For any number of threads. */
tri_status tri__store_read(const tri_store *store, tri_section section, size_t at, size_t bytes, void *out);
void tri__store_close(tri_store *store); /* accepts a zeroed one */

/* path NULL: in memory. */
tri_status tri__store_create(const char *path, const tri_store_origin *origin, const tri_store_wait *wait,
                             tri_store_writer **out);
/* Sections may come in any order, each once. */
tri_status tri__store_begin(tri_store_writer *writer, tri_section section);
tri_status tri__store_append(tri_store_writer *writer, const void *data, size_t bytes);
/* Makes it visible to others, all of it or nothing, and opens it. The writer is freed in any case. */
tri_status tri__store_commit(tri_store_writer *writer, int64_t rows, int64_t width, tri_store *out);
void tri__store_abandon(tri_store_writer *writer); /* accepts NULL */

/* Whether no build like this one can use the store open as `fd` again: it is of an older version, or of the same table
 * with another content. A file that is not a store is not superseded. */
int tri__store_superseded(int fd, const tri_store_origin *origin);
/* Removes from a folder of stores, before `origin` is made there: those superseded, and what builders that died left
 * behind. What any process has open stays. Returns how many files went; failures only leave files where they are. */
int tri__store_clean(const char *folder, const tri_store_origin *origin);

#endif
