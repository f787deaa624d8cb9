/* simd_avx512.h - vectors for x86-64 with AVX-512 F and DQ, and where it is there AVX512-BF16, whose instruction rounds
 * to bf16. */
#pragma once

#include <immintrin.h>

#define VEC 16
#define MR 8
#define HEAD_VECTORS 2
#define TRI_SIMD_OWN_PRODUCT
enum { PACKED_ROWS = 128, PACKED_COLUMNS = 384, A_STAYS = 1, READS_ROWS = 1 }; /* see simd_product.h */
#include "device/cpu/fast/runtime/simd_vec.h"

static inline vf vec_sqrt(vf x) { return (vf)_mm512_sqrt_ps((__m512)x); }
/* A NaN x is returned: for NaN the instructions return their second operand. */
static inline vf vec_max(vf limit, vf x) { return (vf)_mm512_max_ps((__m512)limit, (__m512)x); }
static inline vf vec_min(vf limit, vf x) { return (vf)_mm512_min_ps((__m512)limit, (__m512)x); }
static inline vi vec_max_i(vi a, vi b) { return (vi)_mm512_max_epi32((__m512i)a, (__m512i)b); }
static inline int vec_bits(vi mask) { return _mm512_movepi32_mask((__m512i)mask); } /* a bit a lane */
static inline vd vec_low_double(vf x) { return (vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)); }
static inline vd vec_high_double(vf x) { return (vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1)); }
static inline int32_t vec_top(vi v) { return _mm512_reduce_max_epi32((__m512i)v); } /* the largest lane */
static inline vs vec_max_s(vs a, vs b) { return (vs)_mm256_max_epi16((__m256i)a, (__m256i)b); }
/* Signed bytes and 16-bit numbers as lanes; the low bytes of 4 vectors and the high halves of 2 on their way back. */
static inline vi vec_bytes(const uint8_t *from) {
    return (vi)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i_u *)(const void *)from));
}
static inline vu vec_halves(const uint16_t *from) {
    return (vu)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)(const void *)from));
}
static inline void put_bytes(uint8_t *to, const vi v[4]) {
    for (int j = 0; j < 4; j++)
        _mm_storeu_si128((__m128i_u *)(void *)(to + j * VEC), _mm512_cvtepi32_epi8((__m512i)v[j]));
}
static inline void put_high(uint16_t *to, const vu v[2]) {
    for (int j = 0; j < 2; j++)
        _mm256_storeu_si256((__m256i_u *)(void *)(to + j * VEC), _mm512_cvtepi32_epi16((__m512i)(v[j] >> 16)));
}
#ifdef TRI_ISA_avx512_bf16
#define TRI_SIMD_OWN_ROUNDING
/* Two vectors, rounded. The instruction flushes denormal numbers and keeps a NaN's sign, which numbers/float16.h does
 * not: 0 if there are any, and nothing is stored. */
static inline int put_rounded_plain(uint16_t *to, const vf v[2]) {
    enum { NAN_OR_DENORMAL = 0xA1 };
    __mmask16 a = _mm512_fpclass_ps_mask((__m512)v[0], NAN_OR_DENORMAL);
    __mmask16 b = _mm512_fpclass_ps_mask((__m512)v[1], NAN_OR_DENORMAL);
    if (__builtin_expect(!_kortestz_mask16_u8(a, b), 0)) return 0;
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh((__m512)v[1], (__m512)v[0]));
    return 1;
}
#endif
#define TRI_SIMD_OWN_F16
static inline vf vec_f16(const uint16_t *from) {
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)(const void *)from));
}
static inline void put_f16(uint16_t *to, const vf v[2]) {
    for (int j = 0; j < 2; j++)
        _mm256_storeu_si256((__m256i_u *)(void *)(to + j * VEC),
                            _mm512_cvtps_ph((__m512)v[j], _MM_FROUND_TO_NEAREST_INT));
}
/* The high and low halves of the 64-bit products. */
static inline void vec_mul_wide(vu x, uint32_t factor, vu *high, vu *low) {
    __m512i f = _mm512_set1_epi32((int)factor);
    __m512i even = _mm512_mul_epu32((__m512i)x, f), odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)x, 32), f);
    *high = (vu)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
    *low = (vu)_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
}
static inline vu vec_unpack_low32(vu a, vu b) { return (vu)_mm512_unpacklo_epi32((__m512i)a, (__m512i)b); }
static inline vu vec_unpack_high32(vu a, vu b) { return (vu)_mm512_unpackhi_epi32((__m512i)a, (__m512i)b); }
static inline vu vec_unpack_low64(vu a, vu b) { return (vu)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b); }
static inline vu vec_unpack_high64(vu a, vu b) { return (vu)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b); }

#include "device/cpu/fast/product/transpose_avx512.h"
#define TRI_SIMD_OWN_TRANSPOSE
static inline __attribute__((always_inline)) void vec_transpose(vf v[VEC]) { transpose16((__m512i *)v); }

#include "device/cpu/fast/product/simd_product_avx512.h"
