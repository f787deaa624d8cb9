/* product_int8_sdot.c - the int8 product kernel for arm64 with SDOT (dotprod), which adds four products to each of four
 * sums. A sum of the result is four partial sums over k until its end, so rows of both matrices are read in place, 16
 * numbers at a time: 4 rows by 4 columns in 16 registers. In assembly for the reason given in product_bfmmla.c. */
#if defined(__aarch64__)

#include "device/cpu/fast/product/gemm_int8.h"

#include <arm_neon.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { SIDE = 4, STEP = 16 };

/* sdot vD.4s, vN.16b, vM.16b as an encoded instruction: assemblers differ in how it is enabled. */
#define SDOT(d, n, m) ".inst (0x4e809400 + (" #m " << 16) + (" #n " << 5) + " #d ")\n\t"
/* The four rows (v0 to v3) against the column in vM. Row i, column j is in v(16 + 4 i + j). */
#define COLUMN(d0, d1, d2, d3, m) SDOT(d0, 0, m) SDOT(d1, 1, m) SDOT(d2, 2, m) SDOT(d3, 3, m)
#define ZERO(a, b, c, d) "movi v" #a ".4s, #0\n\tmovi v" #b ".4s, #0\n\tmovi v" #c ".4s, #0\n\tmovi v" #d ".4s, #0\n\t"
#define LOAD(v, from) "ldr q" #v ", [%[" #from "], %[at]]\n\t"
/* The four columns of a row, side by side. */
#define JOIN(a, b, c, d)                                                                                        \
    "addp v" #a ".4s, v" #a ".4s, v" #b ".4s\n\taddp v" #c ".4s, v" #c ".4s, v" #d ".4s\n\t"                    \
    "addp v" #a ".4s, v" #a ".4s, v" #c ".4s\n\t"
#define ALL(each) each(16, 17, 18, 19) each(20, 21, 22, 23) each(24, 25, 26, 27) each(28, 29, 30, 31)

/* row [SIDE] of sums, for k a multiple of STEP; prefetches from `next` on with a stride in bytes, and returns where it
 * stopped. */
INLINE const int8_t *sums(int64_t k, const int8_t *const a[], const int8_t *const b[], int32x4_t row[SIDE],
                          const int8_t *next, int64_t stride) {
    register int32x4_t r0 __asm__("v16"), r1 __asm__("v20"), r2 __asm__("v24"), r3 __asm__("v28");
    int64_t at = 0;
    __asm__ volatile(ALL(ZERO) "cbz %[k], 2f\n\t"
                               "1:\n\t" LOAD(0, a0) LOAD(4, b0) LOAD(1, a1) LOAD(2, a2) LOAD(3, a3) LOAD(5, b1)
                         COLUMN(16, 20, 24, 28, 4) LOAD(6, b2) COLUMN(17, 21, 25, 29, 5) LOAD(7, b3)
                     "prfm pldl1keep, [%[next]]\n\t"
                     "add %[next], %[next], %[stride]\n\t"
                     "add %[at], %[at], #16\n\t"
                     "cmp %[at], %[k]\n\t" COLUMN(18, 22, 26, 30, 6) COLUMN(19, 23, 27, 31, 7)
                     "b.lt 1b\n\t"
                     "2:\n\t" ALL(JOIN)
                     : [at] "+r"(at), [next] "+r"(next), "=w"(r0), "=w"(r1), "=w"(r2), "=w"(r3)
                     : [k] "r"(k), [a0] "r"(a[0]), [a1] "r"(a[1]), [a2] "r"(a[2]), [a3] "r"(a[3]), [b0] "r"(b[0]),
                       [b1] "r"(b[1]), [b2] "r"(b[2]), [b3] "r"(b[3]), [stride] "r"(stride)
                     : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v17", "v18", "v19", "v21", "v22", "v23", "v25",
                       "v26", "v27", "v29", "v30", "v31", "cc", "memory");
    row[0] = r0, row[1] = r1, row[2] = r2, row[3] = r3;
    return next;
}

/* The last numbers of each row, fewer than a step. */
static void add_rest(int64_t n, const int8_t *const a[], const int8_t *const b[], int64_t at,
                                               int32x4_t row[SIDE]) {
    int8_t rest[2 * SIDE][STEP] = {{0}};
    int32x4_t more[SIDE];
    const int8_t *rows[2 * SIDE];
    for (int i = 0; i < 2 * SIDE; i++) rows[i] = memcpy(rest[i], (i < SIDE ? a[i] : b[i - SIDE]) + at, (size_t)n);
    sums(STEP, rows, rows + SIDE, more, rest[0], 0);
    for (int i = 0; i < SIDE; i++) row[i] = vaddq_s32(row[i], more[i]);
}

INLINE void store(float *y, int32x4_t sum, float32x4_t factor, float32x4_t bias) {
    float32x4_t value = vmulq_f32(vcvtq_f32_s32(sum), factor);
    __asm__("" : "+w"(value)); /* rounded: not contracted with the sum */
    vst1q_f32(y, vaddq_f32(value, bias));
}

static void product(const tri_int8_rows *what) {
    int64_t whole = what->k / STEP * STEP, rest = what->k - whole, steps = whole / STEP * (what->rows / SIDE);
    int64_t stride = steps ? SIDE * what->k / steps : 0; /* of prefetches, one a step */
    const int8_t *next = what->next;
    float32x4_t scale = vld1q_f32(what->b_scale), bias = vld1q_f32(what->bias);
    const float *a_scale = what->a_scale;
    const int8_t *const *a = what->a;
    float *y = what->y;
    int64_t ld = what->ld;
    for (int64_t left = what->rows; left > 0; left -= SIDE, a += SIDE, a_scale += SIDE, y += SIDE * ld) {
        int32x4_t row[SIDE];
        next = sums(whole, a, what->b, row, next, stride);
        if (rest) add_rest(rest, a, what->b, whole, row);
        float32x4_t factor = vld1q_f32(a_scale);
        store(y, row[0], vmulq_laneq_f32(scale, factor, 0), bias);
        store(y + ld, row[1], vmulq_laneq_f32(scale, factor, 1), bias);
        store(y + 2 * ld, row[2], vmulq_laneq_f32(scale, factor, 2), bias);
        store(y + 3 * ld, row[3], vmulq_laneq_f32(scale, factor, 3), bias);
    }
}

const tri_int8_product tri__int8_product_sdot = {.name = "sdot", .mr = SIDE, .nr = SIDE, .in_place = product};

#endif
