/* wordpiece.h - a WordPiece vocabulary: pieces by id, ids by bytes, and the greedy longest match. */
#ifndef TRI_DATA_WORDPIECE_H
#define TRI_DATA_WORDPIECE_H

#include "base/status.h"
#include "data/bert_text.h"

/* Special tokens: their keys in tokenizer_config.json, and their names where that says nothing. */
enum { TRI_TOKEN_PAD, TRI_TOKEN_UNK, TRI_TOKEN_CLS, TRI_TOKEN_SEP, TRI_TOKEN_MASK, TRI_TOKENS };
typedef struct tri_special {
    const char *key, *name;
    int needed;
} tri_special;
extern const tri_special tri__specials[TRI_TOKENS];

/* A piece "##ing" continues a word and is filed as ("ing", continues = 1). */
typedef struct tri_pieces {
    int n;
    char *text;             /* the pieces, a 0 byte after each */
    size_t *start;          /* [n] of each in text */
    struct tri_piece_slot {
        uint32_t tag;       /* of the hash, to pass over others cheaply */
        int32_t id;         /* -1: empty */
    } *slot;                /* [mask + 1] open addressing, at most half full */
    uint64_t mask;
    size_t longest[2];      /* bytes of the longest piece that begins, continues a word */
} tri_pieces;

/* Reads a vocab.txt: one piece a line, its id the line's number from 0. TRI_DATA "file:line: what". */
tri_status tri__pieces_load(const char *path, tri_pieces *pieces);
void tri__pieces_free(tri_pieces *pieces);
/* -1 when there is no such piece. */
int32_t tri__pieces_find(const tri_pieces *pieces, const char *bytes, size_t length, int continues);
/* Likewise by the piece as written, "##" and all. */
int32_t tri__pieces_named(const tri_pieces *pieces, const char *piece);
/* Ids of a word, the longest piece first; `unknown` alone when it cannot be made of pieces. Returns the count. */
int tri__pieces_match(const tri_pieces *pieces, const tri_words *word, int32_t unknown, int32_t ids[static TRI_WORD_CHARS]);
/* Writes vocab.txt and tokenizer_config.json; `special` has the names of the special tokens. */
tri_status tri__wordpiece_write(const char *folder, const char *const *piece, int n, tri_bert_rules rules,
                                const char *const special[static TRI_TOKENS]);

#endif
