/* word_cache.c - an insert-only hash table. A thread allocates an entry with one atomic addition, fills it, and
 * publishes its index with one compare-and-swap of an empty slot (release); readers acquire. Two threads may add the
 * same word: harmless. */
#include "data/text/word_cache.h"

#include <stdatomic.h>

enum {
    PROBES = 8,       /* slots examined */
    WORD_MAX = 48,    /* bytes of a word worth keeping */
    IDS_MAX = 16,
    WORDS_PER_SLOT = 12 /* 32-bit words of memory for a slot, on average */
};

/* An entry: length | n << 16, ids [n], bytes of the word, in 32-bit words. */
struct tri_word_cache {
    _Atomic uint64_t *slot;  /* [mask + 1], upper half of the hash << 32 | index of the entry; 0: empty */
    uint64_t mask;
    uint32_t *entry;         /* [room] */
    uint32_t room;
    _Atomic uint32_t used;   /* may exceed room: then it is full. Index 0 is not used */
};

tri_status tri__word_cache_open(int words, tri_word_cache **out) {
    tri_word_cache *cache = *out = calloc(1, sizeof *cache);
    uint64_t slots = 64;
    while (slots < (uint64_t)words && slots < 1 << 17) slots *= 2;
    if (cache) {
        cache->mask = slots - 1;
        cache->room = (uint32_t)slots * WORDS_PER_SLOT;
        cache->slot = calloc(slots, sizeof *cache->slot);
        cache->entry = malloc(cache->room * sizeof *cache->entry);
        atomic_init(&cache->used, 1);
    }
    if (cache && cache->slot && cache->entry) return TRI_OK;
    tri__word_cache_free(cache);
    *out = NULL;
    return tri__fail(TRI_RESOURCE, "out of memory for a tokenizer's cache");
}

void tri__word_cache_free(tri_word_cache *cache) {
    if (!cache) return;
    TRI_FREE(cache->slot, cache->entry, cache);
}

int tri__word_cache_get(const tri_word_cache *cache, uint64_t hash, const char *word, size_t length, tri_ids *ids) {
    if (length > WORD_MAX) return 0;
    for (uint64_t probe = 0; probe < PROBES; probe++) {
        uint64_t slot = atomic_load_explicit(&cache->slot[(hash + probe) & cache->mask], memory_order_acquire);
        if (!slot) return 0;
        if (slot >> 32 != hash >> 32) continue;
        const uint32_t *entry = cache->entry + (uint32_t)slot;
        uint32_t n = entry[0] >> 16;
        if ((entry[0] & 0xFFFF) != length || memcmp(entry + 1 + n, word, length)) continue;
        for (uint32_t i = 0; i < n; i++) tri__ids_put(ids, (int32_t)entry[1 + i]);
        return 1;
    }
    return 0;
}

static int has_room(const tri_word_cache *cache, uint64_t hash) {
    for (uint64_t probe = 0; probe < PROBES; probe++)
        if (!atomic_load_explicit(&cache->slot[(hash + probe) & cache->mask], memory_order_relaxed)) return 1;
    return 0;
}

void tri__word_cache_put(tri_word_cache *cache, uint64_t hash, const char *word, size_t length, const int32_t *ids,
                         int n) {
    uint32_t size = 1 + (uint32_t)n + (uint32_t)(length + 3) / 4;
    if (length > WORD_MAX || n > IDS_MAX || !has_room(cache, hash)) return;
    if (atomic_load_explicit(&cache->used, memory_order_relaxed) + size > cache->room) return;
    uint32_t place = atomic_fetch_add_explicit(&cache->used, size, memory_order_relaxed);
    if (place + size > cache->room) return;
    uint32_t *entry = cache->entry + place;
    entry[0] = (uint32_t)length | (uint32_t)n << 16;
    memcpy(entry + 1, ids, (size_t)n * sizeof *ids);
    memcpy(entry + 1 + n, word, length);
    uint64_t value = hash >> 32 << 32 | place;
    for (uint64_t probe = 0; probe < PROBES; probe++) {
        uint64_t empty = 0;
        if (atomic_compare_exchange_strong_explicit(&cache->slot[(hash + probe) & cache->mask], &empty, value,
                                                    memory_order_release, memory_order_relaxed))
            return;
    }
}
