/* content_hash.c - the one place that includes xxHash. */
#include "checkpoint/content_hash.h"

#include "base/read_at.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static void write_hex(XXH128_hash_t hash, char hex[static 33]) {
    static const char digits[] = "0123456789abcdef";
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    for (int i = 0; i < 16; i++) {
        hex[2 * i] = digits[canonical.digest[i] >> 4];
        hex[2 * i + 1] = digits[canonical.digest[i] & 15];
    }
    hex[32] = 0;
}

void tri__hash(const void *data, size_t size, char hex[static 33]) { write_hex(XXH3_128bits(data, size), hex); }

_Static_assert(sizeof(XXH3_state_t) <= sizeof(tri_hasher), "the state has its room");

void tri__hasher_begin(tri_hasher *hasher) {
    *hasher = (tri_hasher){0}; /* as XXH3_INITSTATE asks for */
    XXH3_128bits_reset((XXH3_state_t *)hasher->state);
}

void tri__hasher_add(tri_hasher *hasher, const void *data, size_t size) {
    XXH3_128bits_update((XXH3_state_t *)hasher->state, data, size);
}

void tri__hasher_end(const tri_hasher *hasher, char hex[static 33]) {
    write_hex(XXH3_128bits_digest((const XXH3_state_t *)hasher->state), hex);
}

tri_status tri__hash_file(int fd, uint64_t at, uint64_t size, const char *path, char hex[static 33]) {
    enum { PIECE = 1 << 18 };
    TRI_OWNED(tri__free_at) char *piece = malloc(PIECE);
    tri_hasher hasher;
    if (!piece) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    tri__hasher_begin(&hasher);
    for (uint64_t done = 0, part; done < size; done += part) {
        part = size - done < PIECE ? size - done : PIECE;
        TRI_TRY(tri__read_at(fd, at + done, piece, (size_t)part, path));
        tri__hasher_add(&hasher, piece, (size_t)part);
    }
    tri__hasher_end(&hasher, hex);
    return TRI_OK;
}
