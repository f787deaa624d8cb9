/* bpe.h - byte-pair encoding (Sennrich et al. 2016; over bytes: GPT-2, RoBERTa): a word's letters are merged pair by
 * pair; the pair that was learnt first goes first, then the leftmost. */
#pragma once

#include "data/text/ids.h"
#include "data/text/scratch.h"
#include "data/text/vocabulary.h"

typedef struct tri_merge {
    int32_t left, right; /* left -1: empty slot */
    int32_t rank, id;    /* order in which it was learnt; the resulting piece */
} tri_merge;

typedef struct tri_bpe {
    tri_merge *merge;    /* [mask + 1] by (left, right): open addressing, at most half full */
    uint64_t mask;
    int n;               /* merges */
    int byte_level;      /* letters are bytes; else characters */
    int32_t byte_id[256]; /* byte_level: piece of each byte; -1: none */
    int32_t unknown;     /* for a letter without a piece; -1: it is omitted */
    int fuse_unknown;    /* adjacent unknown letters become one */
    int whole_words;     /* a word that is a piece is not split ("ignore_merges") */
} tri_bpe;

/* The slot of a pair; an empty one if it is never merged. */
static inline tri_merge *tri__merge_find(const tri_bpe *model, int32_t left, int32_t right) {
    uint64_t hash = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    for (uint64_t at = hash >> 32 & model->mask;; at = (at + 1) & model->mask) {
        tri_merge *merge = &model->merge[at];
        if (merge->left < 0 || (merge->left == left && merge->right == right)) return merge;
    }
}

void tri__bpe_free(tri_bpe *model);
/* A merges.txt: "left right" per line, after a line "#version: ...". TRI_DATA "file:line: what"; the caller frees
 * what was read all the same. */
tri_status tri__bpe_read_lines(const char *path, const char *text, size_t size, int byte_level,
                               const tri_vocabulary *vocabulary, tri_bpe *out);
/* An array of "left right" or [left, right]; likewise. */
tri_status tri__bpe_read_json(const char *path, const tri_json *merges, int byte_level,
                              const tri_vocabulary *vocabulary, tri_bpe *out);
/* Appends the ids of a word. O(n log n) in the word's letters. TRI_RESOURCE if out of memory. */
tri_status tri__bpe_encode(const tri_bpe *model, const tri_vocabulary *vocabulary, const char *word, size_t length,
                           tri_scratch *scratch, tri_ids *ids);
