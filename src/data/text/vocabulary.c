/* vocabulary.c - pieces in two hash tables: by their whole text, and, for pieces that continue a word, by the text
 * after the prefix, so that look-ups copy nothing. Memory is bounded by the size of the file. */
#include "data/text/vocabulary.h"

tri_status tri__vocabulary_open(tri_vocabulary *vocabulary, int64_t n, size_t bytes, const char *prefix) {
    *vocabulary = (tri_vocabulary){0};
    if (n > TRI_LIMIT_VOCABULARY || bytes > UINT32_MAX / 2)
        return tri__fail(TRI_DATA, "%lld ids, %zu bytes; a vocabulary has at most %d ids", (long long)n, bytes,
                         TRI_LIMIT_VOCABULARY);
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)n) slots *= 2;
    vocabulary->n = (int)n;
    vocabulary->mask = slots - 1;
    vocabulary->text = malloc(bytes + (size_t)n + 1);
    vocabulary->start = calloc((size_t)n + 1, sizeof *vocabulary->start);
    vocabulary->length = calloc((size_t)n + 1, sizeof *vocabulary->length);
    vocabulary->whole = malloc(slots * sizeof *vocabulary->whole);
    vocabulary->rest = *prefix ? malloc(slots * sizeof *vocabulary->rest) : NULL;
    vocabulary->prefix = strdup(prefix);
    if (!vocabulary->text || !vocabulary->start || !vocabulary->length || !vocabulary->whole || !vocabulary->prefix ||
        (*prefix && !vocabulary->rest)) {
        tri__vocabulary_free(vocabulary);
        return tri__fail(TRI_RESOURCE, "out of memory for a vocabulary of %lld pieces", (long long)n);
    }
    memset(vocabulary->whole, 0xFF, slots * sizeof *vocabulary->whole);
    if (vocabulary->rest) memset(vocabulary->rest, 0xFF, slots * sizeof *vocabulary->rest);
    vocabulary->text[vocabulary->used++] = 0;
    return TRI_OK;
}

void tri__vocabulary_free(tri_vocabulary *vocabulary) {
    TRI_FREE(vocabulary->text, vocabulary->start, vocabulary->length, vocabulary->whole, vocabulary->rest);
    free(vocabulary->prefix);
    *vocabulary = (tri_vocabulary){0};
}

uint64_t tri__piece_hash(const char *bytes, size_t length) { return tri__hash64(0, bytes, length); }

/* The slot of a piece without its first `skip` bytes, or the empty one where it would go. */
static tri_piece_slot *seek(const tri_vocabulary *vocabulary, tri_piece_slot *slots, size_t skip, const char *bytes,
                            size_t length, uint64_t hash) {
    uint32_t tag = (uint32_t)(hash >> 32);
    for (uint64_t at = hash & vocabulary->mask;; at = (at + 1) & vocabulary->mask) {
        tri_piece_slot *slot = &slots[at];
        if (slot->id < 0) return slot;
        if (slot->tag == tag && vocabulary->length[slot->id] == length + skip &&
            !memcmp(vocabulary->text + vocabulary->start[slot->id] + skip, bytes, length))
            return slot;
    }
}

int32_t tri__vocabulary_find(const tri_vocabulary *vocabulary, const char *piece, size_t length, uint64_t hash) {
    return seek(vocabulary, vocabulary->whole, 0, piece, length, hash)->id;
}

int32_t tri__vocabulary_find_rest(const tri_vocabulary *vocabulary, const char *bytes, size_t length) {
    uint64_t hash = tri__piece_hash(bytes, length);
    if (!vocabulary->rest) return tri__vocabulary_find(vocabulary, bytes, length, hash);
    return seek(vocabulary, vocabulary->rest, strlen(vocabulary->prefix), bytes, length, hash)->id;
}

int32_t tri__vocabulary_named(const tri_vocabulary *vocabulary, const char *piece) {
    size_t length = strlen(piece);
    return tri__vocabulary_find(vocabulary, piece, length, tri__piece_hash(piece, length));
}

int32_t tri__vocabulary_add(tri_vocabulary *vocabulary, int32_t id, const char *piece, size_t length) {
    uint64_t hash = tri__piece_hash(piece, length);
    tri_piece_slot *slot = seek(vocabulary, vocabulary->whole, 0, piece, length, hash);
    if (slot->id >= 0) return slot->id;
    *slot = (tri_piece_slot){(uint32_t)(hash >> 32), id};
    vocabulary->start[id] = (uint32_t)vocabulary->used;
    vocabulary->length[id] = (uint32_t)length;
    memcpy(vocabulary->text + vocabulary->used, piece, length);
    vocabulary->text[vocabulary->used + length] = 0;
    vocabulary->used += length + 1;
    if (length > vocabulary->longest) vocabulary->longest = length;
    size_t skip = strlen(vocabulary->prefix);
    if (!vocabulary->rest) {
        vocabulary->longest_rest = vocabulary->longest;
    } else if (length > skip && !memcmp(piece, vocabulary->prefix, skip)) {
        hash = tri__piece_hash(piece + skip, length - skip);
        slot = seek(vocabulary, vocabulary->rest, skip, piece + skip, length - skip, hash);
        *slot = (tri_piece_slot){(uint32_t)(hash >> 32), id};
        if (length - skip > vocabulary->longest_rest) vocabulary->longest_rest = length - skip;
    }
    return -1;
}

