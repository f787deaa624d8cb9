/* unigram.c - the best path through a word (Viterbi), as the tokenizers library finds it: positions in order, at each
 * the pieces that begin there by length, then the unknown character; of equal sums the first one found stays. */
#include "data/text/unigram.h"

/* The best path that ends at a byte of the word. */
typedef struct path {
    double score;
    int32_t start; /* where its last piece begins; -1: no path ends here yet */
    int32_t id;    /* of that piece */
} path;

enum { FEW = 8 }; /* children that are searched one by one */

/* The child of a node by a byte; 0: none. */
static int32_t child_of(const tri_unigram *model, int32_t node, unsigned char byte) {
    if (!node) return model->root[byte];
    int32_t low = model->child[node], high = model->child[node + 1];
    while (high - low > FEW) {
        int32_t middle = low + (high - low) / 2;
        if (model->byte[middle] <= byte) low = middle;
        else high = middle;
    }
    for (; low < high; low++)
        if (model->byte[low] == byte) return low;
    return 0;
}

/* Bytes of the character at text[at], from its first byte. */
static size_t char_bytes(const char *text, size_t length, size_t at) {
    unsigned char lead = (unsigned char)text[at];
    size_t bytes = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    return bytes < length - at ? bytes : length - at;
}

static void offer(path *best, size_t end, size_t start, int32_t id, double score) {
    if (best[end].start >= 0 && score <= best[end].score) return;
    best[end] = (path){score, (int32_t)start, id};
}

/* Fills best[length + 1]. */
static void find_paths(const tri_unigram *model, const char *text, size_t length, path *best) {
    for (size_t at = 0; at <= length; at++) best[at].start = -1;
    best[0] = (path){0, -1, -1};
    for (size_t at = 0, bytes; at < length; at += bytes) {
        double before = best[at].score;
        int single = 0;
        int32_t node = 0;
        bytes = char_bytes(text, length, at);
        for (size_t end = at; end < length;) {
            node = child_of(model, node, (unsigned char)text[end++]);
            if (!node) break;
            int32_t id = model->id[node];
            if (id < 0) continue;
            offer(best, end, at, id, model->score[id] + before);
            single |= end == at + bytes;
        }
        if (!single) offer(best, at + bytes, at, model->unknown, model->unknown_score + before);
    }
}

/* Turns the best path around: `start` of each end on it becomes the next end, -1 after the last. Returns the first
 * end. */
static int32_t reverse(path *best, size_t length) {
    int32_t next = -1;
    for (int32_t end = (int32_t)length; end > 0;) {
        int32_t start = best[end].start;
        best[end].start = next;
        next = end, end = start;
    }
    return next;
}

/* Unknown characters in a row count as one text: a piece, by chance, or its bytes, or the unknown token. */
static void put_unknown(const tri_unigram *model, const tri_vocabulary *vocabulary, const char *text, size_t length,
                        tri_ids *ids) {
    int32_t id = length > vocabulary->longest
                     ? -1
                     : tri__vocabulary_find(vocabulary, text, length, tri__piece_hash(text, length));
    int bytes = id < 0 && model->byte_fallback;
    for (size_t i = 0; i < length && bytes; i++) bytes = model->byte_id[(unsigned char)text[i]] >= 0;
    if (!bytes) tri__ids_put(ids, id < 0 ? model->unknown : id);
    for (size_t i = 0; i < length && bytes; i++) tri__ids_put(ids, model->byte_id[(unsigned char)text[i]]);
}

tri_status tri__unigram_encode(const tri_unigram *model, const tri_vocabulary *vocabulary, const char *word,
                               size_t length, tri_scratch *scratch, tri_ids *ids) {
    if (length > INT32_MAX / 4) return tri__fail(TRI_RESOURCE, "a word of %zu bytes is too long", length);
    TRI_TRY(tri__bytes_room(&scratch->symbols, (length + 1) * sizeof(path)));
    path *best = (path *)(void *)scratch->symbols.at;
    find_paths(model, word, length, best);
    int32_t start = 0, unknown = -1; /* where unknown characters in a row begin; -1: there are none */
    for (int32_t end = reverse(best, length); end > 0; start = end, end = best[end].start) {
        int32_t id = best[end].id;
        if (id == model->unknown) {
            if (unknown < 0) unknown = start;
            continue;
        }
        if (unknown >= 0) put_unknown(model, vocabulary, word + unknown, (size_t)(start - unknown), ids);
        unknown = -1;
        tri__ids_put(ids, id);
    }
    if (unknown >= 0) put_unknown(model, vocabulary, word + unknown, length - (size_t)unknown, ids);
    return TRI_OK;
}
