/* simd_product.h - the product kernel by vector extensions, for instruction sets without their own: MR rows of NV
 * vectors stay in registers over all k. Attention's kernel has HV vectors. */
#pragma once

#include "device/cpu/fast/runtime/simd.h"

/* Elements of a have stride `row` floats within a column, and `step` within a row; nv vectors, at most NV. */
INLINE void product_any(int nv, int64_t k, const float *a, int64_t row, int64_t step, const float *b, const float *init,
                        int64_t ld_init, float *c, int64_t ld) {
    vf sum[MR][NV];
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
        for (int j = 0; j < nv; j++) sum[i][j] = init ? load(init + i * ld_init + j * VEC) : (vf){0};
    for (; k > 0; k--, a += step, b += nv * VEC) {
        vf column[NV];
#pragma GCC unroll 3
        for (int j = 0; j < nv; j++) column[j] = load(b + j * VEC);
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
            for (int j = 0; j < nv; j++) sum[i][j] += a[i * row] * column[j];
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
        for (int j = 0; j < nv; j++) store(c + i * ld + j * VEC, sum[i][j]);
}

/* Each instruction set says of large products: how many rows and columns of the result are computed together, from
 * panels in the L2 cache (PACKED_ROWS, PACKED_COLUMNS); whether a panel of A stays in the L1 cache or one of B
 * (A_STAYS); whether rows of A may be read in place (READS_ROWS). */

#ifndef TRI_SIMD_OWN_PRODUCT
/* c[i,j] = init[i,j] + sum_k a[k,i] b[k,j]: a [k,MR] and b [k,NR] are packed; rows of init, which may be NULL, and of c
 * have strides ld_init and ld floats. */
static void product(int64_t k, const float *a, const float *b, const float *init, int64_t ld_init, float *c,
                    int64_t ld) {
    product_any(NV, k, a, 1, MR, b, init, ld_init, c, ld);
}
#endif

#ifndef TRI_SIMD_OWN_PRODUCT_ROWS
/* The same with rows of a [MR,k] in place, with stride ld_a floats. */
static void product_rows(int64_t k, const float *a, int64_t ld_a, const float *b, const float *init, int64_t ld_init,
                         float *c, int64_t ld) {
    product_any(NV, k, a, ld_a, 1, b, init, ld_init, c, ld);
}
#endif

/* Attention's kernel, with HV vectors: as `product`. */
static void product_tile(int64_t k, const float *a, const float *b, const float *init, int64_t ld_init, float *c,
                         int64_t ld) {
#if HEAD_VECTORS == 3
    product(k, a, b, init, ld_init, c, ld);
#else
    product_any(HV, k, a, 1, MR, b, init, ld_init, c, ld);
#endif
}

/* The same where rows of init, which may be NULL, and of c are HR floats. */
static void product_head(int64_t k, const float *a, const float *b, const float *init, float *c) {
    product_tile(k, a, b, init, HR, c, HR);
}
