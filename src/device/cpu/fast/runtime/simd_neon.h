/* simd_neon.h - vectors for arm64, whose baseline is NEON. The product kernel is written in assembly:
 * compilers keep its 24 accumulators in registers but schedule them badly. Of 83 GFLOP/s per core, gcc 12 reaches 42
 * with the loop in C, clang 14 reaches 65, this 80. */
#pragma once

#include <arm_neon.h>

#define VEC 4
#define MR 8
#define HEAD_GROUP 4
#define TRI_SIMD_OWN_PRODUCT
/* See simd_product.h. */
enum { PACKED_ROWS = 256, PACKED_COLUMNS = 192, A_STAYS = 0, READS_ROWS = 0 };
/* The load names x as an input, so that compilers neither share it nor move it out of a loop. */
#define STEP_OF(p, x, c)                                                                                \
    ({                                                                                                  \
        static const float step_c[4] __attribute__((aligned(16))) = {c, c, c, c};                       \
        float32x4_t step_sum;                                                                           \
        __asm__("ldr %q0, %1" : "=w"(step_sum) : "m"(step_c), "w"(p));                                  \
        (vf)vfmaq_f32(step_sum, (float32x4_t)(p), (float32x4_t)(x));                                    \
    })
#include "device/cpu/fast/runtime/simd_vec.h"

static inline vf vec_sqrt(vf x) { return (vf)vsqrtq_f32((float32x4_t)x); }
/* NaN wins in both. */
static inline vf vec_max(vf limit, vf x) { return (vf)vmaxq_f32((float32x4_t)limit, (float32x4_t)x); }
static inline vf vec_min(vf limit, vf x) { return (vf)vminq_f32((float32x4_t)limit, (float32x4_t)x); }
static inline vi vec_max_i(vi a, vi b) { return (vi)vmaxq_s32((int32x4_t)a, (int32x4_t)b); }
static inline vd vec_low_double(vf x) { return (vd)vcvt_f64_f32(vget_low_f32((float32x4_t)x)); }
static inline vd vec_high_double(vf x) { return (vd)vcvt_high_f64_f32((float32x4_t)x); }
/* The high and low halves of the 64-bit products. */
static inline void vec_mul_wide(vu x, uint32_t factor, vu *high, vu *low) {
    uint32x4_t a = (uint32x4_t)x, f = vdupq_n_u32(factor);
    uint32x4_t even = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(a), vget_low_u32(f)));
    uint32x4_t odd = vreinterpretq_u32_u64(vmull_high_u32(a, f));
    *low = (vu)vuzp1q_u32(even, odd);
    *high = (vu)vuzp2q_u32(even, odd);
}
/* Interleaves in groups of 128 bits, like the x86 instructions of these names. */
static inline vu vec_unpack_low32(vu a, vu b) { return (vu)vzip1q_u32((uint32x4_t)a, (uint32x4_t)b); }
static inline vu vec_unpack_high32(vu a, vu b) { return (vu)vzip2q_u32((uint32x4_t)a, (uint32x4_t)b); }
static inline vu vec_unpack_low64(vu a, vu b) { return (vu)vzip1q_u64((uint64x2_t)a, (uint64x2_t)b); }
static inline vu vec_unpack_high64(vu a, vu b) { return (vu)vzip2q_u64((uint64x2_t)a, (uint64x2_t)b); }

/* Row i of the tile is in v(8 + 3 i) to v(10 + 3 i). */
#define ZERO(v0, v1, v2) \
    "movi v" #v0 ".4s, #0\n\tmovi v" #v1 ".4s, #0\n\tmovi v" #v2 ".4s, #0\n\t"
#define ADD(v0, v1, v2)                                                                                 \
    "ldp q0, q1, [%[init]]\n\tldr q2, [%[init], #32]\n\tadd %[init], %[init], %[init_bytes]\n\t"        \
    "fadd v" #v0 ".4s, v" #v0 ".4s, v0.4s\n\tfadd v" #v1 ".4s, v" #v1 ".4s, v1.4s\n\t"                  \
    "fadd v" #v2 ".4s, v" #v2 ".4s, v2.4s\n\t"
