/* simd_update.h - the end of a step: sums of squares, and AdamW (Loshchilov and Hutter, 2019). */

static double sumsq(int64_t n, const float *x) {
    vd low[2] = {{0}}, high[2] = {{0}};
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC)
#pragma GCC unroll 2
        for (int u = 0; u < 2; u++) {
            vf v = load(x + i + u * VEC);
            vd v_low = vec_low_double(v), v_high = vec_high_double(v);
            low[u] += v_low * v_low;
            high[u] += v_high * v_high;
        }
    double sum = 0, part[VEC / 2];
    store_d(part, (low[0] + low[1]) + (high[0] + high[1]));
    for (int u = 0; u < VEC / 2; u++) sum += part[u];
    for (; i < n; i++) sum += (double)x[i] * x[i];
    return sum;
}

static void adamw(const tri_adamw *a, int64_t n) {
    float decayed = (float)(1 - (double)a->lr * a->decay), rate = a->lr / a->c1, inverse = 1 / sqrtf(a->c2);
    float fresh1 = (float)(1 - (double)a->beta1), fresh2 = (float)(1 - (double)a->beta2), coef = a->coef, eps = a->eps;
    BY_VECTORS(n, {
        vf g = get(a->g + i, left) * coef;
        vf m = get(a->m + i, left) * a->beta1 + g * fresh1;
        vf v = get(a->v + i, left) * a->beta2 + g * g * fresh2;
        vf p = get(a->p + i, left) * decayed;
        put(a->m + i, left, m);
        put(a->v + i, left, v);
        put(a->p + i, left, p - rate * m / (vec_sqrt(v) * inverse + eps));
    });
}
