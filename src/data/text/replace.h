/* replace.h - the normaliser's Replace: every match of a pattern becomes a text. There is no regular-expression engine:
 * the patterns of released tokenizers are written out. */
#pragma once

#include "data/text/scratch.h"

typedef enum tri_replace_kind {
    TRI_REPLACE_TEXT,
    TRI_REPLACE_BLANKS, /* / {2,}/ */
    TRI_REPLACE_SPACES  /* /\s{2,}|[\n\r\t]/ */
} tri_replace_kind;

typedef struct tri_replace {
    tri_replace_kind kind;
    char *text, *content;          /* the text to find (TEXT; else NULL); what takes its place */
    size_t text_bytes, content_bytes;
} tri_replace;

/* The pattern of a regular expression; 0 if it is not known. */
int tri__replace_pattern(const char *expression, tri_replace_kind *kind);
/* to->at[*n] is the text with its matches replaced, leftmost first. */
tri_status tri__replace_apply(const tri_replace *rule, const char *text, size_t length, tri_bytes *to, size_t *n);
