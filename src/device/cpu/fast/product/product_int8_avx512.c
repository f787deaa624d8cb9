/* product_int8_avx512.c - the int8 product kernel for x86-64 with AVX512-VNNI: 8 rows of three vectors stay in
 * registers; four of k of a row against four of each of 16 columns. The instruction multiplies unsigned by signed
 * numbers: 128 is added to factors of A, and sums start at -128 times the sum of B, which follows a panel of B. */
#if defined(__x86_64__)

#include "base/for_isa.h"
#include "device/cpu/fast/product/gemm_int8.h"

#include <immintrin.h>
#include <string.h>

TRI_FOR_ISA("avx512f,avx512bw,avx512vnni")

#include "device/cpu/fast/product/pack_int8_avx512.h"

enum { MR = 8, VECTORS = 3, LANES = 16, NR = VECTORS * LANES, GROUP = 4 };

/* to [padded / 4, MR, 4]; rows that do not exist and columns after k may be anything: B is 0 there, or nobody reads. */
static void pack_a(void *to, const int8_t *from, int64_t ld, int64_t n, int64_t k, int64_t padded) {
    uint32_t *at = to;
    for (int64_t c = 0; c < padded; c += GROUP)
        for (int64_t i = 0; i < MR; i++, at++) {
            *at = 0;
            if (i < n && c + GROUP <= k) memcpy(at, from + i * ld + c, GROUP);
            else if (i < n && c < k) memcpy(at, from + i * ld + c, (size_t)(k - c));
            *at ^= 0x80808080u;
        }
}

static void pack_b(void *to, const int8_t *from, int64_t ld, int64_t n, int64_t k, int64_t padded) {
    const __m512i high = _mm512_set1_epi8(-128); /* 128, unsigned */
    int8_t *panel = to;
    __m512i sum[VECTORS];
    for (int j = 0; j < VECTORS; j++) sum[j] = _mm512_setzero_si512();
    tri__pack_int8_avx512(panel, NR, from, ld, n, k, padded);
    for (int64_t c = 0; c < padded; c += GROUP, panel += NR * GROUP)
        for (int j = 0; j < VECTORS; j++)
            sum[j] = _mm512_dpbusd_epi32(sum[j], high, _mm512_loadu_si512(panel + j * LANES * GROUP));
    for (int j = 0; j < VECTORS; j++)
        _mm512_storeu_si512(panel + j * LANES * GROUP, _mm512_sub_epi32(_mm512_setzero_si512(), sum[j]));
}

static void product(int64_t groups, const void *a, const void *b, int32_t *c, int64_t ld, int add) {
    const int8_t *row = a, *column = b, *start = column + groups * NR * GROUP;
    __m512i sum[MR][VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
        for (int j = 0; j < VECTORS; j++) sum[i][j] = _mm512_loadu_si512(start + j * LANES * GROUP);
    for (; groups > 0; groups--, row += MR * GROUP, column += NR * GROUP) {
        __m512i y[VECTORS];
#pragma GCC unroll 3
        for (int j = 0; j < VECTORS; j++) y[j] = _mm512_loadu_si512(column + j * LANES * GROUP);
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++) {
            int four;
            memcpy(&four, row + i * GROUP, sizeof four);
            __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 3
            for (int j = 0; j < VECTORS; j++) sum[i][j] = _mm512_dpbusd_epi32(sum[i][j], x, y[j]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
        for (int j = 0; j < VECTORS; j++) {
            int32_t *to = c + i * ld + j * LANES;
            _mm512_storeu_si512(to, add ? _mm512_add_epi32(sum[i][j], _mm512_loadu_si512(to)) : sum[i][j]);
        }
}

const tri_int8_product tri__int8_product_avx512vnni = {
    .name = "avx512vnni", .mr = MR, .nr = NR, .step = GROUP, .element = 1, .pack_a = pack_a, .pack_b = pack_b,
    .run = product};

TRI_FOR_ISA_END

#endif
