/* split_words.h - the words of a text, as a reader sees them: runs between blanks, and single Chinese characters. */
#ifndef TRI_SERVE_EXPLAIN_SPLIT_WORDS_H
#define TRI_SERVE_EXPLAIN_SPLIT_WORDS_H

#include <stddef.h>

typedef struct tri_word_span {
    size_t at, length; /* bytes of the text */
} tri_word_span;

/* The next word of text [length] from byte `from` on; 0: there is none. `text` is UTF-8; other bytes are letters. */
int tri__word_next(const char *text, size_t length, size_t from, tri_word_span *word);

#endif
