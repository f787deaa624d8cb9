/* wordpiece.c - greedy longest match. Candidates are never longer than the longest piece, so a word costs at most its
 * characters times that length. */
#include "data/text/wordpiece.h"

static int is_too_long(const tri_wordpiece *model, const char *word, size_t length) {
    if (length <= (size_t)model->max_chars) return 0;
    size_t chars = 0;
    for (size_t i = 0; i < length; i++) chars += (word[i] & 0xC0) != 0x80;
    return chars > (size_t)model->max_chars;
}

void tri__wordpiece_encode(const tri_wordpiece *model, const tri_vocabulary *vocabulary, const char *word,
                           size_t length, tri_ids *ids) {
    int64_t begin = ids->n;
    int known = !is_too_long(model, word, length);
    for (size_t start = 0, end; known && start < length; start = end) {
        size_t longest = start ? vocabulary->longest_rest : vocabulary->longest;
        int32_t id = -1;
        for (end = length - start > longest ? start + longest : length; end > start; end--) {
            if (end < length && (word[end] & 0xC0) == 0x80) continue; /* inside a character */
            const char *piece = word + start;
            size_t bytes = end - start;
            id = start ? tri__vocabulary_find_rest(vocabulary, piece, bytes)
                       : tri__vocabulary_find(vocabulary, piece, bytes, tri__piece_hash(piece, bytes));
            if (id >= 0) break;
        }
        known = id >= 0;
        if (known) tri__ids_put(ids, id);
    }
    if (known) return;
    ids->n = begin;
    tri__ids_put(ids, model->unknown);
}
