/* simd_avx512.c - the serial kernels for x86-64 with AVX-512 F and DQ. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx2,fma")
#endif

#define VEC 16
#define MR 8
#include "device/cpu/fast/simd_vec.h"

static inline vf vec_sqrt(vf x) { return (vf)_mm512_sqrt_ps((__m512)x); }
/* Where x is not a number it wins: the instructions return their second operand then. */
static inline vf vec_max(vf limit, vf x) { return (vf)_mm512_max_ps((__m512)limit, (__m512)x); }
static inline vf vec_min(vf limit, vf x) { return (vf)_mm512_min_ps((__m512)limit, (__m512)x); }
static inline vd vec_low_double(vf x) { return (vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)); }
static inline vd vec_high_double(vf x) { return (vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1)); }
/* The two halves of the 64-bit products. */
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

#include "device/cpu/fast/simd_body.h"

const tri_simd tri__simd_avx512 = TRI_SIMD_TABLE("avx512", 0);

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
