/* simd_optimizer.h - the optimizers' elements. A function whose name ends in _whole takes whole vectors only, and is
 * not inlined, so that the compiler fuses products and sums in one way: an element's new value must not depend on where
 * a shard begins or ends. */
#pragma once

#include "device/cpu/fast/runtime/simd.h"

/* A run of weights that an optimizer updates. What one does not use is NULL, or not read. */
typedef struct tri_update_run {
    float *p, *m, *v;
    const float *g;              /* [n] each */
    float coef, lr, c1, c2, beta1, beta2, eps, decay;
    int nesterov;                /* sgd */
    float ratio;                 /* lamb_step */
    double *sums;                /* lamb_moments: [2], of p^2 and r^2, added to; may be NULL */
    float *fresh, c;             /* lamb_refresh: [n], and its correction; g is the momentum of the step before. sums:
                                    [4], of r^2, (r + decay * p)^2, p^2, added to; the largest, if it is larger */
} tri_update_run;

typedef void whole_vectors(const tri_update_run *a, int64_t n);

/* Runs `whole` on n elements; the last ones, fewer than a vector, are copied and filled up with zeros. */
static void by_vectors(const tri_update_run *a, int64_t n, whole_vectors *whole) {
    int64_t done = n / VEC * VEC;
    whole(a, done);
    if (done == n) return;
    float p[VEC] = {0}, m[VEC] = {0}, v[VEC] = {0}, g[VEC] = {0};
    size_t bytes = (size_t)(n - done) * sizeof(float);
    tri_update_run rest = *a;
    if (a->p) rest.p = memcpy(p, a->p + done, bytes);
    if (a->m) rest.m = memcpy(m, a->m + done, bytes);
    if (a->v) rest.v = memcpy(v, a->v + done, bytes);
    if (a->g) rest.g = memcpy(g, a->g + done, bytes);
    whole(&rest, VEC);
    if (a->p) memcpy(a->p + done, p, bytes);
    if (a->m) memcpy(a->m + done, m, bytes);
    if (a->v) memcpy(a->v + done, v, bytes);
}

