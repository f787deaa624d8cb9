/* attention_part.c - attention of a run's queries to the keys of a run: parts of attention over sequences of which each
 * rank of a ring has a chunk (layout/runs.h), and how parts are joined. A softmax over two sets of keys is the mean of
 * those over each, weighted by their sums of exponentials (Milakov and Gimelshein, 2018). */
#include "device/cpu/reference/reference.h"
#include "layout/blocks.h"
#include "layout/runs.h"

#define NO_KEYS (-1e30) /* lse of a row without keys: finite, and its weight is 0 beside any other */

/* Both forms of an operation, whose operands differ in `blocks` alone: the operand's number in this call; -1: none. */
static int arg_of(const tri_call *call, const char *name) { return tri__row_arg(tri__call_row(call), name); }

/* One head: queries and keys are rows of two matrices, each a run. */
typedef struct part_head {
    const tri_call *call;
    const float *q, *k, *v;      /* from this head's first column on */
    int64_t ld_q, ld_kv, d, h;   /* columns of a row; of one head; the head's index on this rank */
    const int32_t *key;          /* [K,2] of all runs; NULL without dropout */
    int64_t key0;                /* the first of the keys' rows among those of all runs */
    const int32_t *blocks;       /* layout/blocks.h; NULL: all keys */
} part_head;

/* Whether the query at a place of its sequence attends to the key at another one. */
static int attends(const part_head *a, int64_t query, int64_t other) {
    if (!a->blocks) return 1;
    int64_t block = a->call->attr->block, window = a->call->attr->window;
    if (window && (other - query > window || query - other > window)) return 0;
    tri_block_lists lists = tri__blocks_of_queries(a->blocks, a->call->attr->head0 + a->h);
    for (int32_t i = lists.at[query / block]; i < lists.at[query / block + 1]; i++)
        if (lists.of[i] == other / block) return 1;
    return 0;
}

/* Each row t of `rows` whose token the query at `place` attends to. */
#define EACH_KEY(a, place_, rows, t)                           \
    for (int64_t t = (rows).begin; t < (rows).end; t++)        \
        if (attends(a, place_, (rows).place + t - (rows).begin))

static double score(const part_head *a, int64_t query, int64_t other) {
    double sum = 0;
    for (int64_t c = 0; c < a->d; c++) sum += (double)a->q[query * a->ld_q + c] * a->k[other * a->ld_kv + c];
    return sum / sqrt((double)a->d);
}

/* The dropout factor of a weight; asks: the query's row among those of all runs. */
static double kept(const part_head *a, int64_t asks, int64_t other) {
    const tri_attr *attr = a->call->attr;
    int64_t place = a->key ? a->key[2 * (a->key0 + other) + 1] : 0;
    return keep(a->call, a->key, asks, (attr->head0 + a->h) * attr->max_len + place);
}

/* The context out [d] of a query, the token at `place` of its sequence, and its lse, which is returned. */
static double attend(const part_head *a, int64_t query, int64_t asks, int64_t place, tri_run_rows keys, double *out) {
    double max = -INFINITY, sum = 0;
    for (int64_t c = 0; c < a->d; c++) out[c] = 0;
    EACH_KEY(a, place, keys, t) {
        double s = score(a, query, t);
        max = s > max ? s : max;
    }
    if (isinf(max)) return NO_KEYS;
    EACH_KEY(a, place, keys, t) {
        double p = exp(score(a, query, t) - max), weight = p * kept(a, asks, t);
        sum += p;
        for (int64_t c = 0; c < a->d; c++) out[c] += weight * a->v[t * a->ld_kv + c];
    }
    for (int64_t c = 0; c < a->d; c++) out[c] /= sum;
    return max + log(sum);
}

/* For the weight that a query gives to a key: its value after dropout, and the gradient of the scaled score. dctx and
 * ctx [d], lse: the query's. */
static void weight_gradient(const part_head *a, int64_t query, int64_t asks, int64_t other, const float *dctx,
                            const float *ctx, double lse, double *weight, double *ds) {
    double p = exp(score(a, query, other) - lse), m = kept(a, asks, other), dp = 0, mean = 0;
    for (int64_t c = 0; c < a->d; c++) {
        dp += m * dctx[c] * a->v[other * a->ld_kv + c];
        mean += (double)dctx[c] * ctx[c];
    }
    *weight = p * m;
    *ds = p * (dp - mean);
}

