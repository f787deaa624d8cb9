/* wordpiece.h - the WordPiece model: splits a word into the longest pieces, from its front (Wu et al. 2016, BERT). */
#pragma once

#include "data/text/ids.h"
#include "data/text/vocabulary.h"

enum { TRI_WORD_CHARS = 100, TRI_WORD_CHARS_MAX = 1000 }; /* default of max_chars; its limit */

typedef struct tri_wordpiece {
    int32_t unknown;
    int max_chars;   /* longer words are unknown, whatever the vocabulary */
} tri_wordpiece;

/* Appends the ids of a word; only `unknown` if it cannot be split into pieces. */
void tri__wordpiece_encode(const tri_wordpiece *model, const tri_vocabulary *vocabulary, const char *word,
                           size_t length, tri_ids *ids);
