/* amx_sums.h - the four tiles of 16 x 16 sums, 0 to 3, that the products of AMX keep: 32 x 32 numbers of 32 bits at c.
 * For files compiled for AMX. */
#pragma once

#include <immintrin.h>
#include <stdint.h>

enum { TRI_AMX_ROWS = 16 };

/* add: from c; else zeros. ld: numbers between rows. */
static inline __attribute__((always_inline)) void tri__amx_sums_load(const void *c, int64_t ld, int add) {
    const int32_t *upper = c, *lower = upper + TRI_AMX_ROWS * ld;
    if (add) {
        _tile_loadd(0, upper, 4 * ld);
        _tile_loadd(1, upper + TRI_AMX_ROWS, 4 * ld);
        _tile_loadd(2, lower, 4 * ld);
        _tile_loadd(3, lower + TRI_AMX_ROWS, 4 * ld);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
}

static inline __attribute__((always_inline)) void tri__amx_sums_store(void *c, int64_t ld) {
    int32_t *upper = c, *lower = upper + TRI_AMX_ROWS * ld;
    _tile_stored(0, upper, 4 * ld);
    _tile_stored(1, upper + TRI_AMX_ROWS, 4 * ld);
    _tile_stored(2, lower, 4 * ld);
    _tile_stored(3, lower + TRI_AMX_ROWS, 4 * ld);
}
