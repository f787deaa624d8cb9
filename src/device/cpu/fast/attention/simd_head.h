/* simd_head.h - attention of one head over one sequence, HR queries at a time. Scores are computed transposed,
 * [keys,HR]: a query is a lane, so softmax needs no sums across lanes, one Philox call decides for 8 rows, and the
 * weights already form the packed panel for the product with the values. Keys are in token order. */
#pragma once

#include "device/cpu/fast/attention/head.h"
#include "device/cpu/fast/elementwise/simd_drop.h"
#include "device/cpu/fast/product/simd_product.h"
#include "device/cpu/fast/product/pack.h"

enum { SLACK = TRI_KERNEL_SLACK / 4 };

/* Floats of `rows` x `depth`, packed in panels of `width`. */
INLINE int64_t panels(int64_t rows, int width, int64_t depth) {
    return tri__round_up(rows, width) * tri__round_up(depth, TRI_KERNEL_STEP) + SLACK;
}

/* Rows of x [n,d] as panels over d: [n / width][d][width]. */
INLINE void pack_tokens(float *to, int width, const float *x, int64_t ld, int64_t n, int64_t d) {
    int64_t depth = tri__round_up(d, TRI_KERNEL_STEP);
    for (int64_t i = 0; i < n; i += width)
        tri__pack_rows(to + i * depth, width, x + i * ld, ld, n - i < width ? n - i : width, d, depth, 1);
}

/* x [n,d] as panels over tokens: [d / MR][n][MR]. */
INLINE void pack_features(float *to, const float *x, int64_t ld, int64_t n, int64_t d) {
    int64_t depth = tri__round_up(n, TRI_KERNEL_STEP);
    tri__pack_columns(to, MR, MR * depth, x, ld, NULL, d, n, depth);
}

/* out[rows,HR] = (add ? out : 0) + a b, a packed in panels of MR rows. */
INLINE void multiply(const float *a, int64_t rows, const float *b, int64_t k, float *out, int add) {
    int64_t depth = tri__round_up(k, TRI_KERNEL_STEP);
    for (int64_t i = 0; i < rows; i += MR) {
        float *c = out + i * HR;
        product_head(depth, a + i * depth, b, add ? c : NULL, c);
    }
}

/* Scores [rows,HR]: the same, where h->added, from column `first`, is added. */
INLINE void multiply_scores(const tri_head *h, const float *a, int64_t rows, const float *b, int64_t first,
                            float *out) {
    int64_t depth = tri__round_up(h->d, TRI_KERNEL_STEP);
    for (int64_t i = 0; i < rows; i += MR)
        product_tile(depth, a + i * depth, b, h->added ? h->added + i * h->ld_added + first : NULL, h->ld_added,
                     out + i * HR, HR);
}

/* What scores are divided by. */
INLINE float root_of(const tri_head *h) { return sqrtf((float)(h->d * (h->terms ? h->terms : 1))); }

/* to[i,c] = (acc ? to[i,c] : 0) + factor[i] * from[c,i] for i < n <= HR, c < d */
INLINE void turn_back(const float *from, int64_t n, int64_t d, const float *factor, float *to, int64_t ld, int acc) {
    for (int64_t i = 0; i < n; i += 4)
        for (int64_t c = 0; c < d; c += 4) {
            if (n - i >= 4 && d - c >= 4) {
                tri_vec4 r[4];
                for (int u = 0; u < 4; u++)
                    r[u] = *(const tri_vec4_any *)(from + (c + u) * HR + i) * *(const tri_vec4_any *)(factor + i);
                tri__transpose4(r);
                for (int u = 0; u < 4; u++) {
                    tri_vec4_any *at = (tri_vec4_any *)(to + (i + u) * ld + c);
                    if (acc) r[u] += *at;
                    *at = r[u];
                }
                continue;
            }
            for (int64_t u = i; u < n && u < i + 4; u++)
                for (int64_t e = c; e < d && e < c + 4; e++)
                    to[u * ld + e] = (acc ? to[u * ld + e] : 0) + factor[u] * from[e * HR + u];
        }
}

