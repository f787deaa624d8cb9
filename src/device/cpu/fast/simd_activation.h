/* simd_activation.h - GELU by the normal distribution's tail, its derivative, and tanh. */

enum { AHEAD = 4 }; /* vectors at a time */

/* x Phi(x) = max(x, 0) - |x| Phi(-|x|): no cancellation on either side. */
INLINE void gelu_some(int64_t left, const float *x, float *y, int n) {
    vf v[MANY], bell[MANY], tail[MANY];
    EACH(j, n) v[j] = get(x + j * VEC, left - j * VEC);
    vec_tail(v, tail, bell, n);
    EACH(j, n) put(y + j * VEC, left - j * VEC, vec_max((vf){0}, v[j]) - vec_abs(v[j]) * tail[j]);
}

static void gelu(int64_t n, const float *x, float *y) {
    int64_t i = 0;
    for (; i + AHEAD * VEC <= n; i += AHEAD * VEC) gelu_some(AHEAD * VEC, x + i, y + i, AHEAD);
    for (; i < n; i += VEC) gelu_some(n - i, x + i, y + i, 1);
}

INLINE void gelu_din_some(int64_t left, const float *dy, const float *x, float *dx, int acc, int n) {
    const float density = 0.398942280401432678f; /* 1 / sqrt(2 pi) */
    vf v[MANY], bell[MANY], tail[MANY];
    EACH(j, n) v[j] = get(x + j * VEC, left - j * VEC);
    vec_tail(v, tail, bell, n);
    EACH(j, n) {
        vi positive = v[j] > 0;
        vf below = masked(1.0f - tail[j], positive) + masked(tail[j], ~positive); /* Phi */
        vf gradient = get(dy + j * VEC, left - j * VEC) * (below + v[j] * bell[j] * density);
        if (acc) gradient += get(dx + j * VEC, left - j * VEC);
        put(dx + j * VEC, left - j * VEC, gradient);
    }
}

static void gelu_din(int64_t n, const float *dy, const float *x, float *dx, int acc) {
    int64_t i = 0;
    for (; i + AHEAD * VEC <= n; i += AHEAD * VEC) gelu_din_some(AHEAD * VEC, dy + i, x + i, dx + i, acc, AHEAD);
    for (; i < n; i += VEC) gelu_din_some(n - i, dy + i, x + i, dx + i, acc, 1);
}

static void hyperbolic_tangent(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i += VEC) put(y + i, n - i, vec_tanh(get(x + i, n - i)));
}
