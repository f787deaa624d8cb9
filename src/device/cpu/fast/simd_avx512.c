/* simd_avx512.c - the serial kernels for x86-64 with AVX-512 F and DQ. The product kernel is written in assembly: gcc
 * 12 moves some of its 24 accumulators through memory. It reaches 200 of 205 GFLOP/s per core with its panels in the L2
 * cache. */
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
#define HEAD_VECTORS 2
#define TRI_SIMD_OWN_PRODUCT
#include "device/cpu/fast/simd_vec.h"

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

/* Row i of the tile is in zmm(8 + 3 i) to zmm(10 + 3 i). */
#define ZERO(v0, v1, v2) \
    "vpxorq %%zmm" #v0 ", %%zmm" #v0 ", %%zmm" #v0 "\n\tvpxorq %%zmm" #v1 ", %%zmm" #v1 ", %%zmm" #v1 "\n\t" \
    "vpxorq %%zmm" #v2 ", %%zmm" #v2 ", %%zmm" #v2 "\n\t"
#define ADD(v0, v1, v2)                                                                                          \
    "vaddps (%[init]), %%zmm" #v0 ", %%zmm" #v0 "\n\tvaddps 64(%[init]), %%zmm" #v1 ", %%zmm" #v1 "\n\t"         \
    "vaddps 128(%[init]), %%zmm" #v2 ", %%zmm" #v2 "\n\tadd %[init_bytes], %[init]\n\t"
#define STORE(v0, v1, v2)                                                                                        \
    "vmovups %%zmm" #v0 ", (%[c])\n\tvmovups %%zmm" #v1 ", 64(%[c])\n\tvmovups %%zmm" #v2 ", 128(%[c])\n\t"     \
    "add %[c_bytes], %[c]\n\t"
#define TILE(row)                                                                                                \
    row(8, 9, 10) row(11, 12, 13) row(14, 15, 16) row(17, 18, 19) row(20, 21, 22) row(23, 24, 25)                \
    row(26, 27, 28) row(29, 30, 31)
#define ROW(at, a, v0, v1, v2)                                                                                   \
    "vbroadcastss " at ", %%zmm" #a "\n\tvfmadd231ps %%zmm" #a ", %%zmm0, %%zmm" #v0 "\n\t"                      \
    "vfmadd231ps %%zmm" #a ", %%zmm1, %%zmm" #v1 "\n\tvfmadd231ps %%zmm" #a ", %%zmm2, %%zmm" #v2 "\n\t"
/* Rows 0, 1, 2, 4 and 6 of A are addressed relative to row 0, the others relative to row 3. */
#define STEP(at, b0, b1, b2)                                                                                     \
    "vmovups " #b0 "(%[b]), %%zmm0\n\tvmovups " #b1 "(%[b]), %%zmm1\n\tvmovups " #b2 "(%[b]), %%zmm2\n\t"       \
    ROW(#at "(%[a])", 3, 8, 9, 10) ROW(#at "(%[a], %[row])", 4, 11, 12, 13)                                      \
    ROW(#at "(%[a], %[row], 2)", 5, 14, 15, 16) ROW(#at "(%[a3])", 6, 17, 18, 19)                                \
    ROW(#at "(%[a], %[row], 4)", 7, 20, 21, 22) ROW(#at "(%[a3], %[row], 2)", 3, 23, 24, 25)                     \
    ROW(#at "(%[a], %[row3], 2)", 4, 26, 27, 28) ROW(#at "(%[a3], %[row], 4)", 5, 29, 30, 31)
/* c = init + a b, where columns of A in a group of steps are at 0, at1, at2 and at3 bytes. */
#define PRODUCT(at1, at2, at3, group) \
    __asm__ volatile(TILE(ZERO) "test %[steps], %[steps]\n\t" \
                                "jz 2f\n\t" \
                                ".p2align 5\n" \
                                "1:\n\t" STEP(0, 0, 64, 128) STEP(at1, 192, 256, 320) STEP(at2, 384, 448, 512) \
                                    STEP(at3, 576, 640, 704) "add $" #group ", %[a]\n\t" \
                                                             "add $" #group ", %[a3]\n\t" \
                                                             "add $768, %[b]\n\t" \
                                                             "dec %[steps]\n\t" \
                                                             "jnz 1b\n" \
                                                             "2:\n\t" \
                                                             "test %[init], %[init]\n\t" \
                                                             "jz 3f\n\t" TILE(ADD) "3:\n\t" TILE(STORE) \
                     : [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [init] "+r"(init), [c] "+r"(c), [steps] "+r"(steps) \
                     : [row] "r"(row), [row3] "r"(3 * row), [init_bytes] "r"(ld_init * 4), [c_bytes] "r"(ld * 4) \
                     : "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", \
                       "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", \
                       "zmm21", "zmm22", "zmm23", "zmm24", "zmm25", "zmm26", "zmm27", "zmm28", "zmm29", "zmm30", \
                       "zmm31", "cc", "memory")

/* Prefetches rows of c while the sums run, unless they are contiguous in a small buffer. */
static inline void fetch_tile(const float *c, int64_t ld) {
    for (int i = 0; ld != NR && i < MR; i++)
        for (int j = 0; j < NR + 15; j += 16) __builtin_prefetch(c + i * ld + (j < NR ? j : NR - 1), 1);
}

static void product(int64_t k, const float *a, const float *b, const float *init, int64_t ld_init, float *c,
                    int64_t ld) {
    int64_t row = sizeof *a, steps = k / TRI_KERNEL_STEP;
    const float *a3 = a + 3;
    fetch_tile(c, ld);
    PRODUCT(32, 64, 96, 128);
}

static void product_rows(int64_t k, const float *a, int64_t ld_a, const float *b, const float *init, int64_t ld_init,
                         float *c, int64_t ld) {
    int64_t row = ld_a * (int64_t)sizeof *a, steps = k / TRI_KERNEL_STEP;
    const float *a3 = a + 3 * ld_a;
    fetch_tile(c, ld);
    PRODUCT(4, 8, 12, 16);
}

#include "device/cpu/fast/simd_body.h"

const tri_simd tri__simd_avx512 = TRI_SIMD_TABLE("avx512", .product_rows = product_rows, .tile_rows = 128,
                                                 .tile_columns = 384, .a_stays = 1);

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
