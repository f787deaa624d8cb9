/* simd_product.h - the product kernel by vector extensions, where an instruction set brings none of its own: MR rows of
 * NV vectors stay in registers over all k. */
#ifndef TRI_SIMD_OWN_PRODUCT
/* Elements of a are `row` floats apart in a column, and `step` in a row. */
INLINE void product_any(int64_t k, const float *a, int64_t row, int64_t step, const float *b, const float *init, int64_t ld_init,
                        float *c, int64_t ld) {
    vf sum[MR][NV];
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
        for (int j = 0; j < NV; j++) sum[i][j] = init ? load(init + i * ld_init + j * VEC) : (vf){0};
    for (; k > 0; k--, a += step, b += NR) {
        vf b0 = load(b), b1 = load(b + VEC), b2 = load(b + 2 * VEC);
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++) {
            sum[i][0] += a[i * row] * b0;
            sum[i][1] += a[i * row] * b1;
            sum[i][2] += a[i * row] * b2;
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
        for (int j = 0; j < NV; j++) store(c + i * ld + j * VEC, sum[i][j]);
}

static void product(int64_t k, const float *a, const float *b, const float *init, int64_t ld_init, float *c, int64_t ld) {
    product_any(k, a, 1, MR, b, init, ld_init, c, ld);
}

static void product_rows(int64_t k, const float *a, int64_t ld_a, const float *b, const float *init, int64_t ld_init, float *c,
                         int64_t ld) {
    product_any(k, a, ld_a, 1, b, init, ld_init, c, ld);
}
#endif
