/* split_words.c - words between blanks. */
#include "serve/explain/split_words.h"

#include "base/text.h"
#include "data/text/unicode.h"

enum kind { BLANK, LETTER, ALONE }; /* ALONE: a word by itself, for writing without blanks */

/* The kind of the character at text[*at], which moves past it. */
static enum kind kind_at(const char *text, size_t length, size_t *at) {
    int32_t code = tri__utf8_next(text, length, at);
    if (code < 0) return LETTER;
    if (tri__char_class(code) & TRI_CHAR_SPACE) return BLANK;
    return tri__char_is_chinese(code) ? ALONE : LETTER;
}

int tri__word_next(const char *text, size_t length, size_t from, tri_word_span *word) {
    size_t at = from, next = from;
    enum kind kind = BLANK;
    while (next < length && kind == BLANK) at = next, kind = kind_at(text, length, &next);
    if (kind == BLANK) return 0;
    *word = (tri_word_span){at, next - at};
    for (at = next; kind == LETTER && at < length && kind_at(text, length, &next) == LETTER; at = next)
        word->length = next - word->at;
    return 1;
}
