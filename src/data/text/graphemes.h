/* graphemes.h - extended grapheme clusters (UAX 29) as the tokenizers library cuts them. Regional indicators are left
 * out: a pair of them has 8 bytes, and clusters matter only below TRI_CLUSTER_BYTES (charsmap.h). */
#pragma once

#include <stddef.h>

/* Where the cluster that begins at text[at] ends; at < length. */
size_t tri__grapheme_end(const char *text, size_t length, size_t at);
