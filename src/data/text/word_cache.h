/* word_cache.h - caches the ids of words: shared by all threads without locks, of bounded size. Entries are added,
 * never changed, and are the same whichever thread adds them; when the cache is full, other words are computed each
 * time. */
#pragma once

#include "base/base.h"
#include "data/text/ids.h"

typedef struct tri_word_cache tri_word_cache;

/* Allocates for about `words` words. */
tri_status tri__word_cache_open(int words, tri_word_cache **out);
void tri__word_cache_free(tri_word_cache *cache);
/* Appends a word's ids; 0 if it is not cached. */
int tri__word_cache_get(const tri_word_cache *cache, uint64_t hash, const char *word, size_t length, tri_ids *ids);
void tri__word_cache_put(tri_word_cache *cache, uint64_t hash, const char *word, size_t length, const int32_t *ids,
                         int n);
