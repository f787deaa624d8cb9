/* wordpiece.c - a vocabulary in a hash table on bytes, and the greedy longest match of Wu et al. 2016 (BERT). No piece is
 * looked for that is longer than the longest there is, so a word costs at most its characters times that length. */
#include "data/wordpiece.h"

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

const tri_special tri__specials[TRI_TOKENS] = {
    [TRI_TOKEN_PAD] = {"pad_token", "[PAD]", 0}, [TRI_TOKEN_UNK] = {"unk_token", "[UNK]", 1},
    [TRI_TOKEN_CLS] = {"cls_token", "[CLS]", 1}, [TRI_TOKEN_SEP] = {"sep_token", "[SEP]", 1},
    [TRI_TOKEN_MASK] = {"mask_token", "[MASK]", 0},
};

static int continues_word(const char *piece, size_t length) { return length > 2 && piece[0] == '#' && piece[1] == '#'; }

/* The slot of a piece, or the empty one where it would go. */
static struct tri_piece_slot *seek(const tri_pieces *pieces, const char *bytes, size_t length, int continues, uint32_t *tag) {
    uint64_t hash = XXH3_64bits_withSeed(bytes, length, (uint64_t)continues);
    *tag = (uint32_t)(hash >> 32);
    for (uint64_t at = hash & pieces->mask;; at = (at + 1) & pieces->mask) {
        struct tri_piece_slot *slot = &pieces->slot[at];
        if (slot->id < 0) return slot;
        if (slot->tag != *tag) continue;
        const char *piece = pieces->text + pieces->start[slot->id];
        size_t size = strlen(piece);
        if (continues_word(piece, size) != continues) continue;
        if (continues) piece += 2, size -= 2;
        if (size == length && !memcmp(piece, bytes, length)) return slot;
    }
}

int32_t tri__pieces_find(const tri_pieces *pieces, const char *bytes, size_t length, int continues) {
    uint32_t tag;
    return seek(pieces, bytes, length, continues, &tag)->id;
}

int32_t tri__pieces_named(const tri_pieces *pieces, const char *piece) {
    size_t length = strlen(piece);
    int continues = continues_word(piece, length);
    return tri__pieces_find(pieces, piece + 2 * continues, length - 2 * (size_t)continues, continues);
}

static tri_status add_piece(const char *path, tri_pieces *pieces, size_t start, size_t length) {
    char *piece = pieces->text + start;
    long long line = pieces->n + 1;
    if (length && piece[length - 1] == '\r') length--;
    piece[length] = 0;
    if (!length) return tri__fail(TRI_DATA, "%s:%lld: empty line; every line is a piece", path, line);
    if (strlen(piece) != length) return tri__fail(TRI_DATA, "%s:%lld: NUL byte", path, line);
    for (size_t at = 0; at < length;) {
        size_t here = at;
        if (tri__utf8_next(piece, length, &at) < 0)
            return tri__fail(TRI_DATA, "%s:%lld: invalid UTF-8 byte 0x%02x", path, line, (unsigned char)piece[here]);
    }
    int continues = continues_word(piece, length);
    size_t bytes = length - 2 * (size_t)continues;
    uint32_t tag;
    struct tri_piece_slot *slot = seek(pieces, piece + 2 * continues, bytes, continues, &tag);
    if (slot->id >= 0)
        return tri__fail(TRI_DATA, "%s:%lld: piece \"%.80s\" stands already in line %d", path, line, piece, slot->id + 1);
    pieces->start[pieces->n] = start;
    *slot = (struct tri_piece_slot){tag, pieces->n++};
    if (bytes > pieces->longest[continues]) pieces->longest[continues] = bytes;
    return TRI_OK;
}

