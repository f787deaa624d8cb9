/* added_tokens.h - tokens that are looked for in the text before it is split: "[SEP]", "<mask>". */
#ifndef TRI_DATA_TEXT_ADDED_TOKENS_H
#define TRI_DATA_TEXT_ADDED_TOKENS_H

#include "data/text/normalise.h"

enum {
    TRI_ADDED_BYTES = 4096,     /* of a token, at most */
    TRI_ADDED_TOKENS = 10 * 1000
};

typedef struct tri_added_token {
    char *content;              /* as it is written */
    char *pattern;              /* [length] what is looked for: content, normalised where the text is */
    size_t length;
    int32_t id;
    int single_word, lstrip, rstrip, normalized, special;
    uint64_t hash;              /* of content */
} tri_added_token;

/* Tokens to look for in the same text, sorted by pattern. */
typedef struct tri_added_set {
    tri_added_token **token;    /* [n] */
    int n;
    unsigned char opens[256];   /* some pattern begins with this byte */
    int only;                   /* the one byte they all begin with; -1: there are several */
} tri_added_set;

typedef struct tri_added_tokens {
    tri_added_token *all;       /* [n] in the order they were added */
    int n, room;
    tri_added_set raw, normal;  /* for the text as it stands; for the normalised text */
} tri_added_tokens;

/* Where a token was found: text[begin, end), with the blanks that it takes. id -1: none, and both are the text's end.
 * `resume`: where to look on. */
typedef struct tri_added_match {
    size_t begin, end, resume;
    int32_t id;
} tri_added_match;

/* Takes `token`, whose content is copied. A content that is there already is replaced. `where` opens the message of
 * TRI_DATA. */
tri_status tri__added_tokens_add(tri_added_tokens *tokens, const char *where, const tri_added_token *token);
/* The token of this content; NULL. */
const tri_added_token *tri__added_tokens_find(const tri_added_tokens *tokens, const char *content);
/* Makes both sets, after the last token. */
tri_status tri__added_tokens_sort(tri_added_tokens *tokens, const char *where, const tri_normaliser *normaliser);
void tri__added_tokens_free(tri_added_tokens *tokens);
/* The next token at or after text[from]; `taken`: what is before it belongs to an earlier match. Leftmost, longest
 * first. */
tri_added_match tri__added_set_find(const tri_added_set *set, const char *text, size_t length, size_t from,
                                    size_t taken);

#endif
