/* attention.h - what rows of attention share: a head, its scores, masks and the gradients of its weights. */
#ifndef TRI_DEVICE_CPU_REFERENCE_ATTENTION_H
#define TRI_DEVICE_CPU_REFERENCE_ATTENTION_H

#include "device/cpu/reference/reference.h"

/* One head and the position of its columns. Below, a sequence is rows [begin, end). */
typedef struct head {
    const tri_call *call;
    const float *qkv;      /* [T,3H] */
    const int32_t *key;    /* [T,2]; NULL without dropout */
    int64_t H, d, h;       /* columns of ctx, of one head; the head's index on this rank */
} head;

static inline head head_at(const tri_call *call, int qkv, int key, int64_t H, int64_t h) {
    return (head){call, f32(call, qkv), i32(call, key), H, H / call->attr->heads, h};
}

/* Element c of the head's query (part 0), key (1) or value (2) of row t. */
static inline int64_t column(const head *a, int64_t t, int part, int64_t c) {
    return t * 3 * a->H + part * a->H + a->h * a->d + c;
}

static inline double score(const head *a, int64_t query, int64_t other) {
    double sum = 0;
    for (int64_t c = 0; c < a->d; c++) sum += (double)a->qkv[column(a, query, 0, c)] * a->qkv[column(a, other, 1, c)];
    return sum / sqrt((double)a->d);
}

/* The dropout factor of the weight that row `query` gives to row `other`. */
static inline double kept(const head *a, int64_t query, int64_t other) {
    const tri_attr *attr = a->call->attr;
    int64_t place = a->key ? a->key[2 * other + 1] : 0;
    return keep(a->call, a->key, query, (attr->head0 + a->h) * attr->max_len + place);
}

/* For the weight that `query` gives to `other`: its value after dropout, and the gradient of the scaled score. `row` is
 * the row of dctx, ctx and lse that belongs to query. */
static inline void weight_gradient(const head *a, int64_t query, int64_t row, int64_t other, double *weight,
                                   double *ds) {
    OPERANDS(attention_din); /* the other gradients have these operands at the same places */
    int64_t at = row * a->H + a->h * a->d;
    const float *dctx = f32(a->call, ARG(dctx)) + at, *ctx = f32(a->call, ARG(ctx)) + at; /* [d] */
    double p = exp(score(a, query, other) - f32(a->call, ARG(lse))[row * a->call->attr->heads + a->h]);
    double m = kept(a, query, other), dp = 0, mean = 0; /* mean = sum_k p_k dp_k */
    for (int64_t c = 0; c < a->d; c++) {
        dp += m * dctx[c] * a->qkv[column(a, other, 2, c)];
        mean += (double)dctx[c] * ctx[c];
    }
    *weight = p * m;
    *ds = p * (dp - mean);
}

#endif
