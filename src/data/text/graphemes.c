/* graphemes.c - finds the ends of grapheme clusters: the rules GB3 to GB11 of UAX 29, with GB9c (Indic conjuncts). */
#include "data/text/graphemes.h"

#include "data/text/unicode.h"

/* Classes of the table: the low 4 bits; the part in Indic conjuncts is in the 2 bits above. */
enum { OTHER, CR, LF, CONTROL, EXTEND, ZWJ, SPACING, PREPEND, PICTURE, L, V, T, LV, LVT };
enum { CONSONANT = 1, LINKER = 2, JOINS = 3 };
enum { SYLLABLES = 0xAC00, SYLLABLES_END = 0xD7A4, SYLLABLES_T = 28 }; /* of Hangul: every 28th has no final letter */

/* What was seen of a cluster. */
typedef struct cluster {
    int last;     /* class of its last character */
    int picture;  /* 1: a picture and marks; 2: then a joiner */
    int conjunct; /* 1: a consonant and marks; 2: with a linker among them */
} cluster;

static int class_of(int32_t code) {
    if (code < 0) return OTHER;
    if (code >= SYLLABLES && code < SYLLABLES_END) return (code - SYLLABLES) % SYLLABLES_T ? LVT : LV;
    return tri__char_kind(code).grapheme;
}

static void see(cluster *c, int class) {
    int kind = class & 15, part = class >> 4;
    c->picture = kind == PICTURE ? 1 : c->picture == 1 && kind == EXTEND ? 1 : c->picture == 1 && kind == ZWJ ? 2 : 0;
    if (part == CONSONANT) c->conjunct = 1;
    else if (part == LINKER) c->conjunct = c->conjunct ? 2 : 0;
    else if (part != JOINS) c->conjunct = 0;
    c->last = kind;
}

/* Whether a character of this class continues the cluster. */
static int continues(const cluster *c, int class) {
    int kind = class & 15;
    if (c->last == CR && kind == LF) return 1;
    if (c->last == CR || c->last == LF || c->last == CONTROL) return 0;
    if (kind == CR || kind == LF || kind == CONTROL) return 0;
    if (kind == EXTEND || kind == ZWJ || kind == SPACING || c->last == PREPEND) return 1;
    if (c->last == L && (kind == L || kind == V || kind == LV || kind == LVT)) return 1;
    if ((c->last == LV || c->last == V) && (kind == V || kind == T)) return 1;
    if ((c->last == LVT || c->last == T) && kind == T) return 1;
    return (c->picture == 2 && kind == PICTURE) || (c->conjunct == 2 && class >> 4 == CONSONANT);
}

size_t tri__grapheme_end(const char *text, size_t length, size_t at) {
    cluster c = {0};
    size_t next = at;
    see(&c, class_of(tri__utf8_next(text, length, &next)));
    while (next < length) {
        size_t end = next;
        int class = class_of(tri__utf8_next(text, length, &end));
        if (!continues(&c, class)) break;
        see(&c, class);
        next = end;
    }
    return next;
}
