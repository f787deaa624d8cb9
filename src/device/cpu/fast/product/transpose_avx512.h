/* transpose_avx512.h - 16 x 16 lanes of 32 bits, transposed in registers. */
#pragma once

#include <immintrin.h>

/* Transposes a 16 x 16 block of rows r. */
static inline __attribute__((always_inline)) void transpose16(__m512i r[16]) {
    __m512i a[16], b[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        a[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        a[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) { /* 128 bits of b[i + j] are column j, 4 + j, ... of rows i to i + 3 */
        b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]), b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]), b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m512i even0 = _mm512_shuffle_i32x4(b[j], b[4 + j], 0x88), odd0 = _mm512_shuffle_i32x4(b[j], b[4 + j], 0xDD);
        __m512i even1 = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0x88);
        __m512i odd1 = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0xDD);
        r[j] = _mm512_shuffle_i32x4(even0, even1, 0x88), r[8 + j] = _mm512_shuffle_i32x4(even0, even1, 0xDD);
        r[4 + j] = _mm512_shuffle_i32x4(odd0, odd1, 0x88), r[12 + j] = _mm512_shuffle_i32x4(odd0, odd1, 0xDD);
    }
}