static __attribute__((noinline)) void adamw_whole(const tri_update_run *a, int64_t n) {
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

SIMD void simd_adamw(const tri_update_run *a, int64_t n) { by_vectors(a, n, adamw_whole); }

static __attribute__((noinline)) void adam_whole(const tri_update_run *a, int64_t n) {
    float rate = a->lr / a->c1, inverse = 1 / sqrtf(a->c2), coef = a->coef, eps = a->eps, decay = a->decay;
    float fresh1 = (float)(1 - (double)a->beta1), fresh2 = (float)(1 - (double)a->beta2);
    for (int64_t i = 0; i < n; i += VEC) {
        vf p = load(a->p + i);
        vf g = load(a->g + i) * coef + p * decay;
        vf m = load(a->m + i) * a->beta1 + g * fresh1;
        vf v = load(a->v + i) * a->beta2 + g * g * fresh2;
        store(a->m + i, m);
        store(a->v + i, v);
        store(a->p + i, p - rate * m / (vec_sqrt(v) * inverse + eps));
    }
}

SIMD void simd_adam(const tri_update_run *a, int64_t n) { by_vectors(a, n, adam_whole); }

static __attribute__((noinline)) void sgd_whole(const tri_update_run *a, int64_t n) {
    float lr = a->lr, coef = a->coef, decay = a->decay, beta = a->beta1;
    for (int64_t i = 0; i < n; i += VEC) {
        vf p = load(a->p + i);
        vf g = load(a->g + i) * coef + p * decay;
        store(a->p + i, p - lr * g);
        if (!a->m) continue;
        vf m = load(a->m + i) * beta + g;
        store(a->m + i, m);
        store(a->p + i, p - lr * (a->nesterov ? g + beta * m : m));
    }
}

SIMD void simd_sgd(const tri_update_run *a, int64_t n) { by_vectors(a, n, sgd_whole); }

/* m / c1 / (sqrt(v / c2) + eps) + decay * p */
INLINE vf lamb_direction(const tri_update_run *a, float inverse, vf p, vf m, vf v) {
    return m / (a->c1 * (vec_sqrt(v) * inverse + a->eps)) + p * a->decay;
}

INLINE void add_squares(vd sums[2], vf x) {
    vd low = vec_low_double(x), high = vec_high_double(x);
    sums[0] += low * low;
    sums[1] += high * high;
}

/* Adds the squares of p and r to a->sums. */
static void lamb_sums(const tri_update_run *a, int64_t n) {
    float inverse = 1 / sqrtf(a->c2);
    vd sums[2][2] = {{{0}}};
    BY_VECTORS(n, vf p = get(a->p + i, left); vf m = get(a->m + i, left); vf v = get(a->v + i, left);
               add_squares(sums[0], p); add_squares(sums[1], lamb_direction(a, inverse, p, m, v)));
    for (int k = 0; k < 2; k++) {
        double part[VEC / 2];
        store_d(part, sums[k][0] + sums[k][1]);
        for (int u = 0; u < VEC / 2; u++) a->sums[k] += part[u];
    }
}

static __attribute__((noinline)) void lamb_moments_whole(const tri_update_run *a, int64_t n) {
    float fresh1 = (float)(1 - (double)a->beta1), fresh2 = (float)(1 - (double)a->beta2), coef = a->coef;
    for (int64_t i = 0; i < n; i += VEC) {
        vf g = load(a->g + i) * coef;
        store(a->m + i, load(a->m + i) * a->beta1 + g * fresh1);
        store(a->v + i, load(a->v + i) * a->beta2 + g * g * fresh2);
    }
}

/* g NULL: m and v stay; sums NULL: none are wanted. By pieces that stay in the first cache. */
SIMD void simd_lamb_moments(const tri_update_run *a, int64_t n) {
    enum { PIECE = 512 };
    for (int64_t i = 0; i < n; i += PIECE) {
        tri_update_run piece = *a;
        int64_t size = n - i < PIECE ? n - i : PIECE;
        piece.p += i, piece.m += i, piece.v += i;
        if (a->sums && !a->g) lamb_sums(&piece, size);
        if (!a->g) continue;
        tri_update_run moments = piece;
        moments.p = NULL, moments.g += i;
        by_vectors(&moments, size, lamb_moments_whole);
        if (a->sums) lamb_sums(&piece, size);
    }
}

static __attribute__((noinline)) void lamb_step_whole(const tri_update_run *a, int64_t n) {
    float inverse = 1 / sqrtf(a->c2), rate = a->lr * a->ratio;
    for (int64_t i = 0; i < n; i += VEC) {
        vf p = load(a->p + i);
        store(a->p + i, p - rate * lamb_direction(a, inverse, p, load(a->m + i), load(a->v + i)));
    }
}

SIMD void simd_lamb_step(const tri_update_run *a, int64_t n) { by_vectors(a, n, lamb_step_whole); }

/* m / (c1 * root), of a decoded momentum: within -1 and 1. */
INLINE vf frozen_direction(const tri_update_run *a, vf m, vf root) {
    return vec_min(all(1.0f), vec_max(all(-1.0f), m / (a->c1 * root)));
}

static __attribute__((noinline)) void lamb_frozen_whole(const tri_update_run *a, int64_t n) {
    float inverse = 1 / sqrtf(a->c2), rate = a->lr * a->ratio;
    for (int64_t i = 0; i < n; i += VEC) {
        vf p = load(a->p + i), root = vec_sqrt(load(a->v + i)) * inverse + a->eps;
        store(a->p + i, p - rate * (frozen_direction(a, load(a->m + i), root) + p * a->decay));
    }
}

SIMD void simd_lamb_frozen(const tri_update_run *a, int64_t n) { by_vectors(a, n, lamb_frozen_whole); }

/* The momentum's last gradient, (m - beta1 g) / (1 - beta1) with g the momentum before, enters the variance v. */
static __attribute__((noinline)) void refresh_whole(const tri_update_run *a, int64_t n) {
    float inverse = (float)(1 / (1 - (double)a->beta1)), fresh2 = (float)(1 - (double)a->beta2);
    for (int64_t i = 0; i < n; i += VEC) {
        vf g = (load(a->m + i) - load(a->g + i) * a->beta1) * inverse;
        store(a->v + i, load(a->v + i) * a->beta2 + g * g * fresh2);
    }
}

/* Adds to a->sums, as tri_update_run says. */
static void frozen_sums(const tri_update_run *a, int64_t n) {
    float inverse = 1 / sqrtf(a->c2), inverse_now = 1 / sqrtf(a->c);
    vd sums[3][2] = {{{0}}};
    vf top = {0};
    BY_VECTORS(n, vf p = get(a->p + i, left); vf m = get(a->m + i, left);
               vf root = vec_sqrt(get(a->v + i, left)) * inverse + a->eps;
               vf now = vec_sqrt(get(a->fresh + i, left)) * inverse_now + a->eps; vf r = frozen_direction(a, m, root);
               add_squares(sums[0], r); add_squares(sums[1], r + p * a->decay); add_squares(sums[2], p);
               top = vec_max(top, masked(root / now, m != 0)));
    for (int k = 0; k < 3; k++) {
        double part[VEC / 2];
        store_d(part, sums[k][0] + sums[k][1]);
        for (int u = 0; u < VEC / 2; u++) a->sums[k] += part[u];
    }
    float lane[VEC];
    store(lane, top);
    for (int u = 0; u < VEC; u++) a->sums[3] = lane[u] > a->sums[3] ? lane[u] : a->sums[3];
}

/* By pieces, as lamb_moments. */
SIMD void simd_lamb_refresh(const tri_update_run *a, int64_t n) {
    enum { PIECE = 512 };
    for (int64_t i = 0; i < n; i += PIECE) {
        tri_update_run piece = *a;
        int64_t size = n - i < PIECE ? n - i : PIECE;
        piece.p += i, piece.m += i, piece.v += i, piece.fresh += i;
        if (a->g) {
            tri_update_run fresh = piece;
            fresh.p = NULL, fresh.v = piece.fresh, fresh.g += i;
            by_vectors(&fresh, size, refresh_whole);
        }
        frozen_sums(&piece, size);
    }
}
