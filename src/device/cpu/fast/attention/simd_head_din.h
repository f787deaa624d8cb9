/* simd_head_din.h - the gradient of attention, HR keys at a time: [queries,HR] panels of weights and of score gradients
 * are inputs of the products for dv and dk. For dq the score gradients of a stretch of keys are kept, transposed, and
 * multiplied once. Weights are recomputed from lse, masks from Philox (Dao et al., 2022). */
#pragma once

#include "device/cpu/fast/attention/simd_head.h"

enum {
    STRETCH = (132 + HR - 1) / HR * HR,  /* keys: whole panels */
    DECISIONS = STRETCH + 16 + 8 * VEC /* of one query in a stretch, including those that `decide` adds at the ends */
};

/* Parts of the scratch space. */
enum {
    Q, DCTX,          /* panels of tokens, for scores and dp */
    Q_TRANSPOSED, DCTX_TRANSPOSED, /* panels of features, for dk and dv */
    K_TRANSPOSED,     /* panels of features for a stretch of keys, for dq */
    KEY, VALUE,       /* a panel of keys, of values */
    WEIGHT, SLOPE,    /* [len,HR]: weights after dropout; dp, then score gradients */
    SLOPE_TRANSPOSED, /* [len / HR][STRETCH,HR]: score gradients of a stretch */
    DQ,               /* [len / HR][d,HR] */
    OUT,              /* [d,HR] */
    MEAN,             /* [len]: sum of dctx * ctx */
    DECISION,         /* [len,DECISIONS], 16 bits */
    PARTS
};

static void din_sizes(int64_t len, int64_t d, int64_t size[PARTS]) {
    int64_t rows = tri__round_up(len, MR), columns = tri__round_up(d, MR), chunks = (len + HR - 1) / HR;
    size[Q] = size[DCTX] = panels(len, MR, d);
    size[Q_TRANSPOSED] = size[DCTX_TRANSPOSED] = panels(d, MR, len);
    size[K_TRANSPOSED] = panels(d, MR, STRETCH);
    size[KEY] = size[VALUE] = panels(HR, HR, d);
    size[WEIGHT] = size[SLOPE] = panels(HR, HR, rows);
    size[SLOPE_TRANSPOSED] = chunks * STRETCH * HR + SLACK;
    size[DQ] = chunks * columns * HR + SLACK;
    size[OUT] = panels(HR, HR, columns);
    size[MEAN] = rows;
    size[DECISION] = (len * DECISIONS + 1) / 2;
    for (int i = 0; i < PARTS; i++) size[i] = tri__round_up(size[i], 16);
}

SIMD int64_t simd_head_din_work(int64_t len, int64_t d) {
    int64_t size[PARTS], total = 0;
    din_sizes(len, d, size);
    for (int i = 0; i < PARTS; i++) total += size[i];
    return total;
}

INLINE float dot(const float *a, const float *b, int64_t n) {
    vf sum = {0};
    for (int64_t i = 0; i < n; i += VEC) sum += get(a + i, n - i) * get(b + i, n - i);
    return sum_of(sum);
}

/* One or two rows of a panel, weights and dp, from query i; decisions, `stride` a query, start at the panel's first
 * key. */
INLINE void slope_rows(const tri_head *h, float *weight, float *slope, const float *mean, int64_t i, int rows,
                       const vi *exists, uint32_t threshold, const uint16_t *decision, int64_t stride) {
    vf p[MANY];
    EACH(j, rows * HV) p[j] = load(weight + j * VEC) - h->lse[(i + j / HV) * h->ld_lse] * log2_e;
    vec_exp2(p, rows * HV);
    EACH(j, rows * HV) {
        vi keep = threshold ? kept(decision + (i + j / HV) * stride + j % HV * VEC, threshold) : exists[j % HV];
        p[j] = masked(p[j], exists[j % HV]);
        store(weight + j * VEC, masked(p[j], keep));
        store(slope + j * VEC, p[j] * (masked(load(slope + j * VEC), keep) - mean[i + j / HV]));
    }
}

/* For the n keys of a panel, from k0, turns scores, in powers of 2, into weights after dropout, and dp into score
 * gradients. Lanes beyond n and rows beyond len become 0. */
static void panel_slopes(const tri_head *h, float *const w[PARTS], int64_t k0, int64_t n, const uint16_t *decision) {
    int64_t len = h->len, depth = tri__round_up(len, TRI_KERNEL_STEP), i = 0;
    uint32_t threshold = h->drop.threshold;
    int32_t lane[HR];
    vi exists[HV];
    for (int j = 0; j < HR; j++) lane[j] = j < n ? -1 : 0;
    EACH(j, HV) exists[j] = (vi)*(const vu_any *)(lane + j * VEC);
    for (; i < len && h->window; i++) {
        vi lanes[HV];
        EACH(j, HV) lanes[j] = exists[j];
        near_lanes(k0 - i - h->shift, n, h->window, lanes);
        slope_rows(h, w[WEIGHT] + i * HR, w[SLOPE] + i * HR, w[MEAN], i, 1, lanes, threshold, decision, DECISIONS);
    }
    for (; i + 2 <= len; i += 2)
        slope_rows(h, w[WEIGHT] + i * HR, w[SLOPE] + i * HR, w[MEAN], i, 2, exists, threshold, decision, DECISIONS);
    for (; i < len; i++)
        slope_rows(h, w[WEIGHT] + i * HR, w[SLOPE] + i * HR, w[MEAN], i, 1, exists, threshold, decision, DECISIONS);
    memset(w[WEIGHT] + len * HR, 0, (size_t)(depth - len) * HR * 4);
    memset(w[SLOPE] + len * HR, 0, (size_t)(depth - len) * HR * 4);
}

