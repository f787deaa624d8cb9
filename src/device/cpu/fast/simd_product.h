/* simd_product.h - the product kernel by vector extensions, where an instruction set brings none of its own: MR rows of
 * NV vectors stay in registers over all k. */
#ifndef TRI_SIMD_OWN_PRODUCT
static void product(int64_t k, const float *a, const float *b, const float *init, int64_t ld_init, float *c, int64_t ld) {
    vf sum[MR][NV];
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
        for (int j = 0; j < NV; j++) sum[i][j] = init ? load(init + i * ld_init + j * VEC) : (vf){0};
    for (; k > 0; k--, a += MR, b += NR) {
        vf b0 = load(b), b1 = load(b + VEC), b2 = load(b + 2 * VEC);
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++) {
            sum[i][0] += a[i] * b0;
            sum[i][1] += a[i] * b1;
            sum[i][2] += a[i] * b2;
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
        for (int j = 0; j < NV; j++) store(c + i * ld + j * VEC, sum[i][j]);
}
#endif

#ifndef PRODUCT_ROWS
#define PRODUCT_ROWS NULL
#endif
