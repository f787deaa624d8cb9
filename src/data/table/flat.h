/* flat.h - reads FlatBuffers (the metadata of Arrow files): tables whose fields are found by slot, strings, vectors.
 * Every access is checked against the buffer. A bad one sets `bad` and gives the default, so that callers read on and
 * look once at the end; a loop's length is at most the buffer's. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct tri_flat {
    const uint8_t *bytes;
    size_t size;             /* below 2^31 */
    int bad;
} tri_flat;

/* Where a table begins; 0: there is none. */
typedef size_t tri_flat_table;

/* Whether [at, at + n) is inside the buffer. */
static inline int tri__flat_inside(tri_flat *flat, size_t at, size_t n) {
    if (at <= flat->size && n <= flat->size - at) return 1;
    flat->bad = 1;
    return 0;
}

/* The number of n bytes at `at`, little-endian, without a sign. */
static inline uint64_t tri__flat_read(tri_flat *flat, size_t at, size_t n) {
    uint64_t value = 0;
    if (tri__flat_inside(flat, at, n)) memcpy(&value, flat->bytes + at, n);
    return value;
}

/* Follows the offset that stands at `at`; 0 if it leads outside. */
static inline size_t tri__flat_follow(tri_flat *flat, size_t at) {
    size_t to = at + (size_t)tri__flat_read(flat, at, 4);
    if (flat->bad || to == at || !tri__flat_inside(flat, to, 4)) {
        flat->bad = 1;
        return 0;
    }
    return to;
}

static inline tri_flat_table tri__flat_root(tri_flat *flat) { return tri__flat_follow(flat, 0); }

/* Where a table's field is; 0 if the table leaves it out, has no such slot, or is none. */
static inline size_t tri__flat_slot(tri_flat *flat, tri_flat_table table, int slot) {
    if (!table) return 0;
    int64_t vtable = (int64_t)table - (int32_t)tri__flat_read(flat, table, 4);
    if (flat->bad || vtable < 0 || !tri__flat_inside(flat, (size_t)vtable, 4)) {
        flat->bad = 1;
        return 0;
    }
    size_t bytes = (size_t)tri__flat_read(flat, (size_t)vtable, 2), entry = 4 + 2 * (size_t)slot;
    if (entry + 2 > bytes) return 0;
    size_t offset = (size_t)tri__flat_read(flat, (size_t)vtable + entry, 2);
    return offset && !flat->bad ? table + offset : 0;
}

/* A number of n bytes, with its sign. */
static inline int64_t tri__flat_number(tri_flat *flat, tri_flat_table table, int slot, size_t n, int64_t absent) {
    size_t at = tri__flat_slot(flat, table, slot);
    if (!at || !tri__flat_inside(flat, at, n)) return absent;
    uint64_t value = tri__flat_read(flat, at, n), sign = 1ull << (8 * n - 1);
    return n == 8 ? (int64_t)value : (int64_t)(value ^ sign) - (int64_t)sign;
}

static inline tri_flat_table tri__flat_child(tri_flat *flat, tri_flat_table table, int slot) {
    size_t at = tri__flat_slot(flat, table, slot);
    return at ? tri__flat_follow(flat, at) : 0;
}

/* The first element of a vector of `each` bytes an element; 0 and *n = 0: there is none. Strings: each = 1. */
static inline size_t tri__flat_vector(tri_flat *flat, tri_flat_table table, int slot, size_t each, size_t *n) {
    size_t at = tri__flat_child(flat, table, slot);
    *n = at ? (size_t)tri__flat_read(flat, at, 4) : 0;
    if (*n > flat->size / each || !tri__flat_inside(flat, at, *n ? 4 + *n * each : 0)) {
        flat->bad = 1, *n = 0;
        return 0;
    }
    return at ? at + 4 : 0;
}
