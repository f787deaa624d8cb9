/* simd_head_half_din.h - the gradient of attention in bf16, HR keys at a time, as simd_head_din.h. Weights and score
 * gradients are rounded to bf16 for the products; all else is fp32. Score gradients of a stretch of keys are kept as
 * panels of A, for the queries' gradients [len,d]. */
#pragma once

#include "device/cpu/fast/attention/simd_head_half.h"
#include "device/cpu/fast/attention/simd_head_din.h"

/* Parts of the scratch space. */
typedef struct half_parts {
    uint16_t *q, *dctx;             /* panels of tokens, for scores and dp */
    uint16_t *q_transposed, *dctx_transposed; /* panels of features, for dk and dv */
    uint16_t *key, *value;          /* a panel of keys, of values */
    uint16_t *k_transposed;         /* [d / HR] panels of B of a stretch of keys, for dq */
    uint16_t *weight, *slope;       /* panels of B, [len,HR]: weights after dropout; score gradients */
    uint16_t *slopes;               /* panels of A, [len,STRETCH] */
    uint16_t *decision;             /* [len,DECISIONS] */
    float *score, *dp;              /* [len,HR] */
    float *dq;                      /* [len,d] with row stride `columns` */
    float *out, *transposed;        /* [d,HR], [HR,d] */
    float *mean;                    /* [len]: sum of dctx * ctx */
    int64_t columns;
} half_parts;

/* n floats of the scratch space from *at on; base NULL: only counted. */
static void *part_at(float *base, int64_t *at, int64_t n) {
    float *part = base ? base + *at : NULL;
    *at += tri__round_up(n, 16);
    return part;
}

/* Lays out the parts; returns how many floats they are. */
static int64_t half_parts_at(const tri_half_product *product, int64_t len, int64_t d, float *base, half_parts *w) {
    int64_t tokens = tri__round_up(len, product->mr), features = tri__round_up(d, product->mr), at = 0;
    int64_t deep = depth_of(product, d), longer = depth_of(product, len);
    w->columns = tri__round_up(d, HR);
    w->q = part_at(base, &at, half_panel(tokens, deep));
    w->dctx = part_at(base, &at, half_panel(tokens, deep));
    w->q_transposed = part_at(base, &at, half_panel(features, longer));
    w->dctx_transposed = part_at(base, &at, half_panel(features, longer));
    w->key = part_at(base, &at, half_panel(HR, deep));
    w->value = part_at(base, &at, half_panel(HR, deep));
    w->k_transposed = part_at(base, &at, half_panel(w->columns, STRETCH));
    w->weight = part_at(base, &at, half_panel(HR, longer));
    w->slope = part_at(base, &at, half_panel(HR, longer));
    w->slopes = part_at(base, &at, half_panel(tokens, STRETCH));
    w->decision = part_at(base, &at, half_panel(len, DECISIONS));
    w->score = part_at(base, &at, tokens * HR);
    w->dp = part_at(base, &at, tokens * HR);
    w->dq = part_at(base, &at, tokens * w->columns);
    w->out = part_at(base, &at, features * HR);
    w->transposed = part_at(base, &at, HR * d);
    w->mean = part_at(base, &at, len);
    return at;
}

int64_t PER_ISA(tri__head_half_din_work)(const tri_half_product *product, int64_t len, int64_t d) {
    return half_parts_at(product, len, d, NULL, &(half_parts){0});
}

INLINE float dot_half(const uint16_t *a, const uint16_t *b, int64_t n) {
    float sum = 0;
    vf sums = {0};
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC) {
        vf x[2], y[2];
        get_bf16(a + i, x), get_bf16(b + i, y);
        sums += x[0] * y[0] + x[1] * y[1];
    }
    for (; i < n; i++) sum += tri__from_bf16(a[i]) * tri__from_bf16(b[i]);
    return sum + sum_of(sums);
}

/* What all rows of a panel of keys share. */
typedef struct half_slopes {
    const tri_head_half *h;
    const half_parts *w;
    float scale;                 /* of scores, in powers of 2 */
    vi exists[HV];               /* the panel's keys */
    const uint16_t *decision;    /* DECISIONS a query, from the panel's first key */
    int64_t in_stretch;          /* its place */
} half_slopes;

/* Row i of score gradients, HV vectors in bf16 in the upper halves of lanes, to the panels of A. */
INLINE void keep_slopes(const half_slopes *a, int64_t i, const vu *slope) {
    int mr = a->h->product->mr, group = a->h->product->a_group;
    uint16_t *panel = a->w->slopes + i / mr * mr * STRETCH, row[HR + 2 * VEC];
    uint16_t *to = group == HR ? panel + a->in_stretch * mr + i % mr * HR : row;
    for (int j = 0; j < HV; j += 2) {
        vu two[2] = {slope[j], j + 1 < HV ? slope[j + 1] : slope[j]};
        put_high(to + j * VEC, two);
    }
    for (int j = 0; j < HR && to == row; j += group) {
        uint16_t *at = panel + (a->in_stretch + j) * mr + i % mr * group;
        if (group == 2) memcpy(at, row + j, 4);
        else memcpy(at, row + j, 8); /* 4 */
    }
}

