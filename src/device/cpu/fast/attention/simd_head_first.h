/* simd_head_first.h - attention of one head over one sequence for its first query alone, and its gradient; over all
 * keys or over those of present blocks. Bound by reading keys and values once: pieces of up to BLOCK keys stay in the
 * L1 cache between the score and the sum. */
#pragma once

#include "device/cpu/fast/attention/simd_head_din.h"

enum { BLOCK = 256 }; /* keys */

/* The state of one block of keys: */
typedef struct first_block {
    int64_t begin, n;                    /* keys */
    float weight[BLOCK + VEC];           /* in powers of 2: scores, then weights */
    float slope[BLOCK + VEC];            /* gradients: of weights, then of scores */
    uint16_t decision[BLOCK + 16 + 8 * VEC];
    const uint16_t *decided;             /* of the first key; including those that `decide` adds at the ends */
} first_block;

/* out[i] = factor * x . row i of y */
INLINE void dots(const first_block *b, const float *x, const float *y, const tri_head *h, float factor, float *out) {
    for (int64_t i = 0; i < b->n; i++) out[i] = factor * dot(x, y + (b->begin + i) * h->ld, h->d);
}

/* to = factor * to + scale * sum of weight[i] * row i of y; factor 0 overwrites. */
INLINE void add_rows(const first_block *b, const float *weight, const float *y, const tri_head *h, float factor,
                     float scale, float *to) {
    const float *rows = y + b->begin * h->ld;
    for (int64_t c = 0; c < h->d; c += VEC) {
        vf even = {0}, odd = {0};
        int64_t left = h->d - c, i = 0;
        for (; i + 2 <= b->n; i += 2) {
            even += weight[i] * get(rows + i * h->ld + c, left);
            odd += weight[i + 1] * get(rows + (i + 1) * h->ld + c, left);
        }
        if (i < b->n) even += weight[i] * get(rows + i * h->ld + c, left);
        vf sum = (even + odd) * scale;
        if (factor != 0) sum += get(to + c, left) * factor;
        put(to + c, left, sum);
    }
}

/* The first query's keys from `from` on: *begin, and how many follow it, at most BLOCK; 0: there are none. */
static int64_t keys_from(const tri_head *h, int64_t from, int64_t *begin) {
    int64_t end = h->len;
    *begin = from;
    if (h->blocks) {
        tri_block_lists lists = h->blocks->keys;
        int64_t block = h->blocks->block, k = lists.at[0];
        while (k < lists.at[1] && (lists.of[k] + 1) * block <= from) k++;
        if (k == lists.at[1]) return 0;
        if (lists.of[k] * block > from) *begin = lists.of[k] * block;
        for (k++; k < lists.at[1] && lists.of[k] == lists.of[k - 1] + 1; k++) continue;
        if ((lists.of[k - 1] + 1) * block < end) end = (lists.of[k - 1] + 1) * block;
        if (h->window && h->window + 1 < end) end = h->window + 1;
    }
    int64_t n = end - *begin;
    return n < 0 ? 0 : n < BLOCK ? n : BLOCK;
}

/* Scores of n keys from `begin`, and their dropout decisions. */
static void open_block(const tri_head *h, const philox_keys *rounds, int64_t begin, int64_t n, first_block *b) {
    int64_t first = h->feature0 + begin;
    b->begin = begin;
    b->n = n;
    b->decided = b->decision + first % 8;
    dots(b, h->q, h->k, h, log2_e / sqrtf((float)h->d), b->weight);
    if (h->drop.threshold)
        decide(&h->drop, rounds, h->drop.key, (uint32_t)(first / 8), (first % 8 + b->n + 7) / 8, b->decision);
}

/* Turns scores into 2^(score - top) after dropout; returns their sum before dropout. */
static float soften_block(const tri_head *h, first_block *b, float top) {
    vf sum = {0};
    for (int64_t i = 0; i < b->n; i += VEC) {
        vf e = load(b->weight + i) - top;
        vec_exp2(&e, 1);
        e = existing(e, b->n - i);
        sum += e;
        if (h->drop.threshold) e = masked(e, kept(b->decided + i, h->drop.threshold));
        store(b->weight + i, e);
    }
    return sum_of(sum);
}

