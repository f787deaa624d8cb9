/* simd_avx2.h - vectors for x86-64 with AVX2 and FMA. */
#pragma once

#include <immintrin.h>

#define VEC 8
#define MR 4
enum { PACKED_ROWS = 128, PACKED_COLUMNS = 96, A_STAYS = 1, READS_ROWS = 1 }; /* see simd_product.h */
#include "device/cpu/fast/runtime/simd_vec.h"

static inline vf vec_sqrt(vf x) { return (vf)_mm256_sqrt_ps((__m256)x); }
/* A NaN x is returned: for NaN the instructions return their second operand. */
static inline vf vec_max(vf limit, vf x) { return (vf)_mm256_max_ps((__m256)limit, (__m256)x); }
static inline vf vec_min(vf limit, vf x) { return (vf)_mm256_min_ps((__m256)limit, (__m256)x); }
static inline vi vec_max_i(vi a, vi b) { return (vi)_mm256_max_epi32((__m256i)a, (__m256i)b); }
static inline int vec_bits(vi mask) { return _mm256_movemask_ps((__m256)mask); } /* a bit a lane */
static inline vd vec_low_double(vf x) { return (vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x)); }
static inline vd vec_high_double(vf x) { return (vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1)); }
static inline int32_t vec_top(vi v) { /* the largest lane */
    __m128i top = _mm_max_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
    top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(top, _mm_shuffle_epi32(top, 0xB1)));
}
static inline vs vec_max_s(vs a, vs b) { return (vs)_mm256_max_epi16((__m256i)a, (__m256i)b); }
/* Signed bytes and 16-bit numbers as lanes; the low bytes of 4 vectors and the high halves of 2 on their way back:
 * instructions that pack work in halves of a vector, whose pieces are then put in order. */
static inline vi vec_bytes(const uint8_t *from) {
    return (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i_u *)(const void *)from));
}
static inline vu vec_halves(const uint16_t *from) {
    return (vu)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i_u *)(const void *)from));
}
static inline void put_bytes(uint8_t *to, const vi v[4]) {
    __m256i low = _mm256_packus_epi32((__m256i)(v[0] & 0xFF), (__m256i)(v[1] & 0xFF));
    __m256i high = _mm256_packus_epi32((__m256i)(v[2] & 0xFF), (__m256i)(v[3] & 0xFF));
    __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i_u *)(void *)to,
                        _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order));
}
static inline void put_high(uint16_t *to, const vu v[2]) {
    __m256i both = _mm256_packus_epi32((__m256i)(v[0] >> 16), (__m256i)(v[1] >> 16));
    _mm256_storeu_si256((__m256i_u *)(void *)to, _mm256_permute4x64_epi64(both, 0xD8));
}
/* The high and low halves of the 64-bit products. */
static inline void vec_mul_wide(vu x, uint32_t factor, vu *high, vu *low) {
    __m256i f = _mm256_set1_epi32((int)factor);
    __m256i even = _mm256_mul_epu32((__m256i)x, f), odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)x, 32), f);
    *high = (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    *low = (vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}
static inline vu vec_unpack_low32(vu a, vu b) { return (vu)_mm256_unpacklo_epi32((__m256i)a, (__m256i)b); }
static inline vu vec_unpack_high32(vu a, vu b) { return (vu)_mm256_unpackhi_epi32((__m256i)a, (__m256i)b); }
static inline vu vec_unpack_low64(vu a, vu b) { return (vu)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b); }
static inline vu vec_unpack_high64(vu a, vu b) { return (vu)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b); }
