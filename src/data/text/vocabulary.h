/* vocabulary.h - a tokenizer's pieces: texts by id, ids by text. */
#pragma once

#include "base/json.h"

/* Open addressing, at most half full. */
typedef struct tri_piece_slot {
    uint32_t tag;        /* part of the hash, to reject others cheaply */
    int32_t id;          /* -1: empty */
} tri_piece_slot;

typedef struct tri_vocabulary {
    int n;               /* ids are below n; an id without a piece has the empty text */
    char *text;          /* the pieces, each 0-terminated, after an empty one */
    size_t used;         /* bytes of text */
    uint32_t *start;     /* [n] of each in text */
    uint32_t *length;    /* [n] bytes */
    tri_piece_slot *whole, *rest; /* [mask + 1], by the piece; by the text after `prefix`, for pieces that have it */
    uint64_t mask;
    char *prefix;        /* of pieces that continue a word: "##"; "" if there is none */
    size_t longest, longest_rest; /* bytes of the longest piece, of the longest after its prefix */
} tri_vocabulary;

/* Allocates for ids 0 to n - 1 and `bytes` of text. */
tri_status tri__vocabulary_open(tri_vocabulary *vocabulary, int64_t n, size_t bytes, const char *prefix);
void tri__vocabulary_free(tri_vocabulary *vocabulary);
/* Adds a piece under an unused id. Returns -1, or the id that already has this piece. */
int32_t tri__vocabulary_add(tri_vocabulary *vocabulary, int32_t id, const char *piece, size_t length);
uint64_t tri__piece_hash(const char *bytes, size_t length);
/* -1 when there is no such piece. */
int32_t tri__vocabulary_find(const tri_vocabulary *vocabulary, const char *piece, size_t length, uint64_t hash);
int32_t tri__vocabulary_find_rest(const tri_vocabulary *vocabulary, const char *bytes, size_t length);
int32_t tri__vocabulary_named(const tri_vocabulary *vocabulary, const char *piece);

/* A vocab.txt: one piece per line; its id is the line's number from 0. TRI_DATA "file:line: what"; the caller frees
 * what was read all the same. */
tri_status tri__vocabulary_read_lines(const char *path, const char *text, size_t size, const char *prefix,
                                      tri_vocabulary *out);
/* An object {piece: id}. `size`: bytes of the file, which bounds ids. TRI_DATA "file: what", as above. */
tri_status tri__vocabulary_read_json(const char *path, const tri_json *object, size_t size, const char *prefix,
                                     tri_vocabulary *out);
