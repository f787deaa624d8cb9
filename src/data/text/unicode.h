/* unicode.h - character classes and mappings for tokenizers. Ids must equal those of the tokenizers library, whose
 * tables are from several Unicode versions (unicode.c); so these are its classes, not the newest. */
#pragma once

#include "base/text.h"

/* Classes of a character, a bit mask. */
enum {
    TRI_CHAR_LETTER = 1,       /* \p{L} of GPT-2's pattern */
    TRI_CHAR_NUMBER = 2,       /* \p{N} of it */
    TRI_CHAR_SPACE = 4,        /* \s */
    TRI_CHAR_WORD = 8,         /* \w */
    TRI_CHAR_PUNCTUATION = 16, /* as in BERT: also ASCII symbols */
    TRI_CHAR_CONTROL = 32,     /* dropped by BERT; not U+0009, U+000A and U+000D */
    TRI_CHAR_ACCENT = 64,      /* stripped by BERT: nonspacing marks */
    TRI_CHAR_MARK = 128        /* marks of any kind */
};

enum { TRI_DECOMPOSED = 18 }; /* most code points that one decomposes into */

/* What the tables know of a character: its classes above, and its class in grapheme clusters (graphemes.c). */
typedef struct tri_char_kind {
    uint8_t classes, grapheme;
} tri_char_kind;

extern const uint8_t tri__ascii_class[128];
extern const tri_char_kind tri__char_kinds[];
extern const uint32_t tri__char_bounds[]; /* ascending: first code point << 6 | its kind, from there to the next */
extern const int tri__char_bounds_n;

tri_char_kind tri__char_kind(int32_t code);
static inline int tri__char_class(int32_t code) {
    return code < 128 ? tri__ascii_class[code] : tri__char_kind(code).classes;
}
/* Classes of the character at text[*at], which is advanced past it; 0 if it is not UTF-8. */
static inline int tri__class_at(const char *text, size_t length, size_t *at) {
    unsigned char byte = (unsigned char)text[*at];
    if (byte < 0x80) return ++*at, tri__ascii_class[byte];
    int32_t code = tri__utf8_next(text, length, at);
    return code < 0 ? 0 : tri__char_class(code);
}

/* A code point in lower case; writes one or two code points, returns how many. */
int tri__char_lower(int32_t code, int32_t out[static 2]);
/* Canonical or compatibility decomposition; writes at most TRI_DECOMPOSED code points, returns how many. */
int tri__char_decompose(int32_t code, int compatibility, int32_t out[static TRI_DECOMPOSED]);
/* The composition of two code points; -1 if there is none. */
int32_t tri__char_compose(int32_t first, int32_t second);
/* Canonical combining class: 0 for all but marks. */
int tri__char_combining(int32_t code);
/* Columns of a terminal: 0 for combining marks and what has no picture, 2 for wide characters (Chinese, emoji). */
int tri__char_width(int32_t code);
/* What BERT calls a Chinese character: CJK ideographs. */
int tri__char_is_chinese(int32_t code);
