/* hash.h - a 64-bit hash of bytes, for comparing and finding; seeds chain: hash(hash(s, a), b). Not cryptographic. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t tri__hash64(uint64_t seed, const void *data, size_t bytes);