/* One or two rows of scores become 2^(scale * score - max), added to sum. */
INLINE void soften_rows(const float *s, float scale, const vf *max, vf *sum, int rows, vf *out) {
    EACH(j, rows * HV) out[j] = load(s + j * VEC) * scale - max[j % HV];
    vec_exp2(out, rows * HV);
    EACH(j, rows * HV) sum[j % HV] += out[j];
}

/* Philox state of the keys of HR queries. */
typedef struct query_starts {
    vu a[HV], b[HV], c[HV], word[HV];
} query_starts;

static void start_queries(const tri_drop *drop, int64_t q0, int64_t n, query_starts *starts) {
    uint32_t part[4][HR] = {{0}};
    for (int64_t i = 0; i < n; i++) {
        row_start start = start_of(drop, drop->key + 2 * (q0 + i));
        part[0][i] = start.a, part[1][i] = start.b, part[2][i] = start.c, part[3][i] = start.word;
    }
    memcpy(starts->a, part[0], sizeof part[0]);
    memcpy(starts->b, part[1], sizeof part[1]);
    memcpy(starts->c, part[2], sizeof part[2]);
    memcpy(starts->word, part[3], sizeof part[3]);
}

/* One or two rows, the first of which is number `place` of the 8 that one Philox call decides. */
INLINE void drop_rows(const vu word[HV][4], vi threshold, float *s, float scale, int place, int rows, const vf *max,
                      vf *sum) {
    vf e[MANY];
    soften_rows(s, scale, max, sum, rows, e);
    EACH(j, rows * HV) {
        int at = place + j / HV;
        vu decision = at & 1 ? word[j % HV][at / 2] >> 16 : word[j % HV][at / 2] & 0xFFFFu;
        store(s + j * VEC, masked(e[j], (vi)decision >= threshold));
    }
}

/* `len` rows of scores, the first of which is of the key with feature `feature0`; of n queries from q0. */
INLINE void soften_dropped(const tri_drop *drop, float *s, float scale, int64_t feature0, int64_t len, int64_t q0,
                           int64_t n, const vf *max, vf *sum) {
    query_starts starts;
    philox_keys keys = keys_of(drop);
    vi threshold = (vi)all_u(drop->threshold);
    start_queries(drop, q0, n, &starts);
    for (int64_t group = feature0 / 8; group * 8 < feature0 + len; group++) {
        uint64_t wide = (uint64_t)factor_b * ((uint32_t)group ^ keys.group);
        int64_t first = group * 8 - feature0; /* row of decision 0 */
        vu word[HV][4], high[HV], low[HV];
        EACH(j, HV) high[j] = all_u((uint32_t)(wide >> 32)), low[j] = all_u((uint32_t)wide);
        philox(word, high, low, starts.a, starts.b, starts.c, starts.word, HV, &keys);
        if (first >= 0 && first + 8 <= len)
            EACH(i, 4) drop_rows(word, threshold, s + (first + 2 * i) * HR, scale, 2 * i, 2, max, sum);
        else
            for (int i = 0; i < 8; i++)
                if (first + i >= 0 && first + i < len)
                    drop_rows(word, threshold, s + (first + i) * HR, scale, i, 1, max, sum);
    }
}

INLINE void soften_all(float *s, float scale, int64_t len, const vf *max, vf *sum) {
    vf e[MANY];
    int64_t i = 0;
    for (; i + 2 <= len; i += 2) {
        soften_rows(s + i * HR, scale, max, sum, 2, e);
        EACH(j, 2 * HV) store(s + i * HR + j * VEC, e[j]);
    }
    for (; i < len; i++) {
        soften_rows(s + i * HR, scale, max, sum, 1, e);
        EACH(j, HV) store(s + i * HR + j * VEC, e[j]);
    }
}

/* Of a panel's lanes, tokens one after the other, takes away those more than `window` from the token of a row;
 * distance: from that token to the first lane's. Lanes beyond the panel's n are as the last. */
INLINE void near_lanes(int64_t distance, int64_t n, int64_t window, vi lanes[HV]) {
    int32_t lane[HR];
    for (int j = 0; j < HR; j++) lane[j] = (int32_t)(j < n ? j : n - 1);
    EACH(j, HV) {
        vi at = (vi)*(const vu_any *)(lane + j * VEC) + (int32_t)distance;
        lanes[j] &= (at <= (int32_t)window) & (at >= -(int32_t)window);
    }
}

