/* pre_tokenize.h - the second stage of a tokenizer: text to words, by a short list of ways to split. Each word of one
 * goes through the next. */
#ifndef TRI_DATA_TEXT_PRE_TOKENIZE_H
#define TRI_DATA_TEXT_PRE_TOKENIZE_H

#include "data/text/scratch.h"

typedef enum tri_split {
    TRI_SPLIT_BERT,        /* at blanks, and punctuation stands alone */
    TRI_SPLIT_WORDS,       /* \w+|[^\w\s]+ */
    TRI_SPLIT_BLANKS,
    TRI_SPLIT_PUNCTUATION,
    TRI_SPLIT_BYTE_LEVEL   /* GPT-2's pattern; the words' bytes are the model's letters */
} tri_split;

/* What becomes of punctuation. */
typedef enum tri_behaviour {
    TRI_ISOLATED,
    TRI_REMOVED,
    TRI_CONTIGUOUS,
    TRI_WITH_PREVIOUS,
    TRI_WITH_NEXT
} tri_behaviour;

enum { TRI_SPLIT_STEPS = 8 };

typedef struct tri_pre_tokenizer {
    int n;
    struct {
        tri_split kind;
        tri_behaviour behaviour; /* PUNCTUATION */
        int prefix_space;        /* BYTE_LEVEL: a blank goes in front of a text that has none */
        int pattern;             /* BYTE_LEVEL: split; else the text is one word */
    } step[TRI_SPLIT_STEPS];
} tri_pre_tokenizer;

/* Takes a word; 1 to go on, 0 to stop, -1 when it failed. */
typedef int tri_take_word(void *to, const char *word, size_t length);

/* Gives each word to `take`. No words are empty. Linear in the text. Returns what take did last, 1 when there was no
 * word; -1 also when out of memory. */
int tri__pre_tokenize(const tri_pre_tokenizer *pre_tokenizer, const char *text, size_t length, tri_scratch *scratch,
                      tri_take_word *take, void *to);

/* Where the word of GPT-2's pattern that begins at text[at] ends:
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * `lead`: there is a blank before text[at] that is not in the text. Then the word may end at `at`: the blank alone. */
size_t tri__byte_level_end(const char *text, size_t length, size_t at, int lead);
/* The character that stands for a byte in vocabularies of byte-level BPE. */
int32_t tri__byte_level_char(unsigned char byte);

#endif