/* Two rows from query i, i even, of which `rows` exist. */
INLINE void slope_pair(const half_slopes *a, int64_t i, int rows) {
    const tri_head_half *h = a->h;
    const float *score = a->w->score + i * HR, *dp = a->w->dp + i * HR, *mean = a->w->mean + i;
    vf p[MANY];
    vu weight[2][HV] = {{{0}}}, slope[2][HV] = {{{0}}};
    EACH(j, rows * HV)
    p[j] = load(score + j * VEC) * a->scale - h->lse[(i + j / HV) * h->ld_lse] * log2_e;
    vec_exp2(p, rows * HV);
    EACH(j, rows * HV) {
        vi keep = a->exists[j % HV];
        if (h->drop.threshold)
            keep = kept(a->decision + (i + j / HV) * DECISIONS + j % HV * VEC, h->drop.threshold);
        p[j] = masked(p[j], a->exists[j % HV]);
        weight[j / HV][j % HV] = round_half(masked(p[j], keep));
        slope[j / HV][j % HV] =
            round_half(p[j] * (masked(load(dp + j * VEC), keep) * h->drop.scale - mean[j / HV]));
    }
    put_pair(a->w->weight, i, weight[0], weight[1]);
    put_pair(a->w->slope, i, slope[0], slope[1]);
    for (int u = 0; u < rows; u++) keep_slopes(a, i + u, slope[u]);
}

/* One panel of keys from k0: its dk and dv, and its part of the stretch's score gradients. */
static void panel_half_din(const tri_head_half *h, const half_parts *w, int64_t k0, int64_t in_stretch,
                           const uint16_t *decision) {
    const tri_half_product *product = h->product;
    int64_t len = h->len, d = h->d, n = len - k0 < HR ? len - k0 : HR, longer = depth_of(product, len), i = 0;
    float scale[HR], kept_scale[HR];
    int32_t lane[HR];
    half_slopes a = {.h = h, .w = w, .scale = log2_e / sqrtf((float)d), .decision = decision,
                     .in_stretch = in_stretch};
    for (int j = 0; j < HR; j++)
        lane[j] = j < n ? -1 : 0, scale[j] = 1 / sqrtf((float)d), kept_scale[j] = h->drop.scale;
    EACH(j, HV) a.exists[j] = (vi)*(const vu_any *)(lane + j * VEC);
    pack_half_columns(product, h->k + k0 * h->ld, h->ld, n, d, w->key);
    pack_half_columns(product, h->v + k0 * h->ld, h->ld, n, d, w->value);
    multiply_half(product, w->q, len, w->key, d, w->score);
    multiply_half(product, w->dctx, len, w->value, d, w->dp);
    for (; i + 2 <= len; i += 2) slope_pair(&a, i, 2);
    for (; i < len; i += 2) slope_pair(&a, i, 1);
    for (; i < longer; i += 2) {
        vu none[HV] = {{0}};
        put_pair(w->weight, i, none, none);
        put_pair(w->slope, i, none, none);
    }
    multiply_half(product, w->dctx_transposed, d, w->weight, len, w->out);
    turn_back_half(w->out, n, d, kept_scale, h->dv + k0 * h->ld, h->ld, h->acc, w->transposed);
    multiply_half(product, w->q_transposed, d, w->slope, len, w->out);
    turn_back_half(w->out, n, d, scale, h->dk + k0 * h->ld, h->ld, h->acc, w->transposed);
}

/* dq [len,columns] of a stretch of keys from k0. */
static void stretch_dq(const tri_head_half *h, const half_parts *w, int64_t k0, int64_t keys) {
    const tri_half_product *product = h->product;
    int64_t depth = depth_of(product, keys);
    for (int64_t c = 0; c < h->d; c += HR) {
        uint16_t *b = w->k_transposed + c * STRETCH;
        tri__half_pack(product,
                       &(tri_half_panel){.is_b = 1, .transposed = 1, .from = h->k + k0 * h->ld + c, .ld = h->ld,
                                         .n = h->d - c < HR ? h->d - c : HR, .k = keys, .padded = depth},
                       b);
        for (int64_t i = 0; i < h->len; i += product->mr)
            product->run(depth / product->step, w->slopes + i * STRETCH, b, w->dq + i * w->columns + c, w->columns,
                         k0 > 0);
    }
}

void PER_ISA(tri__head_half_din)(const tri_head_half *h) {
    int64_t len = h->len, d = h->d;
    half_parts w;
    philox_keys rounds = keys_of(&h->drop);
    half_parts_at(h->product, len, d, h->work, &w);
    pack_half(h->product, h->q, h->ld, len, d, 0, w.q);
    pack_half(h->product, h->dctx, h->ld_ctx, len, d, 0, w.dctx);
    pack_half(h->product, h->q, h->ld, len, d, 1, w.q_transposed);
    pack_half(h->product, h->dctx, h->ld_ctx, len, d, 1, w.dctx_transposed);
    for (int64_t i = 0; i < len; i++) w.mean[i] = dot_half(h->dctx + i * h->ld_ctx, h->ctx + i * h->ld_ctx, d);
    if (h->product->begin) h->product->begin();
    for (int64_t k0 = 0; k0 < len; k0 += STRETCH) {
        int64_t keys = len - k0 < STRETCH ? len - k0 : STRETCH, first = h->feature0 + k0;
        if (h->drop.threshold)
            for (int64_t i = 0; i < len; i++)
                decide(&h->drop, &rounds, h->drop.key + 2 * i, (uint32_t)(first / 8), (first % 8 + keys + 7) / 8,
                       w.decision + i * DECISIONS);
        for (int64_t j = 0; j < keys; j += HR) panel_half_din(h, &w, k0 + j, j, w.decision + first % 8 + j);
        stretch_dq(h, &w, k0, keys);
    }
    if (h->product->end) h->product->end();
    float scale = 1 / sqrtf((float)d);
    for (int64_t t = 0; t < len; t++) {
        float *row = w.dq + t * w.columns;
        BY_VECTORS(d, put(row + i, left, get(row + i, left) * scale));
        if (h->acc) simd_widen_add(d, h->dq + t * h->ld, row);
        simd_narrow(d, row, h->dq + t * h->ld);
    }
}