static void add_to(float *at, double value) { *at = (float)(*at + value); }

static tri_run_rows run_of(const tri_call *call, int seq, int64_t s, int64_t run) {
    return tri__ring_run(i32(call, seq), s, run, call->attr->members);
}

static void kv_part(const tri_call *call) {
    OPERANDS(kv_part);
    int64_t T = call->t[ARG(y)].rows, to = call->t[ARG(y)].cols, from = call->t[ARG(x)].cols;
    for (int64_t i = 0; i < T * to; i++) {
        int64_t column = i % to + from - to; /* the last ones are the same */
        store(call, ARG(y), i, column < 0 ? 0 : f32(call, ARG(x))[i / to * from + column]);
    }
}

static const int32_t *blocks_of(const tri_call *call) {
    int blocks = arg_of(call, "blocks");
    return blocks < 0 ? NULL : i32(call, blocks);
}

/* A head of queries in qkv [T,3H] and keys in kv [T,2H]; key0: of run attr.part. */
static part_head ring_head(const tri_call *call, int qkv, int kv, int64_t h) {
    int64_t T = call->t[qkv].rows, H = call->t[kv].cols / 2, d = H / call->attr->heads;
    const float *k = f32(call, kv) + h * d;
    return (part_head){call, f32(call, qkv) + h * d, k, k + H, 3 * H, 2 * H, d, h, i32(call, arg_of(call, "key")),
                       call->attr->part * T, blocks_of(call)};
}

static void attention_part(const tri_call *call) {
    OPERANDS(attention_part);
    int64_t S = call->t[ARG(seq)].rows, T = call->t[ARG(ctx)].rows, H = call->t[ARG(ctx)].cols,
            heads = call->attr->heads;
    double *out = call->work; /* [d] */
    for (int64_t i = 0; i < T * H; i++) store(call, ARG(ctx), i, 0);
    for (int64_t i = 0; i < T * heads; i++) store(call, ARG(lse), i, 0);
    for (int64_t s = 0; s + 1 < S; s++)
        for (int64_t h = 0; h < heads; h++) {
            part_head a = ring_head(call, ARG(qkv), ARG(kv), h);
            tri_run_rows own = run_of(call, ARG(seq), s, call->attr->run);
            tri_run_rows keys = run_of(call, ARG(seq), s, call->attr->part);
            for (int64_t t = own.begin; t < own.end; t++) {
                double lse = attend(&a, t, call->attr->run * T + t, own.place + t - own.begin, keys, out);
                store(call, ARG(lse), t * heads + h, lse);
                for (int64_t c = 0; c < a.d; c++) store(call, ARG(ctx), t * H + h * a.d + c, out[c]);
            }
        }
}

/* The gradients of one pair of runs of a sequence. Sums over one of them are in double: dq first, then dk and dv. */
static void part_din(const tri_call *call, const part_head *a, tri_run_rows own, tri_run_rows keys) {
    OPERANDS(attention_part_din);
    int64_t T = call->t[ARG(dctx)].rows, H = call->t[ARG(dctx)].cols, heads = call->attr->heads, at = a->h * a->d;
    const float *dctx = f32(call, ARG(dctx)) + at, *ctx = f32(call, ARG(ctx)) + at, *lse = f32(call, ARG(lse)) + a->h;
    float *dq = f32(call, ARG(dqkv)) + at, *dk = f32(call, ARG(dkv)) + at;
    double scale = 1 / sqrt((double)a->d), weight, ds, *sum = call->work; /* [2,d] */
    for (int64_t t = own.begin; t < own.end; t++) {
        for (int64_t c = 0; c < a->d; c++) sum[c] = 0;
        EACH_KEY(a, own.place + t - own.begin, keys, u) {
            weight_gradient(a, t, call->attr->run * T + t, u, dctx + t * H, ctx + t * H, lse[t * heads], &weight, &ds);
            for (int64_t c = 0; c < a->d; c++) sum[c] += ds * a->k[u * a->ld_kv + c];
        }
        for (int64_t c = 0; c < a->d; c++) add_to(&dq[t * 3 * H + c], sum[c] * scale);
    }
    for (int64_t u = keys.begin; u < keys.end; u++) {
        for (int64_t c = 0; c < 2 * a->d; c++) sum[c] = 0;
        for (int64_t t = own.begin; t < own.end; t++) {
            if (!attends(a, own.place + t - own.begin, keys.place + u - keys.begin)) continue;
            weight_gradient(a, t, call->attr->run * T + t, u, dctx + t * H, ctx + t * H, lse[t * heads], &weight, &ds);
            for (int64_t c = 0; c < a->d; c++) {
                sum[c] += ds * a->q[t * a->ld_q + c];
                sum[a->d + c] += weight * dctx[t * H + c];
            }
        }
        for (int64_t c = 0; c < a->d; c++) {
            add_to(&dk[u * 2 * H + c], sum[c] * scale);
            add_to(&dk[u * 2 * H + H + c], sum[a->d + c]);
        }
    }
}

