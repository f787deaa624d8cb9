/* unigram.h - SentencePiece's Unigram model (Kudo 2018): a word becomes the pieces whose scores have the greatest
 * sum. */
#pragma once

#include "data/text/ids.h"
#include "data/text/scratch.h"
#include "data/text/vocabulary.h"

enum { TRI_UNIGRAM_BYTES = 1000 }; /* limit of a piece's length: encoding takes at most this many steps a byte */

/* A trie of the pieces. The children of a node are adjacent, in the order of their bytes. */
typedef struct tri_unigram {
    int32_t *child;       /* [nodes + 1] the first child of each node; a node's children end where the next's begin */
    unsigned char *byte;  /* [nodes] that leads to a node */
    int32_t *id;          /* [nodes] of the piece that ends there; -1: none */
    int32_t nodes;        /* node 0 is the root */
    int32_t root[256];    /* the root's child by each byte; 0: none */
    double *score;        /* [pieces] */
    double unknown_score; /* of a character that is not a piece */
    int32_t unknown;
    int byte_fallback;    /* unknown text becomes its bytes' pieces, "<0x0A>" */
    int32_t byte_id[256]; /* byte_fallback: -1: none */
} tri_unigram;

/* A vocabulary [[piece, score], ...], ids in its order. Scores are parsed as the tokenizers library parses a file,
 * which may differ from the nearest double in its last bit; `exact`: the nearest, as Python does. TRI_DATA "file:
 * what". */
tri_status tri__unigram_read_json(const char *path, const tri_json *pieces, int exact, tri_vocabulary *vocabulary,
                                  tri_unigram *out);
/* Sets the unknown token and byte_fallback. */
tri_status tri__unigram_finish(const char *path, const tri_json *unknown, int byte_fallback,
                               const tri_vocabulary *vocabulary, tri_unigram *model);
void tri__unigram_free(tri_unigram *model);
/* Appends the ids of a word. TRI_RESOURCE if out of memory. */
tri_status tri__unigram_encode(const tri_unigram *model, const tri_vocabulary *vocabulary, const char *word,
                               size_t length, tri_scratch *scratch, tri_ids *ids);
