/* charsmap.c - reads and applies a precompiled character map. The trie's nodes are bases: the child of base p by byte c
 * is the unit at p ^ c, if its label is c, and that unit's offset leads on to the child's base. Subtrees may be shared,
 * but a path that returns to a base on it is a cycle, and refused. */
#include "data/text/charsmap.h"

#include "data/text/graphemes.h"

enum { BLOCK = 256, ASCII = 128 };

struct tri_charsmap {
    uint32_t *unit;      /* [units] */
    uint32_t units;
    char *text;          /* [bytes + 1] the replacements, each 0-terminated */
    uint32_t bytes;
    size_t longest;      /* bytes of the longest replacement, at least 4: a character that is kept */
    struct {
        int32_t start;   /* of its replacement in text; -1: it is kept */
        int32_t length;
    } ascii[ASCII];
};

static uint32_t offset(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }
static uint32_t label(uint32_t unit) { return unit & (1u << 31 | 0xFF); }
static int has_leaf(uint32_t unit) { return unit >> 8 & 1; }
static uint32_t value(uint32_t unit) { return unit & ~(1u << 31); }

/* The replacement of the shortest prefix of text[length] that the trie has: its start; -1 if there is none. */
static int64_t find(const tri_charsmap *map, const char *text, size_t length) {
    uint32_t base = offset(map->unit[0]);
    for (size_t i = 0; i < length && text[i]; i++) {
        uint32_t byte = (unsigned char)text[i], unit = map->unit[base ^ byte];
        if (label(unit) != byte) return -1;
        base ^= byte ^ offset(unit);
        if (has_leaf(unit)) return value(map->unit[base]);
    }
    return -1;
}

/* Decodes strict base64. Returns the number of bytes; -1 if it is not base64. */
static int64_t decode(const char *base64, size_t length, unsigned char *out) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int64_t n = 0;
    if (length % 4) return -1;
    for (size_t i = 0; i < length; i += 4) {
        uint32_t bits = 0;
        int pads = i + 4 < length ? 0 : (base64[i + 3] == '=') + (base64[i + 3] == '=' && base64[i + 2] == '=');
        for (int k = 0; k < 4; k++) {
            const char *at = base64[i + (size_t)k] ? strchr(letters, base64[i + (size_t)k]) : NULL;
            if (!at && k < 4 - pads) return -1;
            bits = bits << 6 | (k < 4 - pads ? (uint32_t)(at - letters) : 0);
        }
        if (bits & ((1u << 8 * pads) - 1)) return -1; /* bits that no byte has */
        for (int k = 0; k < 3 - pads; k++) out[n++] = (unsigned char)(bits >> (16 - 8 * k));
    }
    return n;
}

