/* product_int8_plain.c - the int8 product kernel in plain C, for CPUs without instructions for it, and what the others
 * are compared with. */
#include "device/cpu/fast/product/gemm_int8.h"
#include "device/cpu/fast/product/pack_int8.h"

enum { MR = 4, NR = 8, GROUP = 4 };

static void pack_a(void *to, const int8_t *from, int64_t ld, int64_t n, int64_t k, int64_t padded) {
    tri__pack_int8(to, MR, GROUP, from, ld, n, k, padded);
}

static void pack_b(void *to, const int8_t *from, int64_t ld, int64_t n, int64_t k, int64_t padded) {
    tri__pack_int8(to, NR, GROUP, from, ld, n, k, padded);
}

static void product(int64_t steps, const void *a, const void *b, int32_t *c, int64_t ld, int add) {
    const int8_t *row = a, *column = b; /* [steps,MR,GROUP], [steps,NR,GROUP] */
    int32_t sum[MR][NR] = {{0}};
    for (; steps > 0; steps--, row += MR * GROUP, column += NR * GROUP)
        for (int i = 0; i < MR; i++)
            for (int j = 0; j < NR; j++)
                for (int u = 0; u < GROUP; u++) sum[i][j] += row[i * GROUP + u] * column[j * GROUP + u];
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < NR; j++) c[i * ld + j] = sum[i][j] + (add ? c[i * ld + j] : 0);
}

const tri_int8_product tri__int8_product_plain = {
    .name = "plain C", .mr = MR, .nr = NR, .step = GROUP, .element = 1, .pack_a = pack_a, .pack_b = pack_b,
    .run = product};
