/* simd_activation.h - GELU by the normal distribution's tail, its derivative, and tanh. */

/* x Phi(x) = max(x, 0) - |x| Phi(-|x|): no cancellation on either side. */
static void gelu(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i += VEC) {
        vf v = get(x + i, n - i), bell, tail = vec_tail(v, &bell);
        put(y + i, n - i, vec_max((vf){0}, v) - vec_abs(v) * tail);
    }
}

static void gelu_din(int64_t n, const float *dy, const float *x, float *dx, int acc) {
    const float density = 0.398942280401432678f; /* 1 / sqrt(2 pi) */
    for (int64_t i = 0; i < n; i += VEC) {
        vf v = get(x + i, n - i), bell, tail = vec_tail(v, &bell);
        vi positive = v > 0;
        vf below = masked(1.0f - tail, positive) + masked(tail, ~positive); /* Phi(v) */
        vf gradient = get(dy + i, n - i) * (below + v * bell * density);
        if (acc) gradient += get(dx + i, n - i);
        put(dx + i, n - i, gradient);
    }
}

static void hyperbolic_tangent(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i += VEC) put(y + i, n - i, vec_tanh(get(x + i, n - i)));
}
