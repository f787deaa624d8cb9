/* bert_text.h - text to words as BERT does it: clean, space out Chinese characters, strip accents, lower-case, split on
 * blanks and punctuation. Words come one at a time, with no memory but the iterator's own. */
#ifndef TRI_DATA_BERT_TEXT_H
#define TRI_DATA_BERT_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { TRI_WORD_CHARS = 100 }; /* a longer word is unknown, whatever the vocabulary */

typedef struct tri_bert_rules {
    int lower_case, strip_accents, split_chinese;
} tri_bert_rules;

typedef struct tri_words {
    tri_bert_rules rules;
    const char *text;     /* [length] UTF-8; bytes that are not are dropped, as U+FFFD is */
    size_t length, at;
    int32_t queue[8];     /* characters normalised already, in reverse: the next is the last */
    uint8_t order[8];     /* combining class of each in queue */
    int queued;
    int barrier;          /* characters of the word before which combining marks may not be moved */
    int chars;            /* of the word found; above TRI_WORD_CHARS: too long, and `word` is cut */
    size_t bytes;
    uint8_t mark[TRI_WORD_CHARS];   /* combining class of each character of the word */
    char word[TRI_WORD_CHARS * 4];  /* [bytes] UTF-8 */
} tri_words;

void tri__words_init(tri_words *words, tri_bert_rules rules, const char *text, size_t length);
/* Finds the next word; 0 at the end of the text. */
int tri__words_next(tri_words *words);

/* What a character is to BERT. */
typedef enum tri_bert_kind { TRI_BERT_PLAIN, TRI_BERT_DROP, TRI_BERT_SPACE, TRI_BERT_PUNCTUATION, TRI_BERT_ACCENT } tri_bert_kind;
tri_bert_kind tri__bert_kind(int32_t code);
/* A code point in lower case; writes one or two code points, returns how many. */
int tri__bert_lower(int32_t code, int32_t out[static 2]);
/* Canonical decomposition, at most 4 code points; returns how many. */
int tri__bert_decompose(int32_t code, int32_t out[static 4]);
int tri__bert_is_chinese(int32_t code);
/* Canonical combining class. */
int tri__bert_combining(int32_t code);

#endif
