/* pack_int8_avx512.h - rows of an int8 matrix as a panel [k / 4, width, 4], which the dot products of AVX512-VNNI and
 * the tiles of AMX share: blocks of 16 rows of 64 numbers, transposed as 16 x 16 numbers of 32 bits. For files compiled
 * for AVX512. */
#pragma once

#include "device/cpu/fast/product/transpose_avx512.h"

#include <stdint.h>

enum { TRI_BLOCK_ROWS = 16, TRI_BLOCK_BYTES = 64 };

/* Rows 0 to n - 1 of `from`, with row stride ld, and k columns of each; `padded` is a multiple of 4. Width is a
 * multiple of 16. */
static inline void tri__pack_int8_avx512(int8_t *to, int width, const int8_t *from, int64_t ld, int64_t n, int64_t k,
                                         int64_t padded) {
    for (int i = 0; i < width; i += TRI_BLOCK_ROWS)
        for (int64_t c = 0; c < padded; c += TRI_BLOCK_BYTES) {
            __m512i r[16];
            int64_t left = k - c, groups = (padded - c) / 4;
            __mmask64 mask = left >= TRI_BLOCK_BYTES ? ~(__mmask64)0 : left <= 0 ? 0 : ((__mmask64)1 << left) - 1;
#pragma GCC unroll 16
            for (int u = 0; u < 16; u++)
                r[u] = i + u < n ? _mm512_maskz_loadu_epi8(mask, from + (i + u) * ld + c) : _mm512_setzero_si512();
            transpose16(r);
#pragma GCC unroll 16
            for (int q = 0; q < 16; q++)
                if (q < groups) _mm512_storeu_si512(to + (c / 4 + q) * width * 4 + i * 4, r[q]);
        }
}
