/* attention_sparse.c - attention over present blocks (layout/blocks.h) alone: as attention.c, where a query attends
 * only to the keys of the blocks that its own block lists, and of these, with attr.window, to those at most as many
 * tokens away. Sums go over blocks, and the rows of a block, in order. */
#include "device/cpu/reference/attention.h"

#include "layout/blocks.h"

/* One head of one sequence, rows [begin, end). */
typedef struct blocked {
    head of;
    tri_block_lists keys, queries; /* key blocks of each block of queries; query blocks of each block of keys */
    int64_t begin, end, block;     /* block: tokens */
    int64_t window;                /* tokens; longer than any sequence where there is none */
} blocked;

static blocked blocked_at(const tri_call *call, int qkv, int blocks, int key, int64_t H, int64_t h,
                          const int32_t *seq) {
    int64_t number = call->attr->head0 + h;
    return (blocked){head_at(call, qkv, key, H, h), tri__blocks_of_queries(i32(call, blocks), number),
                     tri__blocks_of_keys(i32(call, blocks), number), seq[0], seq[1], call->attr->block,
                     call->attr->window ? call->attr->window : INT32_MAX};
}

/* Each row t of the blocks in the list of row's block, within the window: list entries beyond the sequence have
 * none. */
#define EACH_LISTED(a, lists, row, t)                                                                              \
    for (int32_t at_ = (lists).at[((row) - (a)->begin) / (a)->block];                                              \
         at_ < (lists).at[((row) - (a)->begin) / (a)->block + 1]; at_++)                                           \
        for (int64_t t = (a)->begin + (lists).of[at_] * (a)->block;                                                \
             t < (a)->end && t < (a)->begin + ((lists).of[at_] + 1) * (a)->block; t++)                             \
            if (t - (row) <= (a)->window && (row) - t <= (a)->window)

/* The context of row `query`, stored in row `to` of ctx and lse. */
static void attend(const blocked *a, int64_t query, int64_t to) {
    OPERANDS(attention_sparse);  /* same order as attention_sparse_first */
    const tri_call *call = a->of.call;
    const float *qkv = a->of.qkv;
    double *out = call->work; /* [d] */
    double max = -INFINITY, sum = 0;
    EACH_LISTED(a, a->keys, query, t) {
        double s = score(&a->of, query, t);
        max = s > max ? s : max;
    }
    for (int64_t c = 0; c < a->of.d; c++) out[c] = 0;
    EACH_LISTED(a, a->keys, query, t) {
        double p = exp(score(&a->of, query, t) - max), weight = p * kept(&a->of, query, t);
        sum += p;
        for (int64_t c = 0; c < a->of.d; c++) out[c] += weight * qkv[column(&a->of, t, 2, c)];
    }
    store(call, ARG(lse), to * call->attr->heads + a->of.h, max + log(sum));
    for (int64_t c = 0; c < a->of.d; c++)
        store(call, ARG(ctx), to * a->of.H + a->of.h * a->of.d + c, out[c] / sum);
}

static void attention_sparse(const tri_call *call) {
    OPERANDS(attention_sparse);
    const int32_t *seq = i32(call, ARG(seq)); /* [S] */
    int64_t S = call->t[ARG(seq)].rows, T = call->t[ARG(ctx)].rows, H = call->t[ARG(ctx)].cols,
            heads = call->attr->heads;
    for (int64_t s = 0; s + 1 < S; s++)
        for (int64_t h = 0; h < heads; h++) {
            blocked a = blocked_at(call, ARG(qkv), ARG(blocks), ARG(key), H, h, seq + s);
            for (int64_t t = seq[s]; t < seq[s + 1]; t++) attend(&a, t, t);
        }
    for (int64_t i = seq[S - 1] * H; i < T * H; i++) store(call, ARG(ctx), i, 0);
    for (int64_t i = seq[S - 1] * heads; i < T * heads; i++) store(call, ARG(lse), i, 0);
}

static void attention_sparse_first(const tri_call *call) {
    OPERANDS(attention_sparse_first);
    const int32_t *seq = i32(call, ARG(seq)); /* [S] */
    for (int64_t s = 0; s < call->t[ARG(ctx)].rows; s++)
        for (int64_t h = 0; h < call->attr->heads; h++) {
            blocked a = blocked_at(call, ARG(qkv), ARG(blocks), ARG(key), call->t[ARG(ctx)].cols, h, seq + s);
            attend(&a, seq[s], s);
        }
}

