/* product_bfmmla.c - the bf16 product kernel for arm64 with BFMMLA, which multiplies 2 x 4 by 4 x 2: 8 rows of 12 sums
 * as 4 x 6 blocks of 2 x 2. In assembly, because gcc 12 spills three of the 24 accumulators, which more than halves the
 * speed (138 GFLOP/s per core with intrinsics, 310 in assembly). */
#if defined(__aarch64__)

#include "device/cpu/fast/product/gemm_half.h"

#include <arm_neon.h>

enum { MR = 8, NR = 12, GROUP = 4, BLOCKS = 24 };

/* bfmmla vD.4s, vN.8h, vM.8h as an encoded instruction: assemblers differ in how it is enabled. */
#define BFMMLA(d, n, m) ".inst (0x6e40ec00 + (" #m " << 16) + (" #n " << 5) + " #d ")\n\t"
/* Four pairs of rows (v0 to v3) against the pair of columns in vM. */
#define COLUMNS(d0, d1, d2, d3, m) BFMMLA(d0, 0, m) BFMMLA(d1, 1, m) BFMMLA(d2, 2, m) BFMMLA(d3, 3, m)
#define ZERO(a, b, c, d) "movi v" #a ".4s, #0\n\tmovi v" #b ".4s, #0\n\tmovi v" #c ".4s, #0\n\tmovi v" #d ".4s, #0\n\t"
#define STORE(a, b, c, d) "stp q" #a ", q" #b ", [%[out]], #32\n\tstp q" #c ", q" #d ", [%[out]], #32\n\t"
#define ALL(each) \
    each(8, 9, 10, 11) each(12, 13, 14, 15) each(16, 17, 18, 19) each(20, 21, 22, 23) each(24, 25, 26, 27) \
        each(28, 29, 30, 31)

/* out [6,4,2,2]: pairs of columns, pairs of rows, the block. */
static void blocks(int64_t steps, const uint16_t *a, const uint16_t *b, float *out) {
    __asm__ volatile(ALL(ZERO) "1:\n\t"
                               "ldp q0, q1, [%[a]], #32\n\t"
                               "ldp q4, q5, [%[b]], #32\n\t"
                               "ldp q2, q3, [%[a]], #32\n\t"
                               "ldp q6, q7, [%[b]], #32\n\t" COLUMNS(8, 9, 10, 11, 4) COLUMNS(
                                   12, 13, 14, 15, 5) "ldp q4, q5, [%[b]], #32\n\t"
                                                      "subs %[steps], %[steps], #1\n\t" COLUMNS(16, 17, 18, 19, 6)
                                                          COLUMNS(20, 21, 22, 23, 7) COLUMNS(24, 25, 26, 27, 4)
                                                              COLUMNS(28, 29, 30, 31, 5) "b.ne 1b\n\t" ALL(STORE)
                     : [a] "+r"(a), [b] "+r"(b), [out] "+r"(out), [steps] "+r"(steps)
                     :
                     : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
                       "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",
                       "v29", "v30", "v31", "cc", "memory");
}

static void product(int64_t steps, const uint16_t *a, const uint16_t *b, float *c, int64_t ld, int add) {
    float block[BLOCKS * 4] = {0};
    if (steps > 0) blocks(steps, a, b, block);
    for (int i = 0; i < MR; i += 2)
        for (int j = 0; j < NR; j += 4) { /* two adjacent blocks are four columns of two rows */
            float64x2_t left = vreinterpretq_f64_f32(vld1q_f32(block + (j / 2 * 4 + i / 2) * 4));
            float64x2_t right = vreinterpretq_f64_f32(vld1q_f32(block + ((j / 2 + 1) * 4 + i / 2) * 4));
            float *upper = c + i * ld + j, *lower = upper + ld;
            float32x4_t above = vreinterpretq_f32_f64(vzip1q_f64(left, right));
            float32x4_t below = vreinterpretq_f32_f64(vzip2q_f64(left, right));
            vst1q_f32(upper, add ? vaddq_f32(vld1q_f32(upper), above) : above);
            vst1q_f32(lower, add ? vaddq_f32(vld1q_f32(lower), below) : below);
        }
}

/* Four numbers of which n exist. */
static inline uint16x4_t some(const uint16_t *from, int64_t n) {
    if (n >= 4) return vld1_u16(from);
    uint16_t part[4] = {0};
    for (int64_t i = 0; i < n; i++) part[i] = from[i];
    return vld1_u16(part);
}

/* to[padded / 4,width,4], rows */
static inline void rows(int width, const tri_half_panel *p, uint16_t *to) {
    for (int64_t at = 0; at < p->padded; at += GROUP)
        for (int i = 0; i < width; i++, to += GROUP)
            vst1_u16(to, some(p->from + i * p->ld + at, i < p->n ? p->k - at : 0));
}

/* to[padded / 4,width,4], columns */
static inline void columns(int width, const tri_half_panel *p, uint16_t *to) {
    for (int64_t at = 0; at < p->padded; at += GROUP)
        for (int i = 0; i < width; i += 4, to += 4 * GROUP) { /* st4 interleaves */
            const uint16_t *from = p->from + at * p->ld + i;
            uint16x4x4_t four;
            for (int u = 0; u < GROUP; u++) four.val[u] = some(from + u * p->ld, at + u < p->k ? p->n - i : 0);
            vst4_u16(to, four);
        }
}

static void pack_a_rows(const tri_half_panel *p, uint16_t *to) { rows(MR, p, to); }
static void pack_b_rows(const tri_half_panel *p, uint16_t *to) { rows(NR, p, to); }
static void pack_a_columns(const tri_half_panel *p, uint16_t *to) { columns(MR, p, to); }
static void pack_b_columns(const tri_half_panel *p, uint16_t *to) { columns(NR, p, to); }

const tri_half_product tri__half_product_bfmmla = {
    .name = "bfmmla", .mr = MR, .nr = NR, .a_group = GROUP, .b_group = GROUP, .step = GROUP, .k_block = 768,
    .run = product, .a_rows = pack_a_rows, .a_columns = pack_a_columns, .b_rows = pack_b_rows,
    .b_columns = pack_b_columns};

#endif
