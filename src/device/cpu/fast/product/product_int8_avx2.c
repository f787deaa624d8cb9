/* product_int8_avx2.c - the int8 product kernels for x86-64 with AVX2, and with AVX-VNNI. Both read rows in place, a
 * vector of k at a time: 2 rows by 4 columns of sums, each of which is eight partial sums until its end. AVX2 widens
 * factors to 16 bits, of which pairs of products are exact in 32. AVX-VNNI multiplies unsigned by signed numbers: 128
 * is added to factors of A, and 128 times the sum of B subtracted at the end. */
#if defined(__x86_64__)

#include "base/for_isa.h"
#include "device/cpu/fast/product/gemm_int8.h"

#include <immintrin.h>
#include <string.h>

enum { MR = 2, NR = 4, MOST_STEP = 32 };

TRI_FOR_ISA("avx2")

#define INLINE static inline __attribute__((always_inline))

/* Sums of the lanes of four vectors, side by side. */
INLINE __m128i joined(const __m256i s[NR]) {
    __m256i pairs = _mm256_hadd_epi32(_mm256_hadd_epi32(s[0], s[1]), _mm256_hadd_epi32(s[2], s[3]));
    return _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
}

/* Row i of the result. */
INLINE void finish(const tri_int8_rows *what, int64_t i, __m128i sum) {
    __m128 scale = _mm_mul_ps(_mm_loadu_ps(what->b_scale), _mm_set1_ps(what->a_scale[i]));
    __m128 value = _mm_mul_ps(_mm_cvtepi32_ps(sum), scale);
    __asm__("" : "+x"(value)); /* rounded: not contracted with the sum */
    _mm_storeu_ps(what->y + i * what->ld, _mm_add_ps(value, _mm_loadu_ps(what->bias)));
}

/* The last numbers of each row, fewer than a step, and zeros. */
INLINE void take_rest(int64_t whole, int64_t k, const int8_t *const a[], const int8_t *const b[],
                      int8_t rest[MR + NR][MOST_STEP], const int8_t *rows[MR + NR]) {
    memset(rest, 0, (MR + NR) * MOST_STEP);
    for (int i = 0; i < MR + NR; i++)
        rows[i] = memcpy(rest[i], (i < MR ? a[i] : b[i - MR]) + whole, (size_t)(k - whole));
}

INLINE __m256i wide(const int8_t *from) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)from)); }

INLINE void add_products(__m256i sum[MR][NR], const int8_t *const a[], const int8_t *const b[], int64_t at) {
    __m256i x[MR];
#pragma GCC unroll 2
    for (int i = 0; i < MR; i++) x[i] = wide(a[i] + at);
#pragma GCC unroll 4
    for (int j = 0; j < NR; j++) {
        __m256i y = wide(b[j] + at);
#pragma GCC unroll 2
        for (int i = 0; i < MR; i++) sum[i][j] = _mm256_add_epi32(sum[i][j], _mm256_madd_epi16(x[i], y));
    }
}

static void product(const tri_int8_rows *what) {
    enum { STEP = 16 };
    int64_t whole = what->k / STEP * STEP;
    const int8_t *const *b = what->b;
    for (int64_t row = 0; row < what->rows; row += MR) {
        const int8_t *const *a = what->a + row;
        __m256i sum[MR][NR];
        memset(sum, 0, sizeof sum);
        for (int64_t at = 0; at < whole; at += STEP) add_products(sum, a, b, at);
        if (whole < what->k) {
            int8_t rest[MR + NR][MOST_STEP];
            const int8_t *rows[MR + NR];
            take_rest(whole, what->k, a, b, rest, rows);
            add_products(sum, rows, rows + MR, 0);
        }
        for (int i = 0; i < MR; i++) finish(what, row + i, joined(sum[i]));
    }
}

TRI_FOR_ISA_END
TRI_FOR_ISA("avx2,avxvnni")

/* offset [NR]: 128 times the sums of B. */
INLINE void add_products_vnni(__m256i sum[MR][NR], __m256i offset[NR], const int8_t *const a[], const int8_t *const b[],
                              int64_t at) {
    const __m256i high = _mm256_set1_epi8(-128); /* 128, unsigned */
    __m256i x[MR];
#pragma GCC unroll 2
    for (int i = 0; i < MR; i++) x[i] = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(a[i] + at)), high);
#pragma GCC unroll 4
    for (int j = 0; j < NR; j++) {
        __m256i y = _mm256_loadu_si256((const __m256i *)(b[j] + at));
        offset[j] = _mm256_dpbusd_avx_epi32(offset[j], high, y);
#pragma GCC unroll 2
        for (int i = 0; i < MR; i++) sum[i][j] = _mm256_dpbusd_avx_epi32(sum[i][j], x[i], y);
    }
}

static void product_vnni(const tri_int8_rows *what) {
    enum { STEP = 32 };
    int64_t whole = what->k / STEP * STEP;
    const int8_t *const *b = what->b;
    for (int64_t row = 0; row < what->rows; row += MR) {
        const int8_t *const *a = what->a + row;
        __m256i sum[MR][NR], offset[NR];
        memset(sum, 0, sizeof sum);
        memset(offset, 0, sizeof offset);
        for (int64_t at = 0; at < whole; at += STEP) add_products_vnni(sum, offset, a, b, at);
        if (whole < what->k) {
            int8_t rest[MR + NR][MOST_STEP];
            const int8_t *rows[MR + NR];
            take_rest(whole, what->k, a, b, rest, rows);
            add_products_vnni(sum, offset, rows, rows + MR, 0);
        }
        for (int i = 0; i < MR; i++) {
            for (int j = 0; j < NR; j++) sum[i][j] = _mm256_sub_epi32(sum[i][j], offset[j]);
            finish(what, row + i, joined(sum[i]));
        }
    }
}

TRI_FOR_ISA_END

const tri_int8_product tri__int8_product_avx2 = {.name = "avx2", .mr = MR, .nr = NR, .in_place = product};
const tri_int8_product tri__int8_product_avxvnni = {.name = "avxvnni", .mr = MR, .nr = NR, .in_place = product_vnni};

#endif