/* The gradients of one row's query (over all rows it attends to), key and value (over all rows that attend to it). */
static void attend_din(const blocked *a, int64_t row) {
    OPERANDS(attention_sparse_din);
    const tri_call *call = a->of.call;
    const float *qkv = a->of.qkv, *dctx = f32(call, ARG(dctx)) + a->of.h * a->of.d; /* [T,H] from this head's columns */
    double *dq = call->work, *dk = dq + a->of.d, *dv = dk + a->of.d;                /* [d] */
    double scale = 1 / sqrt((double)a->of.d), weight, ds;
    for (int64_t c = 0; c < a->of.d; c++) dq[c] = dk[c] = dv[c] = 0;
    EACH_LISTED(a, a->keys, row, t) {
        weight_gradient(&a->of, row, row, t, &weight, &ds);
        for (int64_t c = 0; c < a->of.d; c++) dq[c] += ds * qkv[column(&a->of, t, 1, c)];
    }
    EACH_LISTED(a, a->queries, row, t) {
        weight_gradient(&a->of, t, t, row, &weight, &ds);
        for (int64_t c = 0; c < a->of.d; c++) {
            dk[c] += ds * qkv[column(&a->of, t, 0, c)];
            dv[c] += weight * dctx[t * a->of.H + c];
        }
    }
    for (int64_t c = 0; c < a->of.d; c++) {
        store(call, ARG(dqkv), column(&a->of, row, 0, c), dq[c] * scale);
        store(call, ARG(dqkv), column(&a->of, row, 1, c), dk[c] * scale);
        store(call, ARG(dqkv), column(&a->of, row, 2, c), dv[c]);
    }
}

static void attention_sparse_din(const tri_call *call) {
    OPERANDS(attention_sparse_din);
    const int32_t *seq = i32(call, ARG(seq)); /* [S] */
    int64_t S = call->t[ARG(seq)].rows, T = call->t[ARG(dqkv)].rows, H = call->t[ARG(dctx)].cols;
    for (int64_t s = 0; s + 1 < S; s++)
        for (int64_t h = 0; h < call->attr->heads; h++) {
            blocked a = blocked_at(call, ARG(qkv), ARG(blocks), ARG(key), H, h, seq + s);
            for (int64_t t = seq[s]; t < seq[s + 1]; t++) attend_din(&a, t);
        }
    for (int64_t i = seq[S - 1] * 3 * H; i < T * 3 * H; i++) store(call, ARG(dqkv), i, 0);
}

/* The gradients of the first query, the only one that attends, and of the keys and values that it attends to; row s of
 * dctx is its. Those of other rows are 0. */
static void attend_first_din(const blocked *a, int64_t s) {
    OPERANDS(attention_sparse_first_din);
    const tri_call *call = a->of.call;
    const float *qkv = a->of.qkv, *dctx = f32(call, ARG(dctx)) + s * a->of.H + a->of.h * a->of.d; /* [d] */
    double *dq = call->work;                                                                      /* [d] */
    double scale = 1 / sqrt((double)a->of.d), weight, ds;
    for (int64_t t = a->begin; t < a->end && !adds(call, ARG(dqkv)); t++)
        for (int64_t c = 0; c < 3 * a->of.d; c++)
            store(call, ARG(dqkv), column(&a->of, t, (int)(c / a->of.d), c % a->of.d), 0);
    for (int64_t c = 0; c < a->of.d; c++) dq[c] = 0;
    EACH_LISTED(a, a->keys, a->begin, t) {
        weight_gradient(&a->of, a->begin, s, t, &weight, &ds);
        for (int64_t c = 0; c < a->of.d; c++) {
            dq[c] += ds * qkv[column(&a->of, t, 1, c)];
            store(call, ARG(dqkv), column(&a->of, t, 1, c), ds * qkv[column(&a->of, a->begin, 0, c)] * scale);
            store(call, ARG(dqkv), column(&a->of, t, 2, c), weight * dctx[c]);
        }
    }
    for (int64_t c = 0; c < a->of.d; c++) store(call, ARG(dqkv), column(&a->of, a->begin, 0, c), dq[c] * scale);
}

static void attention_sparse_first_din(const tri_call *call) {
    OPERANDS(attention_sparse_first_din);
    const int32_t *seq = i32(call, ARG(seq)); /* [S] */
    int64_t N = call->t[ARG(dctx)].rows, T = call->t[ARG(dqkv)].rows, H = call->t[ARG(dctx)].cols;
    for (int64_t s = 0; s < N; s++)
        for (int64_t h = 0; h < call->attr->heads; h++) {
            blocked a = blocked_at(call, ARG(qkv), ARG(blocks), ARG(key), H, h, seq + s);
            attend_first_din(&a, s);
        }
    for (int64_t i = seq[N] * 3 * H; i < T * 3 * H; i++) store(call, ARG(dqkv), i, 0);
}

/* Scratch: at most three doubles per column of a head. */
const tri_kernel_row tri__cpu_attention_sparse_reference[] = {
    {.op = TRI_OP_attention_sparse, .dtype = TRI_F32, .run = attention_sparse, .work = {.col = 8}},
    {.op = TRI_OP_attention_sparse_din, .dtype = TRI_F32, .run = attention_sparse_din, .work = {.col = 24}},
    {.op = TRI_OP_attention_sparse_first, .dtype = TRI_F32, .run = attention_sparse_first, .work = {.col = 8}},
    {.op = TRI_OP_attention_sparse_first_din, .dtype = TRI_F32, .run = attention_sparse_first_din, .work = {.col = 8}},
    {.run = NULL},
};
