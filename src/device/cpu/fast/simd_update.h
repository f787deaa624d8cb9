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

/* Whole vectors only. A separate function, so that the compiler fuses products and sums in one way: an element's new
 * value must not depend on where a shard begins or ends. */
static __attribute__((noinline)) void adamw_whole(const tri_adamw *a, int64_t n) {
    float decayed = (float)(1 - (double)a->lr * a->decay), rate = a->lr / a->c1, inverse = 1 / sqrtf(a->c2);
    float fresh1 = (float)(1 - (double)a->beta1), fresh2 = (float)(1 - (double)a->beta2), coef = a->coef, eps = a->eps;
    for (int64_t i = 0; i < n; i += VEC) {
        vf g = load(a->g + i) * coef;
        vf m = load(a->m + i) * a->beta1 + g * fresh1;
        vf v = load(a->v + i) * a->beta2 + g * g * fresh2;
        vf p = load(a->p + i) * decayed;
        store(a->m + i, m);
        store(a->v + i, v);
        store(a->p + i, p - rate * m / (vec_sqrt(v) * inverse + eps));
    }
}

static void adamw(const tri_adamw *a, int64_t n) {
    int64_t whole = n / VEC * VEC;
    adamw_whole(a, whole);
    if (whole == n) return;
    float p[VEC] = {0}, m[VEC] = {0}, v[VEC] = {0}, g[VEC] = {0};
    size_t bytes = (size_t)(n - whole) * sizeof(float);
    tri_adamw rest = *a;
    rest.p = memcpy(p, a->p + whole, bytes), rest.m = memcpy(m, a->m + whole, bytes),
    rest.v = memcpy(v, a->v + whole, bytes);
    rest.g = memcpy(g, a->g + whole, bytes);
    adamw_whole(&rest, VEC);
    memcpy(a->p + whole, p, bytes), memcpy(a->m + whole, m, bytes), memcpy(a->v + whole, v, bytes);
}
