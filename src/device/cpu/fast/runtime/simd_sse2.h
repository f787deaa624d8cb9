/* simd_sse2.h - vectors for baseline x86-64: SSE2. */
#pragma once

#include <emmintrin.h>

#define VEC 4
#define MR 4
enum { PACKED_ROWS = 64, PACKED_COLUMNS = 48, A_STAYS = 0, READS_ROWS = 1 }; /* see simd_product.h */
#include "device/cpu/fast/runtime/simd_vec.h"

static inline vf vec_sqrt(vf x) { return (vf)_mm_sqrt_ps((__m128)x); }
/* A NaN x is returned: for NaN the instructions return their second operand. */
static inline vf vec_max(vf limit, vf x) { return (vf)_mm_max_ps((__m128)limit, (__m128)x); }
static inline vf vec_min(vf limit, vf x) { return (vf)_mm_min_ps((__m128)limit, (__m128)x); }
static inline vi vec_max_i(vi a, vi b) {
    vi mask = a > b;
    return (a & mask) | (b & ~mask);
}
static inline int vec_bits(vi mask) { return _mm_movemask_ps((__m128)mask); } /* a bit a lane */
static inline vd vec_low_double(vf x) { return (vd)_mm_cvtps_pd((__m128)x); }
static inline vd vec_high_double(vf x) { return (vd)_mm_cvtps_pd(_mm_movehl_ps((__m128)x, (__m128)x)); }
static inline int32_t vec_top(vi v) { /* the largest lane */
    v = vec_max_i(v, (vi)_mm_shuffle_epi32((__m128i)v, 0x4E));
    return _mm_cvtsi128_si32((__m128i)vec_max_i(v, (vi)_mm_shuffle_epi32((__m128i)v, 0xB1)));
}
static inline vs vec_max_s(vs a, vs b) { return (vs)_mm_max_epi16((__m128i)a, (__m128i)b); }
/* Signed bytes and 16-bit numbers as lanes; the low bytes of 4 vectors and the high halves of 2 on their way back. */
static inline vi vec_bytes(const uint8_t *from) {
    int32_t bytes;
    memcpy(&bytes, from, sizeof bytes);
    __m128i twice = _mm_unpacklo_epi8(_mm_cvtsi32_si128(bytes), _mm_cvtsi32_si128(bytes));
    return (vi)_mm_srai_epi32(_mm_unpacklo_epi16(twice, twice), 24);
}
static inline vu vec_halves(const uint16_t *from) {
    return (vu)_mm_unpacklo_epi16(_mm_loadl_epi64((const __m128i_u *)(const void *)from), _mm_setzero_si128());
}
static inline void put_bytes(uint8_t *to, const vi v[4]) {
    __m128i low = _mm_packs_epi32((__m128i)(v[0] & 0xFF), (__m128i)(v[1] & 0xFF));
    __m128i high = _mm_packs_epi32((__m128i)(v[2] & 0xFF), (__m128i)(v[3] & 0xFF));
    _mm_storeu_si128((__m128i_u *)(void *)to, _mm_packus_epi16(low, high));
}
static inline void put_high(uint16_t *to, const vu v[2]) {
    _mm_storeu_si128((__m128i_u *)(void *)to, _mm_packs_epi32((__m128i)((vi)v[0] >> 16), (__m128i)((vi)v[1] >> 16)));
}
/* The high and low halves of the 64-bit products. */
static inline void vec_mul_wide(vu x, uint32_t factor, vu *high, vu *low) {
    __m128i f = _mm_set1_epi32((int)factor), odd_mask = _mm_set_epi32(-1, 0, -1, 0);
    __m128i even = _mm_mul_epu32((__m128i)x, f), odd = _mm_mul_epu32(_mm_srli_epi64((__m128i)x, 32), f);
    *high = (vu)_mm_or_si128(_mm_srli_epi64(even, 32), _mm_and_si128(odd, odd_mask));
    *low = (vu)_mm_or_si128(_mm_andnot_si128(odd_mask, even), _mm_slli_epi64(odd, 32));
}
static inline vu vec_unpack_low32(vu a, vu b) { return (vu)_mm_unpacklo_epi32((__m128i)a, (__m128i)b); }
static inline vu vec_unpack_high32(vu a, vu b) { return (vu)_mm_unpackhi_epi32((__m128i)a, (__m128i)b); }
static inline vu vec_unpack_low64(vu a, vu b) { return (vu)_mm_unpacklo_epi64((__m128i)a, (__m128i)b); }
static inline vu vec_unpack_high64(vu a, vu b) { return (vu)_mm_unpackhi_epi64((__m128i)a, (__m128i)b); }
