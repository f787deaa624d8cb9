/* pack_half_avx512.h - panels of bf16 for x86-64 with AVX-512: pairs of k are lanes of 32 bits. Included by the product
 * kernels' files. */
#pragma once

#include "device/cpu/fast/product/gemm_half.h"
#include "device/cpu/fast/product/transpose_avx512.h"

#include <immintrin.h>

enum { PACK_LANES = 16, PACK_AHEAD = 16 }; /* rows of prefetch distance: strides are too long for the hardware */

/* The first n of some lanes. */
static inline __mmask16 first_lanes(int64_t n) { return (__mmask16)(n >= 16 ? 0xFFFF : n <= 0 ? 0 : (1 << n) - 1); }
static inline __mmask32 first_halves(int64_t n) {
    return n >= 32 ? 0xFFFFFFFFu : n <= 0 ? 0 : (__mmask32)((1u << n) - 1);
}

/* 16 of k from `at` on as pairs, of 16 columns from i on: lanes and rows that do not exist are 0. */
static inline __attribute__((always_inline)) __m512i pairs(const tri_half_panel *p, int64_t at, int64_t i) {
    const uint16_t *row = p->from + at * p->ld + i;
    __mmask16 low = first_lanes(at < p->k ? p->n - i : 0), high = first_lanes(at + 1 < p->k ? p->n - i : 0);
    __m512i even = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(low, row));
    __m512i odd = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(high, row + p->ld));
    return _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
}

/* 32 of k from `at` on of 16 rows from i on, of which `width` are wanted, transposed: rows r of pairs. */
static inline __attribute__((always_inline)) void turn_rows(const tri_half_panel *p, int64_t at, int64_t i, int width,
                                                            __m512i r[16]) {
    __mmask32 exist = first_halves(p->k - at);
#pragma GCC unroll 16
    for (int u = 0; u < 16; u++)
        r[u] = u < width && i + u < p->n ? _mm512_maskz_loadu_epi16(exist, p->from + (i + u) * p->ld + at)
                                         : _mm512_setzero_si512();
    transpose16(r);
}

/* to[padded / 2,32,2], rows */
static inline void pack_pairs_of_rows(const tri_half_panel *p, uint16_t *to) {
    for (int64_t at = 0; at < p->padded; at += 32, to += 16 * 64)
        for (int half = 0; half < 2; half++) {
            __m512i r[16];
            turn_rows(p, at, 16 * half, 16, r);
            for (int u = 0; u < 16 && at + 2 * u < p->padded; u++) _mm512_storeu_si512(to + u * 64 + 32 * half, r[u]);
        }
}

/* to[padded / 2,32,2], columns */
static inline void pack_pairs_of_columns(const tri_half_panel *p, uint16_t *to) {
    for (int64_t at = 0; at < p->padded; at += 2, to += 64) {
        _mm_prefetch((const char *)(p->from + (at + PACK_AHEAD) * p->ld), _MM_HINT_T0);
        _mm_prefetch((const char *)(p->from + (at + PACK_AHEAD + 1) * p->ld), _MM_HINT_T0);
        _mm512_storeu_si512(to, pairs(p, at, 0));
        _mm512_storeu_si512(to + 32, pairs(p, at, 16));
    }
}