static void attention_part_din(const tri_call *call) {
    OPERANDS(attention_part_din);
    clear(call, ARG(dqkv));
    clear(call, ARG(dkv));
    for (int64_t s = 0; s + 1 < call->t[ARG(seq)].rows; s++)
        for (int64_t h = 0; h < call->attr->heads; h++) {
            part_head a = ring_head(call, ARG(qkv), ARG(kv), h);
            part_din(call, &a, run_of(call, ARG(seq), s, call->attr->run),
                     run_of(call, ARG(seq), s, call->attr->part));
        }
}

static void attention_join(const tri_call *call) {
    OPERANDS(attention_join);
    int64_t T = call->t[ARG(ctx)].rows, H = call->t[ARG(ctx)].cols, heads = call->attr->heads, d = H / heads;
    float *ctx = f32(call, ARG(ctx)), *lse = f32(call, ARG(lse));
    const float *more = f32(call, ARG(more)), *logs = f32(call, ARG(logs));
    for (int64_t i = 0; i < T * heads; i++) {
        double max = lse[i] > logs[i] ? lse[i] : logs[i], w = exp(lse[i] - max), v = exp(logs[i] - max);
        lse[i] = (float)(max + log(w + v));
        for (int64_t c = i * d; c < (i + 1) * d; c++) ctx[c] = (float)((w * ctx[c] + v * more[c]) / (w + v));
    }
}

/* A head of first tokens' queries in q [N,3H], and keys of this run in qkv [T,3H]. */
static part_head first_head(const tri_call *call, int q, int qkv, int64_t h) {
    int64_t T = call->t[qkv].rows, H = call->t[qkv].cols / 3, d = H / call->attr->heads;
    const float *k = f32(call, qkv) + H + h * d;
    return (part_head){call, f32(call, q) + h * d, k, k + H, 3 * H, 3 * H, d, h, i32(call, arg_of(call, "key")),
                       call->attr->part * T, blocks_of(call)};
}

static void attention_first_part(const tri_call *call) {
    OPERANDS(attention_first_part);
    int64_t N = call->t[ARG(y)].rows, G = call->t[ARG(y)].cols, H = call->t[ARG(qkv)].cols / 3;
    int64_t at = call->attr->part * (H + call->attr->heads);
    double *out = call->work; /* [d] */
    clear(call, ARG(y));
    for (int64_t s = 0; s < N; s++)
        for (int64_t h = 0; h < call->attr->heads; h++) {
            part_head a = first_head(call, ARG(q), ARG(qkv), h);
            float *y = f32(call, ARG(y)) + s * G + at;
            y[H + h] = (float)attend(&a, s, run_of(call, ARG(seq), s, 0).begin, 0,
                                     run_of(call, ARG(seq), s, call->attr->part), out);
            for (int64_t c = 0; c < a.d; c++) y[h * a.d + c] = (float)out[c];
        }
}

