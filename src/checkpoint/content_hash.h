/* content_hash.h - xxh3-128, as 32 hex digits of its canonical (big-endian) form. */
#pragma once

#include "base/base.h"

void tri__hash(const void *data, size_t size, char hex[static 33]);

/* Hash of bytes [at, at + size) of an open file; `path` is for messages. */
tri_status tri__hash_file(int fd, uint64_t at, uint64_t size, const char *path, char hex[static 33]);

/* Incremental: begin, add, end. */
typedef struct tri_hasher {
    _Alignas(64) char state[576]; /* xxHash's */
} tri_hasher;
void tri__hasher_begin(tri_hasher *hasher);
void tri__hasher_add(tri_hasher *hasher, const void *data, size_t size);
void tri__hasher_end(const tri_hasher *hasher, char hex[static 33]);