#define STORE(v0, v1, v2) \
    "stp q" #v0 ", q" #v1 ", [%[c]]\n\tstr q" #v2 ", [%[c], #32]\n\tadd %[c], %[c], %[c_bytes]\n\t"
#define TILE(row)                                                                                       \
    row(8, 9, 10) row(11, 12, 13) row(14, 15, 16) row(17, 18, 19) row(20, 21, 22) row(23, 24, 25)       \
    row(26, 27, 28) row(29, 30, 31)
#define FMLA(acc, b, a, lane) "fmla v" #acc ".4s, v" #b ".4s, v" #a ".s[" #lane "]\n\t"
/* One of three columns: its 8 rows, then its B vector of the next step. */
#define COLUMN(c0, c1, c2, c3, c4, c5, c6, c7, b, a0, a1, between)                                      \
    FMLA(c0, b, a0, 0) FMLA(c1, b, a0, 1) FMLA(c2, b, a0, 2) FMLA(c3, b, a0, 3) between                 \
    FMLA(c4, b, a1, 0) FMLA(c5, b, a1, 1) FMLA(c6, b, a1, 2) FMLA(c7, b, a1, 3)                         \
    "ldr q" #b ", [%[b]], #16\n\t"
#define STEP(a0, a1, next0, next1)                                                                      \
    COLUMN(8, 11, 14, 17, 20, 23, 26, 29, 2, a0, a1, "ldp q" #next0 ", q" #next1 ", [%[a]], #32\n\t")   \
    COLUMN(9, 12, 15, 18, 21, 24, 27, 30, 3, a0, a1, "") COLUMN(10, 13, 16, 19, 22, 25, 28, 31, 4, a0, a1, "")

/* Prefetches rows of c while the sums run, unless they are contiguous in a small buffer. */
static void product(int64_t k, const float *a, const float *b, const float *init, int64_t ld_init, float *c,
                    int64_t ld) {
    int64_t init_bytes = ld_init * 4, c_bytes = ld * 4, steps = k / TRI_KERNEL_STEP;
    for (int i = 0; ld != NR && i < MR; i++) {
        __builtin_prefetch(c + i * ld, 1);
        __builtin_prefetch(c + i * ld + NR - 1, 1);
    }
    __asm__ volatile("ldp q0, q1, [%[a]], #32\n\t"
                     "ldp q2, q3, [%[b]], #32\n\t"
                     "ldr q4, [%[b]], #16\n\t" TILE(
                         ZERO) "cbz %[steps], 2f\n\t"
                               "1:\n\t" STEP(0, 1, 5, 6)
                                   STEP(5, 6, 0, 1) "subs %[steps], %[steps], #1\n\t" STEP(0, 1, 5, 6)
                                       STEP(5, 6, 0, 1) "b.ne 1b\n\t"
                                                        "2:\n\t"
                                                        "cbz %[init], 3f\n\t" TILE(ADD) "3:\n\t" TILE(STORE)
                     : [a] "+r"(a), [b] "+r"(b), [init] "+r"(init), [c] "+r"(c), [steps] "+r"(steps)
                     : [init_bytes] "r"(init_bytes), [c_bytes] "r"(c_bytes)
                     : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
                       "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",
                       "v30", "v31", "cc", "memory");
}

/* 16 numbers, rounded to nearest, ties to even; NaN to 0. Narrowing saturates. */
#define TRI_SIMD_OWN_INT8
INLINE int32x4_t nearest(const float *x, float inverse) { return vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x), inverse)); }
INLINE void quantize_some(const float *x, float inverse, int8_t *q) {
    int16x8_t low = vqmovn_high_s32(vqmovn_s32(nearest(x, inverse)), nearest(x + 4, inverse));
    int16x8_t high = vqmovn_high_s32(vqmovn_s32(nearest(x + 8, inverse)), nearest(x + 12, inverse));
    vst1q_s8(q, vmaxq_s8(vdupq_n_s8(-127), vqmovn_high_s16(vqmovn_s16(low), high)));
}

#define TRI_SIMD_OWN_CODED
#include "device/cpu/fast/update/simd_coded_neon.h"
