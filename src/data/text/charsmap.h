/* charsmap.h - SentencePiece's precompiled character map: a Darts double-array trie from texts to replacements. As in
 * the tokenizers library a grapheme cluster of less than TRI_CLUSTER_BYTES bytes is replaced as a whole where the trie
 * has it or a prefix of it (the shortest; what follows that prefix in the cluster is lost), else each character. */
#pragma once

#include "data/text/scratch.h"

enum { TRI_CLUSTER_BYTES = 6, TRI_REPLACEMENT_BYTES = 1024 }; /* the limit of a replacement's length */

typedef struct tri_charsmap tri_charsmap;

/* From base64: the trie's bytes as a 32-bit number, its units, the replacements, each 0-terminated. Every path through
 * the trie is checked once, so that using it needs no checks. TRI_DATA, beginning with `where`; the caller frees *out
 * all the same. */
tri_status tri__charsmap_read(const char *where, const char *base64, size_t length, tri_charsmap **out);
void tri__charsmap_free(tri_charsmap *map);
/* Bytes of the longest replacement; at least 4. */
size_t tri__charsmap_longest(const tri_charsmap *map);
/* Replaces what the map has in text[length]; to->at[*n] is the result. Bytes that are not UTF-8 are dropped. */
tri_status tri__charsmap_apply(const tri_charsmap *map, const char *text, size_t length, tri_bytes *to, size_t *n);