SIMD void simd_head_first(const tri_head *h) {
    philox_keys rounds = keys_of(&h->drop);
    first_block b = {.weight = {0}};
    float top = -INFINITY, total = 0;
    int any = 0;
    for (int64_t begin = 0, n = 0; (n = keys_from(h, begin + n, &begin)) > 0; any = 1) {
        open_block(h, &rounds, begin, n, &b);
        float before = top;
        for (int64_t i = 0; i < b.n; i++) top = b.weight[i] > top ? b.weight[i] : top;
        float shrink = any ? exp2f(before - top) : 0;
        total = total * shrink + soften_block(h, &b, top);
        add_rows(&b, b.weight, h->v, h, shrink, 1, h->ctx);
    }
    BY_VECTORS(h->d, put(h->ctx + i, left, get(h->ctx + i, left) * (h->drop.scale / total)));
    if (h->lse) *h->lse = top * (1 / log2_e) + logf(total);
}

/* Turns scores into weights after dropout, and dp into score gradients. */
static void slope_block(const tri_head *h, first_block *b, float mean) {
    for (int64_t i = 0; i < b->n; i += VEC) {
        vf p = load(b->weight + i) - *h->lse * log2_e, slope = load(b->slope + i);
        vec_exp2(&p, 1);
        vf weight = p;
        if (h->drop.threshold) {
            vi keep = kept(b->decided + i, h->drop.threshold);
            weight = masked(weight, keep), slope = masked(slope, keep);
        }
        store(b->weight + i, weight * h->drop.scale);
        store(b->slope + i, p * (slope - mean));
    }
}

/* Rows [begin, end) of dk and dv, and of dq but for the first, which the first query does not attend to. */
static void clear_rows(const tri_head *h, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end && !h->acc; t++) {
        if (t > 0) memset(h->dq + t * h->ld, 0, (size_t)h->d * sizeof(float));
        memset(h->dk + t * h->ld, 0, (size_t)h->d * sizeof(float));
        memset(h->dv + t * h->ld, 0, (size_t)h->d * sizeof(float));
    }
}

/* Row t of dq, dk and dv, except dq of the first row. */
INLINE void put_row(const tri_head *h, int64_t t, float weight, float slope) {
    float *dq = h->dq + t * h->ld, *dk = h->dk + t * h->ld, *dv = h->dv + t * h->ld;
    BY_VECTORS(h->d, put(dk + i, left, get(h->q + i, left) * slope + (h->acc ? get(dk + i, left) : (vf){0})));
    BY_VECTORS(h->d, put(dv + i, left, get(h->dctx + i, left) * weight + (h->acc ? get(dv + i, left) : (vf){0})));
    if (t > 0 && !h->acc) BY_VECTORS(h->d, put(dq + i, left, (vf){0}));
}

SIMD void simd_head_first_din(const tri_head *h) {
    philox_keys rounds = keys_of(&h->drop);
    first_block b = {.weight = {0}};
    float mean = dot(h->dctx, h->ctx, h->d), scale = 1 / sqrtf((float)h->d);
    int64_t done = 0;
    int any = 0;
    for (int64_t begin = 0, n; (n = keys_from(h, done, &begin)) > 0; done = begin + n, any = 1) {
        clear_rows(h, done, begin);
        open_block(h, &rounds, begin, n, &b);
        dots(&b, h->dctx, h->v, h, h->drop.scale, b.slope);
        slope_block(h, &b, mean);
        add_rows(&b, b.slope, h->k, h, h->acc || any ? 1 : 0, scale, h->dq);
        for (int64_t i = 0; i < b.n; i++) put_row(h, begin + i, b.weight[i], b.slope[i] * scale);
    }
    clear_rows(h, done, h->len);
}
