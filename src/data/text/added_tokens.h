/* added_tokens.h - tokens that are matched in the text before it is split: "[SEP]", "<mask>". */
#pragma once

#include "data/text/normalise.h"

enum {
    TRI_ADDED_BYTES = 4096,     /* limit of a token's length */
    TRI_ADDED_TOKENS = 10 * 1000
};

typedef struct tri_added_token {
    char *content;              /* as written in the file */
    char *pattern;              /* [length], the text to match: content, normalised if the text is */
    size_t length;
    int32_t id;
    int single_word, lstrip, rstrip, normalized, special;
    uint64_t hash;              /* of content */
} tri_added_token;

/* Tokens to match in the same text, sorted by pattern. */
typedef struct tri_added_set {
    tri_added_token **token;    /* [n] */
    int n;
    unsigned char opens[256];   /* some pattern begins with this byte */
    int only;                   /* the first byte of all patterns; -1: they differ */
} tri_added_set;

typedef struct tri_added_tokens {
    tri_added_token *all;       /* [n] in the order they were added */
    int n;
    size_t room;
    tri_added_set raw, normal;  /* for the original text; for the normalised text */
} tri_added_tokens;

/* A match: text[begin, end), including the blanks that it strips. id -1: none, and both are the text's end. `resume`:
 * where to continue. */
typedef struct tri_added_match {
    size_t begin, end, resume;
    int32_t id;
} tri_added_match;

/* Adds `token`, copying its content. An existing token with the same content is replaced. `where` begins the message of
 * TRI_DATA. */
tri_status tri__added_tokens_add(tri_added_tokens *tokens, const char *where, const tri_added_token *token);
/* The token with this content; NULL: none. */
const tri_added_token *tri__added_tokens_find(const tri_added_tokens *tokens, const char *content);
/* Builds both sets, after the last token was added. */
tri_status tri__added_tokens_sort(tri_added_tokens *tokens, const char *where, const tri_normaliser *normaliser);
void tri__added_tokens_free(tri_added_tokens *tokens);
/* The next token at or after text[from]; `taken`: the text before it belongs to an earlier match. Leftmost match, then
 * longest. */
tri_added_match tri__added_set_find(const tri_added_set *set, const char *text, size_t length, size_t from,
                                    size_t taken);