static void attention_first_join(const tri_call *call) {
    OPERANDS(attention_first_join);
    int64_t N = call->t[ARG(ctx)].rows, H = call->t[ARG(ctx)].cols, heads = call->attr->heads, d = H / heads;
    int64_t n = call->attr->members, each = H + heads;
    for (int64_t i = 0; i < N * heads; i++) {
        int64_t s = i / heads, h = i % heads;
        const float *y = f32(call, ARG(y)) + s * n * each; /* [n,each] */
        double max = -INFINITY, sum = 0;
        for (int64_t k = 0; k < n; k++) max = y[k * each + H + h] > max ? y[k * each + H + h] : max;
        for (int64_t k = 0; k < n; k++) sum += exp(y[k * each + H + h] - max);
        store(call, ARG(lse), i, max + log(sum));
        for (int64_t c = h * d; c < (h + 1) * d; c++) {
            double total = 0;
            for (int64_t k = 0; k < n; k++) total += exp(y[k * each + H + h] - max) * y[k * each + c];
            store(call, ARG(ctx), s * H + c, total / sum);
        }
    }
}

static void attention_first_part_din(const tri_call *call) {
    OPERANDS(attention_first_part_din);
    int64_t N = call->t[ARG(dctx)].rows, H = call->t[ARG(dctx)].cols, heads = call->attr->heads, d = H / heads;
    double scale = 1 / sqrt((double)d), weight, ds, *sum = call->work; /* [d] */
    clear(call, ARG(dqkv));
    clear(call, ARG(dq));
    for (int64_t i = 0; i < N * heads; i++) {
        int64_t s = i / heads, h = i % heads;
        part_head a = first_head(call, ARG(q), ARG(qkv), h);
        tri_run_rows keys = run_of(call, ARG(seq), s, call->attr->part);
        const float *dctx = f32(call, ARG(dctx)) + i * d, *ctx = f32(call, ARG(ctx)) + i * d; /* [d] */
        for (int64_t c = 0; c < d; c++) sum[c] = 0;
        EACH_KEY(&a, 0, keys, t) {
            float *dk = f32(call, ARG(dqkv)) + t * 3 * H + H + h * d;
            weight_gradient(&a, s, run_of(call, ARG(seq), s, 0).begin, t, dctx, ctx, f32(call, ARG(lse))[i], &weight,
                            &ds);
            for (int64_t c = 0; c < d; c++) {
                sum[c] += ds * a.k[t * a.ld_kv + c];
                add_to(&dk[c], ds * a.q[s * a.ld_q + c] * scale);
                add_to(&dk[H + c], weight * dctx[c]);
            }
        }
        for (int64_t c = 0; c < d; c++) f32(call, ARG(dq))[s * 3 * H + h * d + c] = (float)(sum[c] * scale);
    }
}

/* Scratch: doubles of a head's columns, which are at most those of the first operand. */
const tri_kernel_row tri__cpu_attention_part_reference[] = {
    {.op = TRI_OP_kv_part, .dtype = TRI_F32, .run = kv_part},
    {.op = TRI_OP_attention_part, .dtype = TRI_F32, .run = attention_part, .work = {.col = 8}},
    {.op = TRI_OP_attention_part_din, .dtype = TRI_F32, .run = attention_part_din, .work = {.col = 8}},
    {.op = TRI_OP_attention_join, .dtype = TRI_F32, .run = attention_join},
    {.op = TRI_OP_attention_first_part, .dtype = TRI_F32, .run = attention_first_part, .work = {.col = 8}},
    {.op = TRI_OP_attention_first_join, .dtype = TRI_F32, .run = attention_first_join},
    {.op = TRI_OP_attention_first_part_din, .dtype = TRI_F32, .run = attention_first_part_din, .work = {.col = 8}},
    {.op = TRI_OP_attention_sparse_part, .dtype = TRI_F32, .run = attention_part, .work = {.col = 8}},
    {.op = TRI_OP_attention_sparse_part_din, .dtype = TRI_F32, .run = attention_part_din, .work = {.col = 8}},
    {.op = TRI_OP_attention_sparse_first_part, .dtype = TRI_F32, .run = attention_first_part, .work = {.col = 8}},
    {.op = TRI_OP_attention_sparse_first_part_din, .dtype = TRI_F32, .run = attention_first_part_din,
     .work = {.col = 8}},
    {.run = NULL},
};
