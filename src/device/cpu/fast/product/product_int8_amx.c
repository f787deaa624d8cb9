/* product_int8_amx.c - the int8 product kernel for x86-64 with AMX: four tiles of 16 x 16 sums. A tile of A is 16 rows
 * of 64 of k, unchanged; one of B has fours of k interleaved. Tiles are configured as in product_amx.c. */
#if defined(__x86_64__)

#include "base/for_isa.h"
#include "device/cpu/fast/product/gemm_half.h"
#include "device/cpu/fast/product/gemm_int8.h"

#include <immintrin.h>

TRI_FOR_ISA("amx-tile,amx-int8,avx512f,avx512bw")

#include "device/cpu/fast/product/amx_sums.h"
#include "device/cpu/fast/product/pack_int8_avx512.h"

enum { ROWS = TRI_AMX_ROWS, K = 64, MR = 2 * ROWS, NR = 2 * ROWS, ROW_BYTES = 64 };

/* to [padded / K, MR, K] */
static void pack_a(void *to, const int8_t *from, int64_t ld, int64_t n, int64_t k, int64_t padded) {
    int8_t *at = to;
    for (int64_t c = 0; c < padded; c += K)
        for (int64_t i = 0; i < MR; i++, at += K) {
            int64_t left = i >= n ? 0 : k - c < K ? k - c : K;
            __mmask64 mask = left == K ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
            _mm512_storeu_si512(at, _mm512_maskz_loadu_epi8(mask, from + (i < n ? i * ld + c : 0)));
        }
}

static void pack_b(void *to, const int8_t *from, int64_t ld, int64_t n, int64_t k, int64_t padded) {
    tri__pack_int8_avx512(to, NR, from, ld, n, k, padded);
}

/* a [steps,MR,K], b [steps,K / 4,NR,4]. Tiles 0 to 3 are sums, 4 and 5 of A, 6 and 7 of B. */
static void product(int64_t steps, const void *a, const void *b, int32_t *c, int64_t ld, int add) {
    const int8_t *row = a, *column = b;
    tri__amx_sums_load(c, ld, add);
    for (; steps > 0; steps--, row += MR * K, column += NR * K) {
        _tile_loadd(4, row, ROW_BYTES);
        _tile_loadd(6, column, 2 * ROW_BYTES);
        _tile_loadd(7, column + ROW_BYTES, 2 * ROW_BYTES);
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_loadd(5, row + ROWS * K, ROW_BYTES);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    tri__amx_sums_store(c, ld);
}

TRI_FOR_ISA_END

const tri_int8_product tri__int8_product_amx = {
    .name = "amx-int8", .mr = MR, .nr = NR, .step = K, .element = 1, .begin = tri__amx_begin, .end = tri__amx_end,
    .pack_a = pack_a, .pack_b = pack_b, .run = product};

#endif
