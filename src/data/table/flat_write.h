/* flat_write.h - writes FlatBuffers front to back: a table, then what its fields refer to. Fields are named by slot, as
 * in flat.h. Out of memory sets `failed`; callers write on and look once at the end. */
#pragma once

#include "base/base.h"

typedef struct tri_flat_out {
    uint8_t *bytes;          /* the caller frees it */
    size_t size, room;
    int failed;
} tri_flat_out;

/* Appends n zeros; where they begin. */
static inline size_t tri__flat_zeros(tri_flat_out *out, size_t n) {
    size_t at = out->size;
    if (out->failed || !tri__grow(&out->bytes, &out->room, at + n, 1)) {
        out->failed = 1;
        return 0;
    }
    memset(out->bytes + at, 0, n);
    out->size = at + n;
    return at;
}

/* So that what is written after `before` more bytes is aligned. */
static inline void tri__flat_align(tri_flat_out *out, size_t before, size_t align) {
    tri__flat_zeros(out, (align - (out->size + before) % align) % align);
}

static inline void tri__flat_write(tri_flat_out *out, size_t at, uint64_t value, size_t n) {
    if (!out->failed) memcpy(out->bytes + at, &value, n);
}

/* A table whose fields have these sizes ("\2\1\4\10"; \0: the field is left out). */
static inline size_t tri__flat_table_begin(tri_flat_out *out, const char *sizes, int n) {
    size_t vtable = 4 + 2 * (size_t)n, inside = 4, at;
    tri__flat_align(out, vtable, 8);
    at = tri__flat_zeros(out, vtable);
    for (int slot = 0; slot < n; slot++) {
        size_t size = (size_t)sizes[slot];
        if (!size) continue;
        inside = (inside + size - 1) / size * size;
        tri__flat_write(out, at + 4 + 2 * (size_t)slot, inside, 2);
        inside += size;
    }
    tri__flat_write(out, at, vtable, 2);
    tri__flat_write(out, at + 2, inside, 2);
    size_t table = tri__flat_zeros(out, inside);
    tri__flat_write(out, table, vtable, 4);
    return table;
}

/* Where a field of such a table is. */
static inline size_t tri__flat_field(const tri_flat_out *out, size_t table, int slot) {
    uint32_t vtable;
    uint16_t inside;
    if (out->failed) return 0;
    memcpy(&vtable, out->bytes + table, 4);
    memcpy(&inside, out->bytes + table - vtable + 4 + 2 * (size_t)slot, 2);
    return table + inside;
}

/* What is written at `at` refers to `to`. */
static inline void tri__flat_refer(tri_flat_out *out, size_t at, size_t to) { tri__flat_write(out, at, to - at, 4); }

/* A vector of n elements of `each` bytes, zeros yet: its first element; `at` refers to it. */
static inline size_t tri__flat_vector_begin(tri_flat_out *out, size_t at, size_t n, size_t each) {
    tri__flat_align(out, 4, each < 4 ? 4 : 8);
    tri__flat_refer(out, at, tri__flat_zeros(out, 4));
    tri__flat_write(out, out->size - 4, n, 4);
    return tri__flat_zeros(out, n * each);
}

static inline void tri__flat_text(tri_flat_out *out, size_t at, const char *text) {
    size_t n = strlen(text), first = tri__flat_vector_begin(out, at, n, 1);
    tri__flat_zeros(out, 1);
    if (!out->failed) memcpy(out->bytes + first, text, n);
}
