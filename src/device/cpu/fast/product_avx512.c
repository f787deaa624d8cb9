/* product_avx512.c - the bf16 product kernel for x86-64 with AVX512-BF16: 12 rows of two vectors stay in registers. An
 * instruction processes two of k at a time: groups of 2, one pair of A against 16 pairs of B. */
#if defined(__x86_64__)

#include "device/cpu/fast/gemm_half.h"

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bf16")
#endif

enum { MR = 12, VECTORS = 2, LANES = 16, GROUP = 2 };

static void product(int64_t groups, const uint16_t *a, const uint16_t *b, float *c, int64_t ld) {
    __m512 sum[MR][VECTORS];
#pragma GCC unroll 12
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
        for (int j = 0; j < VECTORS; j++) sum[i][j] = _mm512_loadu_ps(c + i * ld + j * LANES);
    for (; groups > 0; groups--, a += MR * GROUP, b += VECTORS * LANES * GROUP) {
        __m512bh b0 = (__m512bh)_mm512_loadu_si512(b), b1 = (__m512bh)_mm512_loadu_si512(b + LANES * GROUP);
#pragma GCC unroll 12
        for (int i = 0; i < MR; i++) {
            int pair;
            __builtin_memcpy(&pair, a + i * GROUP, sizeof pair);
            __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
            sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, b0);
            sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, b1);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
        for (int j = 0; j < VECTORS; j++) _mm512_storeu_ps(c + i * ld + j * LANES, sum[i][j]);
}

const tri_half_product tri__half_product_avx512 = {.name = "avx512bf16",
                                                   .mr = MR,
                                                   .nr = VECTORS * LANES,
                                                   .a_group = GROUP,
                                                   .b_group = GROUP,
                                                   .step = GROUP,
                                                   .k_block = 384,
                                                   .run = product};

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
