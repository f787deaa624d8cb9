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

struct tri_hasher {
    XXH3_state_t state;
};

tri_status tri__hasher_open(tri_hasher **out) {
    *out = (tri_hasher *)XXH3_createState(); /* with the alignment it needs */
    if (!*out) return tri__fail(TRI_RESOURCE, "no memory for a hash");
    XXH3_128bits_reset(&(*out)->state);
    return TRI_OK;
}

void tri__hasher_add(tri_hasher *hasher, const void *data, size_t size) {
    XXH3_128bits_update(&hasher->state, data, size);
}

void tri__hasher_close(tri_hasher *hasher, char hex[static 33]) {
    write_hex(XXH3_128bits_digest(&hasher->state), hex);
    XXH3_freeState(&hasher->state);
}

tri_status tri__hash_file(int fd, uint64_t at, uint64_t size, const char *path, char hex[static 33]) {
    enum { PIECE = 1 << 18 };
    char *piece = malloc(PIECE);
    tri_hasher *hasher = NULL;
    tri_status status = piece ? tri__hasher_open(&hasher) : tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    for (uint64_t done = 0; status == TRI_OK && done < size;) {
        size_t part = size - done < PIECE ? (size_t)(size - done) : PIECE;
        status = tri__read_at(fd, at + done, piece, part, path);
        if (status == TRI_OK) tri__hasher_add(hasher, piece, part);
        done += part;
    }
    if (hasher) tri__hasher_close(hasher, hex);
    free(piece);
    return status;
}