static tri_status read_pieces(const char *path, const tri_map *map, tri_pieces *pieces) {
    size_t skip = map->size >= 3 && !memcmp(map->data, "\xEF\xBB\xBF", 3) ? 3 : 0;
    size_t size = map->size - skip, lines = 0;
    const char *data = map->data + skip;
    if (!size) return tri__fail(TRI_DATA, "%s:1: the vocabulary is empty", path);
    for (const char *feed = data; feed && feed < data + size; lines++) {
        feed = memchr(feed, '\n', (size_t)(data + size - feed));
        if (feed) feed++;
    }
    if (lines > TRI_LIMIT_VOCABULARY)
        return tri__fail(TRI_DATA, "%s: %zu pieces; at most %d are read", path, lines, TRI_LIMIT_VOCABULARY);
    uint64_t slots = 16;
    while (slots < 2 * lines) slots *= 2;
    pieces->mask = slots - 1;
    pieces->text = malloc(size + 1);
    pieces->start = malloc(lines * sizeof *pieces->start);
    pieces->slot = malloc(slots * sizeof *pieces->slot);
    if (!pieces->text || !pieces->start || !pieces->slot)
        return tri__fail(TRI_RESOURCE, "%s: out of memory for %zu pieces", path, lines);
    memset(pieces->slot, 0xFF, slots * sizeof *pieces->slot);
    memcpy(pieces->text, data, size);
    for (size_t start = 0; start < size;) {
        char *feed = memchr(pieces->text + start, '\n', size - start);
        size_t end = feed ? (size_t)(feed - pieces->text) : size;
        TRI_TRY(add_piece(path, pieces, start, end - start));
        start = end + 1;
    }
    return TRI_OK;
}

tri_status tri__pieces_load(const char *path, tri_pieces *pieces) {
    *pieces = (tri_pieces){0};
    tri_map map = {0};
    TRI_TRY(tri__file_map(path, &map));
    tri_status status = read_pieces(path, &map, pieces);
    tri__file_unmap(&map);
    if (status != TRI_OK) tri__pieces_free(pieces);
    return status;
}

void tri__pieces_free(tri_pieces *pieces) {
    free(pieces->text);
    free(pieces->start);
    free(pieces->slot);
    *pieces = (tri_pieces){0};
}

int tri__pieces_match(const tri_pieces *pieces, const tri_words *word, int32_t unknown, int32_t ids[static TRI_WORD_CHARS]) {
    ids[0] = unknown;
    if (word->chars > TRI_WORD_CHARS) return 1;
    int n = 0;
    for (size_t start = 0, end; start < word->bytes; start = end) {
        int continues = start > 0;
        end = word->bytes - start > pieces->longest[continues] ? start + pieces->longest[continues] : word->bytes;
        int32_t id = -1;
        for (; end > start; end--) {
            if (end < word->bytes && (word->word[end] & 0xC0) == 0x80) continue; /* inside a character */
            id = tri__pieces_find(pieces, word->word + start, end - start, continues);
            if (id >= 0) break;
        }
        if (id < 0) {
            ids[0] = unknown;
            return 1;
        }
        ids[n++] = id;
    }
    return n;
}

static tri_status write_pieces(const char *folder, const char *const *piece, int n) {
    char path[TRI_PATH_MAX];
    TRI_TRY(tri__path_join(path, folder, "vocab.txt"));
    size_t size = 0;
    for (int i = 0; i < n; i++) size += strlen(piece[i]) + 1;
    char *text = malloc(size + 1), *to = text;
    if (!text) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    for (int i = 0; i < n; i++) {
        to = stpcpy(to, piece[i]);
        *to++ = '\n';
    }
    tri_status status = tri__file_write(path, text, size);
    free(text);
    return status;
}

tri_status tri__wordpiece_write(const char *folder, const char *const *piece, int n, tri_bert_rules rules,
                                const char *const special[static TRI_TOKENS]) {
    TRI_TRY(tri__folder_make(folder));
    TRI_TRY(write_pieces(folder, piece, n));
    char path[TRI_PATH_MAX];
    TRI_TRY(tri__path_join(path, folder, "tokenizer_config.json"));
    json_t *config = json_pack("{s:s, s:b, s:b, s:b}", "tokenizer_class", "BertTokenizer", "do_lower_case",
                               rules.lower_case, "strip_accents", rules.strip_accents, "tokenize_chinese_chars",
                               rules.split_chinese);
    int failed = !config;
    for (int i = 0; i < TRI_TOKENS && !failed; i++)
        failed = json_object_set_new(config, tri__specials[i].key, json_string(special[i]));
    tri_status status = failed ? tri__fail(TRI_RESOURCE, "%s: out of memory", path) : tri__json_save(path, config);
    json_decref(config);
    return status;
}