static uint32_t read32(const unsigned char *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Takes the parts out of data[n]. */
static tri_status take_parts(const char *where, const unsigned char *data, int64_t n, tri_charsmap *map) {
    uint32_t trie = n >= 4 ? read32(data) : 0;
    if (n < 4 || trie > n - 4 || trie % 4 || trie < 4 * BLOCK)
        return tri__fail(TRI_DATA, "%s: precompiled_charsmap has %lld bytes, but says that its trie has %u", where,
                         (long long)n, trie);
    map->units = trie / 4;
    map->bytes = (uint32_t)(n - 4 - trie);
    map->unit = malloc(trie);
    map->text = malloc((size_t)map->bytes + 1);
    if (!map->unit || !map->text) return tri__fail(TRI_RESOURCE, "%s: out of memory", where);
    for (uint32_t i = 0; i < map->units; i++) map->unit[i] = read32(data + 4 + 4 * (size_t)i);
    memcpy(map->text, data + 4 + trie, map->bytes);
    map->text[map->bytes] = 0;
    for (size_t at = 0; at < map->bytes;)
        if (tri__utf8_next(map->text, map->bytes, &at) < 0)
            return tri__fail(TRI_DATA, "%s: precompiled_charsmap: a replacement is not UTF-8", where);
    return TRI_OK;
}

/* A base on the path from the root, and the byte to follow next. */
typedef struct step {
    uint32_t base, byte;
} step;

/* Checks the unit that leads to a base, and the base. */
static tri_status check_node(const char *where, tri_charsmap *map, uint32_t unit, uint32_t base) {
    if ((base | (BLOCK - 1)) >= map->units)
        return tri__fail(TRI_DATA, "%s: precompiled_charsmap: the trie leads outside of itself, to unit %u of %u",
                         where, base, map->units);
    if (!has_leaf(unit)) return TRI_OK;
    uint32_t start = value(map->unit[base]);
    if (start > map->bytes || (map->text[start] & 0xC0) == 0x80)
        return tri__fail(TRI_DATA, "%s: precompiled_charsmap: a replacement begins at byte %u, where there is none",
                         where, start);
    size_t length = strlen(map->text + start);
    if (length > TRI_REPLACEMENT_BYTES)
        return tri__fail(TRI_DATA, "%s: precompiled_charsmap: a replacement has more than %d bytes", where,
                         TRI_REPLACEMENT_BYTES);
    if (length > map->longest) map->longest = length;
    return TRI_OK;
}

/* Follows every path from the root once. state[units]: 0 unseen, 1 on the path, 2 done; path[units]. */
static tri_status check_paths(const char *where, tri_charsmap *map, unsigned char *state, step *path) {
    uint32_t root = offset(map->unit[0]), depth = 1;
    TRI_TRY(check_node(where, map, 0, root));
    path[0] = (step){root, 1};
    state[root] = 1;
    while (depth) {
        step *top = &path[depth - 1];
        if (top->byte == BLOCK) {
            state[top->base] = 2;
            depth--;
            continue;
        }
        uint32_t byte = top->byte++, unit = map->unit[top->base ^ byte], base = top->base ^ byte ^ offset(unit);
        if (label(unit) != byte) continue;
        TRI_TRY(check_node(where, map, unit, base));
        if (state[base] == 1)
            return tri__fail(TRI_DATA, "%s: precompiled_charsmap: the trie has a cycle, at unit %u", where, base);
        if (state[base]) continue;
        state[base] = 1;
        path[depth++] = (step){base, 1};
    }
    return TRI_OK;
}

static tri_status check_trie(const char *where, tri_charsmap *map) {
    TRI_OWNED(tri__free_at) unsigned char *state = calloc(map->units, 1);
    TRI_OWNED(tri__free_at) step *path = malloc(map->units * sizeof *path);
    if (!state || !path) return tri__fail(TRI_RESOURCE, "%s: out of memory", where);
    return check_paths(where, map, state, path);
}

tri_status tri__charsmap_read(const char *where, const char *base64, size_t length, tri_charsmap **out) {
    tri_charsmap *map = *out = calloc(1, sizeof *map); /* freed with its rule, also after a failure */
    TRI_OWNED(tri__free_at) unsigned char *data = malloc(length / 4 * 3 + 1);
    if (!map || !data) return tri__fail(TRI_RESOURCE, "%s: out of memory", where);
    int64_t n = decode(base64, length, data);
    if (n < 0) return tri__fail(TRI_DATA, "%s: precompiled_charsmap is not base64", where);
    TRI_TRY(take_parts(where, data, n, map));
    TRI_TRY(check_trie(where, map));
    if (map->longest < 4) map->longest = 4;
    for (int byte = 0; byte < ASCII; byte++) {
        char letter = (char)byte;
        int64_t start = find(map, &letter, 1);
        map->ascii[byte].start = (int32_t)start;
        map->ascii[byte].length = start < 0 ? 0 : (int32_t)strlen(map->text + start);
    }
    return TRI_OK;
}

void tri__charsmap_free(tri_charsmap *map) {
    if (!map) return;
    TRI_FREE(map->unit, map->text, map);
}

size_t tri__charsmap_longest(const tri_charsmap *map) { return map->longest; }

/* Appends the replacement of text[length]; 0 if there is none. */
static int put(const tri_charsmap *map, const char *text, size_t length, char *out, size_t *n) {
    int64_t start = find(map, text, length);
    if (start < 0) return 0;
    size_t bytes = strlen(map->text + start);
    memcpy(out + *n, map->text + start, bytes);
    *n += bytes;
    return 1;
}

/* Appends a cluster's replacement, or its characters'. */
static tri_status put_cluster(const tri_charsmap *map, const char *text, size_t length, tri_bytes *to, size_t *n) {
    TRI_TRY(tri__bytes_room(to, *n + map->longest));
    if (length < TRI_CLUSTER_BYTES && put(map, text, length, to->at, n)) return TRI_OK;
    for (size_t at = 0, next = 0; at < length; at = next) {
        int32_t code = tri__utf8_next(text, length, &next);
        TRI_TRY(tri__bytes_room(to, *n + map->longest));
        if (code < 0 || put(map, text + at, next - at, to->at, n)) continue;
        memcpy(to->at + *n, text + at, next - at);
        *n += next - at;
    }
    return TRI_OK;
}

tri_status tri__charsmap_apply(const tri_charsmap *map, const char *text, size_t length, tri_bytes *to, size_t *n) {
    *n = 0;
    TRI_TRY(tri__bytes_room(to, length));
    for (size_t at = 0; at < length;) {
        unsigned char byte = (unsigned char)text[at], after = at + 1 < length ? (unsigned char)text[at + 1] : 0;
        if (byte < ASCII && after < ASCII && (byte != '\r' || after != '\n')) { /* a cluster of one letter */
            if (*n + map->longest > to->room) TRI_TRY(tri__bytes_room(to, *n + map->longest));
            if (map->ascii[byte].start < 0) {
                to->at[(*n)++] = text[at];
            } else {
                memcpy(to->at + *n, map->text + map->ascii[byte].start, (size_t)map->ascii[byte].length);
                *n += (size_t)map->ascii[byte].length;
            }
            at++;
            continue;
        }
        size_t end = tri__grapheme_end(text, length, at);
        TRI_TRY(put_cluster(map, text + at, end - at, to, n));
        at = end;
    }
    return TRI_OK;
}