/* Transposes a panel's score gradients of n queries from `begin`, a multiple of 4, [n,HR], into [len / HR][stretch,HR],
 * from row `at` of each of the blocks. */
INLINE void turn_slopes(int64_t begin, int64_t n, const float *slope, float *transposed, int64_t at, int stretch) {
    for (int64_t i = 0; i < n; i += 4) {
        float *block = transposed + (begin + i) / HR * stretch * HR + at * HR + (begin + i) % HR;
        for (int j = 0; j < HR; j += 4) {
            tri_vec4 r[4];
            for (int u = 0; u < 4; u++) r[u] = *(const tri_vec4_any *)(slope + (i + u) * HR + j);
            tri__transpose4(r);
            for (int u = 0; u < 4; u++) *(tri_vec4_any *)(block + (j + u) * HR) = r[u];
        }
    }
}

/* One panel of keys from k0: its dk and dv, and its part of the stretch's score gradients. */
static void panel_din(const tri_head *h, float *const w[PARTS], int64_t k0, int64_t in_stretch,
                      const uint16_t *decision, const float *scale, const float *kept_scale) {
    int64_t n = h->keys - k0 < HR ? h->keys - k0 : HR, depth = tri__round_up(h->d, TRI_KERNEL_STEP);
    tri__pack_rows(w[KEY], HR, h->k + k0 * h->ld_kv, h->ld_kv, n, h->d, depth, scale[0] * log2_e);
    tri__pack_rows(w[VALUE], HR, h->v + k0 * h->ld_kv, h->ld_kv, n, h->d, depth, kept_scale[0]);
    multiply_scores(h, w[Q], h->len, w[KEY], k0, w[WEIGHT]);
    multiply(w[DCTX], h->len, w[VALUE], h->d, w[SLOPE], 0);
    panel_slopes(h, w, k0, n, decision);
    for (int64_t i = 0; i < h->len && h->slope; i++)
        memcpy(h->slope + i * h->ld_slope + k0, w[SLOPE] + i * HR, HR * sizeof(float));
    multiply(w[DCTX_TRANSPOSED], h->d, w[WEIGHT], h->len, w[OUT], 0);
    turn_back(w[OUT], n, h->d, kept_scale, h->dv + k0 * h->ld_kv, h->ld_kv, h->acc_kv);
    multiply(w[Q_TRANSPOSED], h->d, w[SLOPE], h->len, w[OUT], 0);
    turn_back(w[OUT], n, h->d, scale, h->dk + k0 * h->ld_kv, h->ld_kv, h->acc_kv);
    turn_slopes(0, h->len, w[SLOPE], w[SLOPE_TRANSPOSED], in_stretch, STRETCH);
}

SIMD void simd_head_din(const tri_head *h) {
    int64_t len = h->len, d = h->d, size[PARTS], columns = tri__round_up(d, MR);
    float *w[PARTS], scale[HR], kept_scale[HR];
    din_sizes(len, d, size);
    w[0] = h->work;
    for (int i = 1; i < PARTS; i++) w[i] = w[i - 1] + size[i - 1];
    uint16_t *decision = (uint16_t *)(void *)w[DECISION];
    philox_keys rounds = keys_of(&h->drop);
    for (int j = 0; j < HR; j++) scale[j] = 1 / root_of(h), kept_scale[j] = h->drop.scale;
    pack_tokens(w[Q], MR, h->q, h->ld, len, d);
    pack_tokens(w[DCTX], MR, h->dctx, h->ld_ctx, len, d);
    pack_features(w[Q_TRANSPOSED], h->q, h->ld, len, d);
    pack_features(w[DCTX_TRANSPOSED], h->dctx, h->ld_ctx, len, d);
    for (int64_t i = 0; i < len; i++) w[MEAN][i] = dot(h->dctx + i * h->ld_ctx, h->ctx + i * h->ld_ctx, d);
    for (int64_t k0 = 0; k0 < h->keys; k0 += STRETCH) {
        int64_t keys = h->keys - k0 < STRETCH ? h->keys - k0 : STRETCH, first = h->feature0 + k0;
        if (h->drop.threshold)
            for (int64_t i = 0; i < len; i++)
                decide(&h->drop, &rounds, h->drop.key + 2 * i, (uint32_t)(first / 8), (first % 8 + keys + 7) / 8,
                       decision + i * DECISIONS);
        for (int64_t j = 0; j < keys; j += HR) panel_din(h, w, k0 + j, j, decision + first % 8 + j, scale, kept_scale);
        pack_features(w[K_TRANSPOSED], h->k + k0 * h->ld_kv, h->ld_kv, keys, d);
        for (int64_t i = 0; i < len; i += HR)
            multiply(w[K_TRANSPOSED], d, w[SLOPE_TRANSPOSED] + i * STRETCH, keys, w[DQ] + i * columns, k0 > 0);
    }
    for (int64_t i = 0; i < len; i += HR)
        turn_back(w[DQ] + i * columns, len - i < HR ? len - i : HR, d, scale, h->dq + i * h->ld, h->ld, h->acc);
}
