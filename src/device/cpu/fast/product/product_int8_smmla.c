/* product_int8_smmla.c - the int8 product kernel for arm64 with SMMLA (i8mm), which multiplies 2 x 8 by 8 x 2: 8 rows
 * of 12 sums as 4 x 6 blocks of 2 x 2. In assembly for the reason given in product_bfmmla.c. */
#if defined(__aarch64__)

#include "device/cpu/fast/product/gemm_int8.h"
#include "device/cpu/fast/product/pack_int8.h"

#include <arm_neon.h>

enum { MR = 8, NR = 12, GROUP = 8 };

/* Pairs of rows: 16 numbers of each become two groups of both. */
static inline __attribute__((always_inline)) void pack(int8_t *to, int width, const int8_t *from, int64_t ld, int64_t n,
                                                       int64_t k, int64_t padded) {
    int64_t whole = n == width ? k / (2 * GROUP) * (2 * GROUP) : 0;
    for (int64_t c = 0; c < whole; c += 2 * GROUP)
        for (int i = 0; i < width; i += 2) {
            int64x2_t upper = vreinterpretq_s64_s8(vld1q_s8(from + i * ld + c));
            int64x2_t lower = vreinterpretq_s64_s8(vld1q_s8(from + (i + 1) * ld + c));
            int8_t *at = to + c * width + i * GROUP;
            vst1q_s8(at, vreinterpretq_s8_s64(vzip1q_s64(upper, lower)));
            vst1q_s8(at + width * GROUP, vreinterpretq_s8_s64(vzip2q_s64(upper, lower)));
        }
    tri__pack_int8_rest(to, width, GROUP, from, ld, n, whole, k, padded);
}

static void pack_a(void *to, const int8_t *from, int64_t ld, int64_t n, int64_t k, int64_t padded) {
    pack(to, MR, from, ld, n, k, padded);
}

static void pack_b(void *to, const int8_t *from, int64_t ld, int64_t n, int64_t k, int64_t padded) {
    pack(to, NR, from, ld, n, k, padded);
}

/* smmla vD.4s, vN.16b, vM.16b as an encoded instruction: assemblers differ in how it is enabled. */
#define SMMLA(d, n, m) ".inst (0x4e80a400 + (" #m " << 16) + (" #n " << 5) + " #d ")\n\t"
/* Four pairs of rows (v0 to v3) against the pair of columns in vM. */
#define COLUMNS(d0, d1, d2, d3, m) SMMLA(d0, 0, m) SMMLA(d1, 1, m) SMMLA(d2, 2, m) SMMLA(d3, 3, m)
#define ZERO(a, b, c, d) "movi v" #a ".4s, #0\n\tmovi v" #b ".4s, #0\n\tmovi v" #c ".4s, #0\n\tmovi v" #d ".4s, #0\n\t"
/* Blocks of two pairs of columns become four columns of each row; a row has NR. */
#define JOIN(x, y) "zip1 v0.2d, v" #x ".2d, v" #y ".2d\n\tzip2 v1.2d, v" #x ".2d, v" #y ".2d\n\t"
#define ALL(each) \
    each(8, 9, 10, 11) each(12, 13, 14, 15) each(16, 17, 18, 19) each(20, 21, 22, 23) each(24, 25, 26, 27) \
        each(28, 29, 30, 31)
#define ROW_PAIR(x0, y0, x1, y1, x2, y2)                                                                 \
    JOIN(x0, y0) "str q0, [%[c]]\n\tstr q1, [%[c], %[ld]]\n\t"                                           \
    "add %[at], %[c], #16\n\t" JOIN(x1, y1) "str q0, [%[at]]\n\tstr q1, [%[at], %[ld]]\n\t"              \
    "add %[at], %[c], #32\n\t" JOIN(x2, y2) "str q0, [%[at]]\n\tstr q1, [%[at], %[ld]]\n\t"              \
    "add %[c], %[c], %[ld], lsl #1\n\t"

/* c [MR,NR], with row stride ld bytes. */
static void blocks(int64_t steps, const int8_t *a, const int8_t *b, int32_t *c, int64_t ld) {
    int32_t *at;
    __asm__ volatile(ALL(ZERO) "cbz %[steps], 2f\n\t"
                     "1:\n\t"
                     "ldp q0, q1, [%[a]], #32\n\t"
                     "ldp q4, q5, [%[b]], #32\n\t"
                     "ldp q2, q3, [%[a]], #32\n\t"
                     "ldp q6, q7, [%[b]], #32\n\t"
                     COLUMNS(8, 9, 10, 11, 4) COLUMNS(12, 13, 14, 15, 5)
                     "ldp q4, q5, [%[b]], #32\n\t"
                     "subs %[steps], %[steps], #1\n\t"
                     COLUMNS(16, 17, 18, 19, 6) COLUMNS(20, 21, 22, 23, 7)
                     COLUMNS(24, 25, 26, 27, 4) COLUMNS(28, 29, 30, 31, 5)
                     "b.ne 1b\n\t"
                     "2:\n\t"
                     ROW_PAIR(8, 12, 16, 20, 24, 28) ROW_PAIR(9, 13, 17, 21, 25, 29)
                     ROW_PAIR(10, 14, 18, 22, 26, 30) ROW_PAIR(11, 15, 19, 23, 27, 31)
                     : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [steps] "+r"(steps), [at] "=&r"(at)
                     : [ld] "r"(ld)
                     : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
                       "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",
                       "v29", "v30", "v31", "cc", "memory");
}

static void product(int64_t steps, const void *a, const void *b, int32_t *c, int64_t ld, int add) {
    int32_t sum[MR * NR];
    if (!add) {
        blocks(steps, a, b, c, ld * (int64_t)sizeof *c);
        return;
    }
    blocks(steps, a, b, sum, NR * sizeof *sum);
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < NR; j++) c[i * ld + j] += sum[i * NR + j];
}

const tri_int8_product tri__int8_product_smmla = {
    .name = "smmla", .mr = MR, .nr = NR, .step = GROUP, .element = 1, .pack_a = pack_a, .pack_b = pack_b,
    .run = product};

#endif