/* Scores of a row whose lanes are not set become -inf. */
INLINE void mask_row(float *s, const vi lanes[HV]) {
    vi never = (vi)all(-INFINITY);
    EACH(j, HV) store(s + j * VEC, (vf)(((vi)load(s + j * VEC) & lanes[j]) | (never & ~lanes[j])));
}

INLINE void largest_scores(const float *s, int64_t len, vf *max) {
    EACH(j, HV) max[j] = load(s + j * VEC);
    for (int64_t i = 1; i < len; i++) EACH(j, HV) max[j] = vec_max(max[j], load(s + i * HR + j * VEC));
}

static const float no_keys = -1e30f; /* lse of a query without keys */

/* The factor of the weights of n queries from q0: 1 / sum and dropout's scale; and lse. */
INLINE void end_softmax(const tri_head *h, int64_t q0, int64_t n, const vf *max, const vf *sum, float factor[HR]) {
    float top[HR], total[HR];
    EACH(j, HV) store(top + j * VEC, max[j]), store(total + j * VEC, sum[j]);
    for (int64_t i = 0; i < n; i++) {
        int none = h->window && top[i] <= no_keys; /* no key in the window */
        factor[i] = none ? 0 : h->drop.scale / total[i];
        if (h->lse) h->lse[(q0 + i) * h->ld_lse] = none ? no_keys : top[i] * (1 / log2_e) + logf(total[i]);
    }
}

/* Turns scores s [keys,HR], in powers of 2, of queries from q0 into weights, except for the factor. */
static void soften(const tri_head *h, float *s, int64_t q0, float factor[HR]) {
    int64_t n = h->len - q0 < HR ? h->len - q0 : HR;
    vf max[HV], sum[HV] = {{0}};
    for (int64_t t = 0; t < h->keys && h->window; t++) {
        vi lanes[HV];
        EACH(j, HV) lanes[j] = all_i(-1);
        near_lanes(q0 + h->shift - t, n, h->window, lanes);
        mask_row(s + t * HR, lanes);
    }
    largest_scores(s, h->keys, max);
    if (h->window) EACH(j, HV) max[j] = vec_max(all(no_keys), max[j]); /* finite: -inf less itself is not a number */
    if (h->drop.threshold) soften_dropped(&h->drop, s, 1, h->feature0, h->keys, q0, n, max, sum);
    else soften_all(s, 1, h->keys, max, sum);
    end_softmax(h, q0, n, max, sum, factor);
}

/* Parts of the scratch space: keys, values, a panel of queries, scores, and the result of a panel. */
SIMD int64_t simd_head_work(int64_t keys, int64_t d) {
    return panels(keys, MR, d) + panels(d, MR, keys) + panels(HR, HR, d) + panels(HR, HR, tri__round_up(keys, MR)) +
           panels(HR, HR, tri__round_up(d, MR));
}

SIMD void simd_head(const tri_head *h) {
    int64_t len = h->len, keys = h->keys, d = h->d, depth = tri__round_up(keys, TRI_KERNEL_STEP);
    float *k = h->work, *v = k + panels(keys, MR, d), *q = v + panels(d, MR, keys), *s = q + panels(HR, HR, d);
    float *out = s + panels(HR, HR, tri__round_up(keys, MR)), factor[HR] = {0};
    float scale = log2_e / root_of(h);
    pack_tokens(k, MR, h->k, h->ld_kv, keys, d);
    pack_features(v, h->v, h->ld_kv, keys, d);
    for (int64_t q0 = 0; q0 < len; q0 += HR) {
        int64_t n = len - q0 < HR ? len - q0 : HR;
        tri__pack_rows(q, HR, h->q + q0 * h->ld, h->ld, n, d, tri__round_up(d, TRI_KERNEL_STEP), scale);
        multiply_scores(h, k, keys, q, q0, s);
        soften(h, s, q0, factor);
        memset(s + keys * HR, 0, (size_t)(depth - keys) * HR * 4);
        multiply(v, d, s, keys, out, 0);
        turn_back(out, n, d, factor, h->ctx + q0 * h->ld_ctx, h->ld_ctx, 0);
    }
}
