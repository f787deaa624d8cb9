/* hash.c - xxh3. */
#define XXH_INLINE_ALL
#include "base/hash.h"

#include <xxhash.h>

uint64_t tri__hash64(uint64_t seed, const void *data, size_t bytes) { return XXH3_64bits_withSeed(data, bytes, seed); }
