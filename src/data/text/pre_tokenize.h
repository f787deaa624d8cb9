/* pre_tokenize.h - the second stage of a tokenizer: splits text into words by a short list of steps. Each word of one
 * step goes through the next. */
#pragma once

#include "data/text/scratch.h"

typedef enum tri_split {
    TRI_SPLIT_BERT,        /* at blanks; punctuation is separate */
    TRI_SPLIT_WORDS,       /* \w+|[^\w\s]+ */
    TRI_SPLIT_BLANKS,
    TRI_SPLIT_PUNCTUATION,
    TRI_SPLIT_BYTE_LEVEL,  /* GPT-2's pattern; bytes of words are the model's letters */
    TRI_SPLIT_METASPACE    /* blanks become a character ("\u2581"), which begins a word */
} tri_split;

/* How punctuation is split off. */
typedef enum tri_behaviour {
    TRI_ISOLATED,
    TRI_REMOVED,
    TRI_CONTIGUOUS,
    TRI_WITH_PREVIOUS,
    TRI_WITH_NEXT
} tri_behaviour;

/* Where METASPACE puts its character in front of a text that does not begin with it. */
typedef enum tri_scheme {
    TRI_SCHEME_FIRST, /* only at the beginning of all */
    TRI_SCHEME_NEVER,
    TRI_SCHEME_ALWAYS
} tri_scheme;

enum { TRI_SPLIT_STEPS = 8 };

typedef struct tri_split_rule {
    tri_split kind;
    tri_behaviour behaviour; /* PUNCTUATION */
    int prefix_space;        /* BYTE_LEVEL: a blank is prepended to a text without one */
    int pattern;             /* BYTE_LEVEL, METASPACE: split; else the text is one word */
    tri_scheme scheme;       /* METASPACE */
    char mark[4];            /* METASPACE: the character, in UTF-8 */
    int mark_bytes;
} tri_split_rule;

typedef struct tri_pre_tokenizer {
    int n;
    tri_split_rule step[TRI_SPLIT_STEPS];
} tri_pre_tokenizer;

/* Takes a word; returns 1 to continue, 0 to stop, -1 on failure. */
typedef int tri_take_word(void *to, const char *word, size_t length);

/* Calls `take` with each word; none is empty. `first`: the text is the beginning of all. Linear time. Returns the last
 * result of take, 1 if there was no word; -1 also if out of memory. */
int tri__pre_tokenize(const tri_pre_tokenizer *pre_tokenizer, const char *text, size_t length, int first,
                      tri_scratch *scratch, tri_take_word *take, void *to);

/* Where the word of GPT-2's pattern that begins at text[at] ends:
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * `lead`: an implicit blank precedes text[at]. The word may then end at `at`: only the blank. */
size_t tri__byte_level_end(const char *text, size_t length, size_t at, int lead);
/* The character that represents a byte in vocabularies of byte-level BPE. */
int32_t tri__byte_level_char(unsigned char byte);
