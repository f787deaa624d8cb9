/* simd_norm.h - layer normalisation (Ba et al., 2016) of rows, with the preceding dropout and residual, in both
 * directions. A row stays in the L1 cache and is read from memory only once. Sums use four accumulators. */
#pragma once

#include "device/cpu/fast/elementwise/simd_drop.h"

/* y = norm(dropout(x) + res) */
typedef struct tri_norm_rows {
    tri_drop drop;
    float factor;          /* of x, before dropout; read with res alone */
    int64_t h;
    const float *x, *res;  /* [T,h]; res NULL: none */
    const float *g, *b;    /* [h]; b NULL: none */
    float *y;              /* [T,h] */
    float *xhat, *rstd;    /* [T,h], [T]; may be NULL */
    float eps;
} tri_norm_rows;

/* dres = the gradient before the norm; dx = dropout of it, times a factor; each if not NULL */
typedef struct tri_norm_din {
    tri_drop drop;
    float factor;                /* of dx; read with it alone */
    int64_t h;
    const float *dy, *xhat;      /* [T,h] */
    const float *rstd, *g;       /* [T], [h] */
    float *dx, *dres;            /* [T,h]; may be NULL */
    int acc_dx, acc_dres;
} tri_norm_din;

/* sum_i x[i], or of (x[i] - mean)^2 */
INLINE float row_sum(const float *x, int64_t h, float mean, int squared) {
    vf sum[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * VEC <= h; i += 4 * VEC)
#pragma GCC unroll 4
        for (int u = 0; u < 4; u++) {
            vf v = load(x + i + u * VEC) - mean;
            sum[u] += squared ? v * v : v;
        }
    for (; i < h; i += VEC) {
        vf v = existing(get(x + i, h - i) - mean, h - i);
        sum[0] += squared ? v * v : v;
    }
    return sum_of((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* z = dropout(factor * x) + res for row t */
INLINE void residual_row(const tri_norm_rows *n, const philox_keys *keys, int64_t t, float *z,
                         uint16_t decision[SPAN + 8 * VEC]) {
    for (int64_t begin = 0, end; begin < n->h; begin = end) {
        end = decide_span(&n->drop, keys, t, n->h, begin, decision);
        const float *x = n->x + t * n->h + begin, *res = n->res + t * n->h + begin;
        BY_VECTORS(end - begin, put(z + begin + i, left,
                                    get(res + i, left) + masked(get(x + i, left) * n->factor * n->drop.scale,
                                                                kept(decision + i, n->drop.threshold))));
    }
}

INLINE void norm_some(int64_t left, const float *z, float mean, float rstd, const float *g, const float *b, float *xhat,
                      float *y) {
    vf v = (get(z, left) - mean) * rstd;
    if (xhat) put(xhat, left, v);
    put(y, left, b ? v * get(g, left) + get(b, left) : v * get(g, left));
}

SIMD void simd_norm(const tri_norm_rows *n, int64_t t0, int64_t t1) {
    int64_t h = n->h;
    uint16_t decision[SPAN + 8 * VEC] = {0}; /* threshold 0 keeps all */
    philox_keys keys = keys_of(&n->drop);
    for (int64_t t = t0; t < t1; t++) {
        float *y = n->y + t * h, *xhat = n->xhat ? n->xhat + t * h : NULL;
        const float *z = n->x + t * h;
        if (n->res) {
            residual_row(n, &keys, t, y, decision);
            z = y;
        }
        float mean = row_sum(z, h, 0, 0) / (float)h;
        float rstd = 1.0f / sqrtf(row_sum(z, h, mean, 1) / (float)h + n->eps);
        if (n->rstd) n->rstd[t] = rstd;
        BY_VECTORS(h,
                   norm_some(left, z + i, mean, rstd, n->g + i, n->b ? n->b + i : NULL, xhat ? xhat + i : NULL, y + i));
    }
}

/* sum_i dy g and sum_i dy g xhat */
INLINE void gradient_sums(const float *dy, const float *xhat, const float *g, int64_t h, float *sum, float *dot) {
    vf s[4] = {{0}}, d[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * VEC <= h; i += 4 * VEC)
#pragma GCC unroll 4
        for (int u = 0; u < 4; u++) {
            vf v = load(dy + i + u * VEC) * load(g + i + u * VEC);
            s[u] += v;
            d[u] += v * load(xhat + i + u * VEC);
        }
    for (; i < h; i += VEC) {
        vf v = get(dy + i, h - i) * get(g + i, h - i);
        s[0] += v;
        d[0] += v * get(xhat + i, h - i);
    }
    *sum = sum_of((s[0] + s[1]) + (s[2] + s[3]));
    *dot = sum_of((d[0] + d[1]) + (d[2] + d[3]));
}

/* Features from i of row t, given the row's two means; decisions begin at feature i. */
INLINE void gradient_some(const tri_norm_din *n, int64_t left, int64_t t, int64_t i, float sum, float dot,
                          const uint16_t *decision) {
    int64_t at = t * n->h + i;
    vf v = (get(n->dy + at, left) * get(n->g + i, left) - sum - get(n->xhat + at, left) * dot) * n->rstd[t];
    if (n->dx) {
        vf dropped = masked(v * n->drop.scale, kept(decision, n->drop.threshold)) * n->factor;
        if (n->acc_dx) dropped += get(n->dx + at, left);
        put(n->dx + at, left, dropped);
    }
    if (!n->dres) return;
    if (n->acc_dres) v += get(n->dres + at, left);
    put(n->dres + at, left, v);
}

SIMD void simd_norm_din(const tri_norm_din *n, int64_t t0, int64_t t1) {
    int64_t h = n->h;
    uint16_t decision[SPAN + 8 * VEC] = {0}; /* threshold 0 keeps all */
    philox_keys keys = keys_of(&n->drop);
    for (int64_t t = t0; t < t1; t++) {
        float sum, dot;
        gradient_sums(n->dy + t * h, n->xhat + t * h, n->g, h, &sum, &dot);
        sum /= (float)h, dot /= (float)h;
        for (int64_t begin = 0, end; begin < h; begin = end) {
            end = decide_span(&n->drop, &keys, t, h, begin, decision);
            BY_VECTORS(end - begin, gradient_some(n, left, t, begin + i, sum, dot, decision + i));
        }
    }
}

/* Adds `rows` rows of h to the sums, in order. */
INLINE void column_sums_some(int rows, int64_t h, const float *dy, const float *xhat, double *sum, double *dot) {
    int64_t i = 0;
    for (; i + VEC <= h; i += VEC) {
        vd low = load_d(sum + i), high = load_d(sum + i + VEC / 2), low_dot = {0}, high_dot = {0};
        if (xhat) low_dot = load_d(dot + i), high_dot = load_d(dot + i + VEC / 2);
#pragma GCC unroll 8
        for (int t = 0; t < rows; t++) {
            vf v = load(dy + t * h + i);
            vd v_low = vec_low_double(v), v_high = vec_high_double(v);
            low += v_low, high += v_high;
            if (!xhat) continue;
            vf w = load(xhat + t * h + i);
            low_dot += v_low * vec_low_double(w), high_dot += v_high * vec_high_double(w);
        }
        store_d(sum + i, low), store_d(sum + i + VEC / 2, high);
        if (xhat) store_d(dot + i, low_dot), store_d(dot + i + VEC / 2, high_dot);
    }
    for (; i < h; i++)
        for (int t = 0; t < rows; t++) {
            double v = dy[t * h + i];
            sum[i] += v;
            if (xhat) dot[i] += v * xhat[t * h + i];
        }
}

/* sum[j] = sum_t dy[t,j], in order of t; with xhat also dot[j] = sum_t dy[t,j] xhat[t,j]; add: accumulate */
SIMD void simd_column_sums(int64_t t0, int64_t t1, int64_t h, const float *dy, const float *xhat, double *sum,
                           double *dot, int add) {
    int64_t t = t0;
    if (!add) memset(sum, 0, (size_t)h * sizeof *sum);
    if (!add && xhat) memset(dot, 0, (size_t)h * sizeof *dot);
    for (; t + 8 <= t1; t += 8)
        if (xhat)
            column_sums_some(8, h, dy + t * h, xhat + t * h, sum, dot);
        else
            column_sums_some(8, h, dy + t * h, NULL, sum, NULL);
    for (; t < t1; t++) column_sums_some(1, h, dy + t * h, xhat ? xhat + t * h : NULL, sum, dot);
}
