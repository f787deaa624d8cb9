/* mask_bits.h - dropout decisions of attention as bits, kept from the forward pass to the backward pass.
 *
 * The queries of a sequence are cut into granules of 16, numbered so that the number alone determines the position:
 * sequence s has the numbers from seq[s] / 16 + s on, which suffice for it. A granule has, for each head, a tile of 32
 * words for every 64 keys. Word 16 (c / 2) + 2 g + c % 2 of a tile, c < 4, g < 8, has the decisions of queries g and
 * g + 8 for the keys 8 c .. 8 c + 7 and 8 c + 32 .. 8 c + 39: bit 16 e + 8 b + 4 h + i is that of query g + 8 h and key
 * 32 b + 8 c + 2 i + e; 1: the weight is kept. Attention's matrix kernels find in it, with one load, what a thread of
 * the forward needs for a tile, and with 4 what one of the backward needs. */
#pragma once

#include <stdint.h>

enum { TRI_MASK_QUERIES = 16, TRI_MASK_KEYS = 64, TRI_MASK_WORDS = 32 };

/* Tiles of a granule's head, if sequences have at most max_len tokens. */
static inline int64_t tri__mask_tiles(int64_t max_len) { return (max_len + TRI_MASK_KEYS - 1) / TRI_MASK_KEYS; }

/* Words of a row of the operand `bits` [T, W]: 2 for each head and tile, and a quarter more for granules that are not
 * full. */
static inline int64_t tri__mask_width(int64_t heads, int64_t max_len) {
    return (5 * heads * tri__mask_tiles(max_len) + 1) / 2;
}

static inline int64_t tri__mask_granules(int64_t rows, int64_t n) { return rows / TRI_MASK_QUERIES + n + 1; }

/* Whether the granules of n sequences fit into `rows` rows of `width` words: not if the width is tri__mask_width and
 * sequences have fewer than 64 tokens on average. Where they do not, nothing is kept, and attention draws the decisions
 * itself. */
static inline int tri__mask_fits(int64_t rows, int64_t width, int64_t n, int64_t heads, int64_t max_len) {
    return tri__mask_granules(rows, n) * heads * tri__mask_tiles(max_len) * TRI_MASK_WORDS <= rows * width;
}
