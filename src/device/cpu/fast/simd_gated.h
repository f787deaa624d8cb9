/* simd_gated.h - gated activations: y = f(a) * b for each of the activations, and the gradients of a and b. */

/* 1 / (1 + 2^-z) */
INLINE void vec_logistic(vf *z, int n) {
    EACH(j, n) z[j] = vec_min(all(126.0f), -z[j]);
    vec_exp2(z, n);
    EACH(j, n) z[j] = 1.0f / (1.0f + z[j]);
}

/* f(x) and its slope at x; slope NULL: not computed. act is a constant wherever this is called. */
INLINE void activate(tri_activation act, const vf *x, vf *value, vf *slope, int n) {
    const float density = 0.398942280401432678f;       /* 1 / sqrt(2 pi) */
    const float factor = 1.59576912160573071f, cubic = 0.044715f; /* 2 sqrt(2 / pi) */
    vf s[MANY], bell[MANY];
    switch (act) {
    case TRI_ACTIVATION_GELU:
        vec_tail(x, s, bell, n);
        EACH(j, n) {
            value[j] = vec_max((vf){0}, x[j]) - vec_abs(x[j]) * s[j];
            if (!slope) continue;
            vi positive = x[j] > 0;
            slope[j] = masked(1.0f - s[j], positive) + masked(s[j], ~positive) + x[j] * bell[j] * density;
        }
        return;
    case TRI_ACTIVATION_GELU_TANH:
        EACH(j, n) s[j] = (x[j] * x[j] * cubic + 1.0f) * x[j] * (factor * log2_e);
        vec_logistic(s, n);
        EACH(j, n) {
            value[j] = x[j] * s[j];
            if (slope) slope[j] = s[j] + value[j] * (1.0f - s[j]) * (x[j] * x[j] * (3 * cubic) + 1.0f) * factor;
        }
        return;
    case TRI_ACTIVATION_RELU:
        EACH(j, n) {
            value[j] = vec_max((vf){0}, x[j]);
            if (slope) slope[j] = masked(all(1.0f), x[j] > 0);
        }
        return;
    case TRI_ACTIVATION_SILU:
        EACH(j, n) s[j] = x[j] * log2_e;
        vec_logistic(s, n);
        EACH(j, n) {
            value[j] = x[j] * s[j];
            if (slope) slope[j] = s[j] * (1.0f + x[j] * (1.0f - s[j]));
        }
    }
}

INLINE void gated_some(tri_activation act, int64_t left, const float *a, const float *b, float *y, int n) {
    vf x[MANY], value[MANY];
    EACH(j, n) x[j] = get(a + j * VEC, left - j * VEC);
    activate(act, x, value, NULL, n);
    EACH(j, n) put(y + j * VEC, left - j * VEC, value[j] * get(b + j * VEC, left - j * VEC));
}

INLINE void put_sum(float *to, int64_t left, vf v, int acc) { put(to, left, acc ? v + get(to, left) : v); }

INLINE void gated_din_some(tri_activation act, const tri_gated_din *g, int64_t i, int64_t left, int n) {
    vf x[MANY], value[MANY], slope[MANY];
    EACH(j, n) x[j] = get(g->a + i + j * VEC, left - j * VEC);
    activate(act, x, value, slope, n);
    EACH(j, n) {
        int64_t at = i + j * VEC, rest = left - j * VEC;
        vf dy = get(g->dy + at, rest);
        put_sum(g->da + at, rest, dy * slope[j] * get(g->b + at, rest), g->acc);
        put_sum(g->db + at, rest, dy * value[j], g->acc);
    }
}

enum { GATED_AHEAD = 3 }; /* vectors at a time */

#define GATED(name, act)                                                                                               \
    static void gated_##name(int64_t n, const float *a, const float *b, float *y) {                                    \
        int64_t i = 0;                                                                                                 \
        for (; i + GATED_AHEAD * VEC <= n; i += GATED_AHEAD * VEC)                                                     \
            gated_some(act, GATED_AHEAD * VEC, a + i, b + i, y + i, GATED_AHEAD);                                      \
        for (; i < n; i += VEC) gated_some(act, n - i, a + i, b + i, y + i, 1);                                        \
    }                                                                                                                  \
    static void gated_##name##_din(const tri_gated_din *g) {                                                           \
        int64_t i = 0;                                                                                                 \
        for (; i + GATED_AHEAD * VEC <= g->n; i += GATED_AHEAD * VEC)                                                  \
            gated_din_some(act, g, i, GATED_AHEAD * VEC, GATED_AHEAD);                                                 \
        for (; i < g->n; i += VEC) gated_din_some(act, g, i, g->n - i, 1);                                             \
    }
GATED(gelu, TRI_ACTIVATION_GELU)
GATED(gelu_tanh, TRI_ACTIVATION_GELU_TANH)
GATED(relu, TRI_ACTIVATION_RELU)
GATED(silu, TRI_ACTIVATION_SILU)
#undef GATED
