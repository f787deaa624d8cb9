/* word_cache.h - words that were tokenised before, and their ids: shared by all threads without locks, of bounded size.
 * Entries are only added, never changed, so what is found does not depend on who put it there; when it is full, words
 * are computed. */
#ifndef TRI_DATA_TEXT_WORD_CACHE_H
#define TRI_DATA_TEXT_WORD_CACHE_H

#include "base/status.h"
#include "data/text/ids.h"

typedef struct tri_word_cache tri_word_cache;

/* Room for about `words`. */
tri_status tri__word_cache_open(int words, tri_word_cache **out);
void tri__word_cache_free(tri_word_cache *cache);
/* Appends a word's ids; 0 when it is not known. */
int tri__word_cache_get(const tri_word_cache *cache, uint64_t hash, const char *word, size_t length, tri_ids *ids);
void tri__word_cache_put(tri_word_cache *cache, uint64_t hash, const char *word, size_t length, const int32_t *ids,
                         int n);

#endif
