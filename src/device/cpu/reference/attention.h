/* attention.h - attention of a query to keys, and its gradients, with policies: which keys it meets (all, or those of
 * present blocks), and which score they have (products, or with what depends on their distance). Sums go over keys, or
 * over queries, in order. */
#pragma once

#include "device/cpu/reference/reference.h"
#include "layout/blocks.h"
#include "layout/runs.h"
#include "numbers/distance.h"

#define NO_KEYS (-1e30) /* lse of a row without keys: finite, and its weight is 0 beside any other */

/* One head. Queries and keys are rows of two matrices, which may be the same. */
typedef struct head {
    const tri_call *call;
    const float *q, *k, *v;        /* from this head's first column on */
    int64_t ld_q, ld_kv, d, h;     /* columns of a row; of one head; the head's index on this rank */
    const int32_t *key;            /* [T,2], of a ring [K,2] of all runs; NULL without dropout */
    int64_t key_q, key_kv;         /* rows of key before those of queries, of keys */
    tri_block_lists keys, queries; /* key blocks of each block of queries; query blocks of each block of keys */
    int64_t block, window;         /* tokens; more than a sequence has: one block, no window */
    const float *table;            /* [B,A] biases; [B,3H] queries and keys of buckets; NULL: scores are products */
    int64_t B, ld_table;
    int terms;                     /* attr.terms, where the table has queries and keys */
    double scale;
    const float *dctx, *ctx, *lse; /* gradients: the query's row is `after` rows after its own */
    int64_t H, after;
    int64_t from, cols;            /* columns that gradients are computed of: all of the head, or as many as fit */
} head;

/* A head of queries at q, [rows, ld_q], and keys at k; `blocks`, an operand, may be absent. */
static inline head head_at(const tri_call *call, const float *q, int64_t ld_q, const float *k, int64_t ld_kv, int64_t H,
                           int blocks, int key, int64_t h) {
    static const int32_t whole[] = {0, 1, 0}; /* one list of the one block */
    const tri_attr *attr = call->attr;
    int64_t d = H / attr->heads, number = attr->head0 + h;
    head a = {.call = call, .q = q + h * d, .k = k + h * d, .v = k + H + h * d, .ld_q = ld_q, .ld_kv = ld_kv, .d = d,
              .h = h, .key = i32(call, key), .keys = {whole, whole + 2}, .queries = {whole, whole + 2},
              .block = INT32_MAX, .window = INT32_MAX, .scale = 1 / sqrt((double)d), .H = H,
              .cols = d};
    if (i32(call, blocks)) {
        a.keys = tri__blocks_of_queries(i32(call, blocks), number);
        a.queries = tri__blocks_of_keys(i32(call, blocks), number);
        a.block = attr->block, a.window = attr->window ? attr->window : INT32_MAX;
    }
    return a;
}

/* Gradients read rows of ctx [rows,H] and lse [rows,heads]. */
static inline void set_results(head *a, int dctx, int ctx, int lse) {
    a->dctx = f32(a->call, dctx) + a->h * a->d, a->ctx = f32(a->call, ctx) + a->h * a->d;
    a->lse = f32(a->call, lse) + a->h;
}

static inline int64_t at_most(int64_t x, int64_t limit) { return x < limit ? x : limit; }
static inline int64_t at_least(int64_t x, int64_t limit) { return x > limit ? x : limit; }

/* Each row t of `rows`, of one sequence, in the blocks that the list of the token at `place` has, within the window:
 * entries of the list beyond the sequence have no rows. */
#define EACH_LISTED(a, lists, place_, rows, t)                                                                   \
    for (int32_t at_ = (lists).at[(place_) / (a)->block]; at_ < (lists).at[(place_) / (a)->block + 1]; at_++)    \
        for (int64_t block_ = (rows).begin - (rows).place + (lists).of[at_] * (a)->block,                        \
                     t = at_least(block_, (rows).begin);                                                         \
             t < at_most(block_ + (a)->block, (rows).end); t++)                                                  \
            if (llabs(t - (rows).begin + (rows).place - (place_)) <= (a)->window)

/* The table's row for a distance of query and key. */
static inline int64_t bucket_of(const head *a, int64_t distance) {
    const tri_attr *attr = a->call->attr;
    if (attr->score == TRI_SCORE_BIASED) return tri__bucket_t5((int32_t)-distance, attr->buckets, attr->reach);
    return tri__bucket_log((int32_t)distance, attr->buckets, attr->reach) - (attr->buckets - a->B) / 2;
}

/* Element c of the query (part 0) or key (1) of a row of the table. */
static inline int64_t entry(const head *a, int64_t row, int part, int64_t c) {
    return row * a->ld_table + part * a->H + a->h * a->d + c;
}

