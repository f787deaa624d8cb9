/* pack_half_avx512.h - panels of bf16 for x86-64 with AVX-512: pairs of k are lanes of 32 bits. Included by the product
 * kernels' files. */
#ifndef TRI_DEVICE_CPU_FAST_PACK_HALF_AVX512_H
#define TRI_DEVICE_CPU_FAST_PACK_HALF_AVX512_H

#include <immintrin.h>
#include <stdint.h>

enum { PACK_LANES = 16, PACK_AHEAD = 16 }; /* rows of prefetch distance: strides are too long for the hardware */

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

/* 16 columns of two rows, as pairs. */
static inline __attribute__((always_inline)) __m512i pairs(const uint16_t *row, int64_t ld) {
    __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)(const void *)row));
    __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)(const void *)(row + ld)));
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/* to[k / 2,32,2] = from[32,k], k = 32 blocks */
static inline void pack_pairs_of_rows(int64_t blocks, const uint16_t *from, int64_t ld, uint16_t *to) {
    for (; blocks > 0; blocks--, from += 32)
        for (int half = 0; half < 2; half++) {
            __m512i r[16];
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) r[i] = _mm512_loadu_si512(from + (16 * half + i) * ld);
            transpose16(r);
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) _mm512_storeu_si512(to + i * 64 + 32 * half, r[i]);
            if (half) to += 16 * 64;
        }
}

/* to[k / 2,32,2] = from[k,32], k = 2 pairs */
static inline void pack_pairs_of_columns(int64_t pairs_, const uint16_t *from, int64_t ld, uint16_t *to) {
    for (; pairs_ > 0; pairs_--, from += 2 * ld, to += 64) {
        _mm_prefetch((const char *)(from + PACK_AHEAD * ld), _MM_HINT_T0);
        _mm_prefetch((const char *)(from + (PACK_AHEAD + 1) * ld), _MM_HINT_T0);
        _mm512_storeu_si512(to, pairs(from, ld));
        _mm512_storeu_si512(to + 32, pairs(from + 16, ld));
    }
}

#endif