/* Writes what is wrong with a piece to `why`; 0 if it is valid. */
static int is_bad(const char *piece, size_t length, char why[static 64]) {
    if (memchr(piece, 0, length)) return snprintf(why, 64, "NUL byte");
    for (size_t at = 0; at < length;) {
        size_t here = at;
        if (tri__utf8_next(piece, length, &at) < 0)
            return snprintf(why, 64, "invalid UTF-8 byte 0x%02x", (unsigned char)piece[here]);
    }
    return 0;
}

static tri_status add_line(const char *path, tri_vocabulary *vocabulary, int32_t id, const char *piece, size_t length) {
    long long line = (long long)id + 1;
    char why[64];
    if (length && piece[length - 1] == '\r') length--;
    if (!length) return tri__fail(TRI_DATA, "%s:%lld: empty line; every line is a piece", path, line);
    if (is_bad(piece, length, why)) return tri__fail(TRI_DATA, "%s:%lld: %s", path, line, why);
    int32_t before = tri__vocabulary_add(vocabulary, id, piece, length);
    if (before < 0) return TRI_OK;
    return tri__fail(TRI_DATA, "%s:%lld: piece \"%.*s\" is already in line %d", path, line,
                     length < 80 ? (int)length : 80, piece, before + 1);
}

tri_status tri__vocabulary_read_lines(const char *path, const char *text, size_t size, const char *prefix,
                                      tri_vocabulary *out) {
    *out = (tri_vocabulary){0};
    if (size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) text += 3, size -= 3;
    if (!size) return tri__fail(TRI_DATA, "%s:1: the vocabulary is empty", path);
    int64_t lines = text[size - 1] != '\n';
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
    tri_status status = tri__vocabulary_open(out, lines, size, prefix);
    if (status != TRI_OK) return tri__fail_in(status, "%s", path);
    int32_t id = 0;
    for (size_t start = 0, end; start < size; start = end + 1) {
        const char *feed = memchr(text + start, '\n', size - start);
        end = feed ? (size_t)(feed - text) : size;
        TRI_TRY(add_line(path, out, id++, text + start, end - start));
    }
    return TRI_OK;
}

static tri_status add_entry(const char *path, tri_vocabulary *vocabulary, const char *piece, const tri_json *value) {
    int32_t id = (int32_t)tri__json_integer_value(value);
    size_t length = strlen(piece);
    if (!length) return tri__fail(TRI_DATA, "%s: id %d has an empty piece", path, id);
    if (vocabulary->length[id])
        return tri__fail(TRI_DATA, "%s: id %d belongs to \"%.80s\" and to \"%.80s\"", path, id,
                         vocabulary->text + vocabulary->start[id], piece);
    int32_t before = tri__vocabulary_add(vocabulary, id, piece, length);
    return before < 0 ? TRI_OK : tri__fail(TRI_DATA, "%s: piece \"%.80s\" has ids %d and %d", path, piece, before, id);
}

tri_status tri__vocabulary_read_json(const char *path, const tri_json *object, size_t size, const char *prefix,
                                     tri_vocabulary *out) {
    *out = (tri_vocabulary){0};
    tri_json_int most = size < TRI_LIMIT_VOCABULARY ? (tri_json_int)size : TRI_LIMIT_VOCABULARY, ids = 0;
    size_t bytes = 0;
    if (!tri__json_is_object(object) || !tri__json_object_size(object))
        return tri__fail(TRI_DATA, "%s: the vocabulary must be an object {piece: id} that is not empty", path);
    tri__json_members(object, m) {
        if (!tri__json_is_integer(m->value))
            return tri__fail(TRI_DATA, "%s: the id of \"%.80s\" must be a whole number", path, m->key);
        tri_json_int id = tri__json_integer_value(m->value);
        if (id < 0 || id >= most)
            return tri__fail(TRI_DATA, "%s: the id of \"%.80s\" is %lld; ids of this file are 0 to %lld at most", path,
                             m->key, (long long)id, (long long)most - 1);
        if (id >= ids) ids = id + 1;
        bytes += strlen(m->key);
    }
    tri_status status = tri__vocabulary_open(out, ids, bytes, prefix);
    if (status != TRI_OK) return tri__fail_in(status, "%s", path);
    tri__json_members(object, m) TRI_TRY(add_entry(path, out, m->key, m->value));
    return TRI_OK;
}