static inline double score(const head *a, int64_t query, int64_t other) {
    const float *q = a->q + query * a->ld_q, *k = a->k + other * a->ld_kv; /* [d] */
    int64_t row = a->table ? bucket_of(a, query - other) : 0;
    double sum = 0;
    for (int64_t c = 0; c < a->d; c++) {
        sum += (double)q[c] * k[c];
        if (a->terms & 1) sum += (double)q[c] * a->table[entry(a, row, 1, c)];
        if (a->terms & 2) sum += (double)k[c] * a->table[entry(a, row, 0, c)];
    }
    if (!a->table) return sum / sqrt((double)a->d);
    return sum * a->scale + (a->call->attr->score == TRI_SCORE_BIASED ? a->table[row * a->ld_table + a->h] : 0);
}

/* The dropout factor of the weight that a query gives to a key. */
static inline double kept(const head *a, int64_t query, int64_t other) {
    const tri_attr *attr = a->call->attr;
    int64_t place = a->key ? a->key[2 * (a->key_kv + other) + 1] : 0;
    return keep(a->call, a->key, a->key_q + query, (attr->head0 + a->h) * attr->max_len + place);
}

/* The context out [d] of a query, the token at `place` of its sequence, and its lse, which is returned. */
static inline double attend(const head *a, int64_t query, int64_t place, tri_run_rows keys, double *out) {
    double max = -INFINITY, sum = 0;
    int64_t n = 0;
    for (int64_t c = 0; c < a->d; c++) out[c] = 0;
    EACH_LISTED(a, a->keys, place, keys, t) {
        double s = score(a, query, t);
        max = s > max ? s : max, n++;
    }
    if (!n) return NO_KEYS;
    EACH_LISTED(a, a->keys, place, keys, t) {
        double p = exp(score(a, query, t) - max), weight = p * kept(a, query, t);
        sum += p;
        for (int64_t c = 0; c < a->d; c++) out[c] += weight * a->v[t * a->ld_kv + c];
    }
    for (int64_t c = 0; c < a->d; c++) out[c] /= sum;
    return max + log(sum);
}

/* For the weight that a query gives to a key: its value after dropout, and the gradient of its score before scaling. */
static inline void slope(const head *a, int64_t query, int64_t other, double *weight, double *ds) {
    int64_t row = query + a->after;
    const float *dctx = a->dctx + row * a->H, *ctx = a->ctx + row * a->H, *v = a->v + other * a->ld_kv; /* [d] */
    double p = exp(score(a, query, other) - a->lse[row * a->call->attr->heads]);
    double m = kept(a, query, other), dp = 0, mean = 0; /* mean = sum_k p_k dp_k */
    for (int64_t c = 0; c < a->d; c++) {
        dp += m * dctx[c] * v[c];
        mean += (double)dctx[c] * ctx[c];
    }
    *weight = p * m;
    *ds = p * (dp - mean);
}

/* The gradient of a query, dq [cols]. */
static inline void query_din(const head *a, int64_t query, int64_t place, tri_run_rows keys, double *dq) {
    double unused, ds;
    for (int64_t c = 0; c < a->cols; c++) dq[c] = 0;
    EACH_LISTED(a, a->keys, place, keys, t) {
        slope(a, query, t, &unused, &ds);
        for (int64_t c = 0; c < a->cols; c++) {
            double k = a->k[t * a->ld_kv + a->from + c];
            if (a->terms & 1) k += a->table[entry(a, bucket_of(a, query - t), 1, a->from + c)];
            dq[c] += ds * k;
        }
    }
    for (int64_t c = 0; c < a->cols; c++) dq[c] *= a->scale;
}

/* The gradients of a key, the token at `place`, and of its value: dk and dv
 * [cols]. */
static inline void key_din(const head *a, int64_t other, int64_t place, tri_run_rows queries, double *dk, double *dv) {
    double weight, ds;
    for (int64_t c = 0; c < a->cols; c++) dk[c] = dv[c] = 0;
    EACH_LISTED(a, a->queries, place, queries, t) {
        slope(a, t, other, &weight, &ds);
        for (int64_t c = 0; c < a->cols; c++) {
            double q = a->q[t * a->ld_q + a->from + c];
            if (a->terms & 2) q += a->table[entry(a, bucket_of(a, t - other), 0, a->from + c)];
            dk[c] += ds * q;
            dv[c] += weight * a->dctx[(t + a->after) * a->H + a->from + c];
        }
    }
    for (int64_t c = 0; c < a->cols; c++) dk[c] *= a->scale;
}
