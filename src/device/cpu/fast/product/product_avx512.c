/* product_avx512.c - the bf16 product kernel for x86-64 with AVX512-BF16: 12 rows of two vectors stay in registers. An
 * instruction processes two of k at a time: groups of 2, one pair of A against 16 pairs of B. */
#if defined(__x86_64__)

#include "base/for_isa.h"
#include "device/cpu/fast/product/gemm_half.h"

#include <immintrin.h>

TRI_FOR_ISA("avx512f,avx512bf16,avx512bw,avx512vl")

#include "device/cpu/fast/product/pack_half_avx512.h"

enum { MR = 12, VECTORS = 2, LANES = 16, GROUP = 2 };

static void product(int64_t groups, const uint16_t *a, const uint16_t *b, float *c, int64_t ld, int add) {
    __m512 sum[MR][VECTORS];
#pragma GCC unroll 12
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
        for (int j = 0; j < VECTORS; j++)
            sum[i][j] = add ? _mm512_loadu_ps(c + i * ld + j * LANES) : _mm512_setzero_ps();
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

static void pack_a_rows(const tri_half_panel *p, uint16_t *to) {
    for (int64_t at = 0; at < p->padded; at += LANES * GROUP) {
        __m512i r[16];
        turn_rows(p, at, 0, MR, r);
        for (int u = 0; u < LANES && at + GROUP * u < p->padded; u++, to += MR * GROUP)
            _mm512_mask_storeu_epi32(to, (1 << MR) - 1, r[u]);
    }
}

static void pack_a_columns(const tri_half_panel *p, uint16_t *to) {
    for (int64_t at = 0; at < p->padded; at += GROUP, to += MR * GROUP)
        _mm512_mask_storeu_epi32(to, (1 << MR) - 1, pairs(p, at, 0));
}

int tri__half_vectors(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}

const tri_half_product tri__half_product_avx512 = {
    .name = "avx512bf16", .mr = MR, .nr = VECTORS * LANES, .a_group = GROUP, .b_group = GROUP, .step = GROUP,
    .k_block = 384, .run = product, .a_rows = pack_a_rows, .a_columns = pack_a_columns,
    .b_rows = pack_pairs_of_rows, .b_columns = pack_pairs_of_columns};

TRI_FOR_ISA_END

#endif
