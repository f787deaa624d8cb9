/* simd_avx2.c - the serial kernels for x86-64 with AVX2 and FMA. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

#define VEC 8
#define MR 4
#include "device/cpu/fast/simd_vec.h"

static inline vf vec_sqrt(vf x) { return (vf)_mm256_sqrt_ps((__m256)x); }
/* A NaN x is returned: for NaN the instructions return their second operand. */
static inline vf vec_max(vf limit, vf x) { return (vf)_mm256_max_ps((__m256)limit, (__m256)x); }
static inline vf vec_min(vf limit, vf x) { return (vf)_mm256_min_ps((__m256)limit, (__m256)x); }
static inline vi vec_max_i(vi a, vi b) { return (vi)_mm256_max_epi32((__m256i)a, (__m256i)b); }
static inline int vec_bits(vi mask) { return _mm256_movemask_ps((__m256)mask); } /* a bit a lane */
static inline vd vec_low_double(vf x) { return (vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x)); }
static inline vd vec_high_double(vf x) { return (vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1)); }
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

#include "device/cpu/fast/simd_body.h"

const tri_simd tri__simd_avx2 = TRI_SIMD_TABLE("avx2", .product_rows = product_rows, .tile_rows = 128,
                                               .tile_columns = 96, .a_stays = 1);

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
