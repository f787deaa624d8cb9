/* attention.c - attention over packed sequences (Vaswani et al., 2017). The forward stores one number per row and head,
 * the log of the softmax's denominator, from which the backward recomputes the weights (Dao et al., 2022). Padding
 * rows, after the last sequence, produce 0 and receive 0. In attention_first, row s of ctx and lse belongs to the first
 * row of sequence s. */
#include "device/cpu/reference/attention.h"
#include "layout/mask_bits.h"

/* The context of row `query` of the sequence, stored in row `to` of ctx and lse. */
static void attend(const head *a, int64_t begin, int64_t end, int64_t query, int64_t to) {
    OPERANDS(attention);         /* same order as attention_first */
    double *out = a->call->work; /* [d] */
    double max = -INFINITY, sum = 0;
    for (int64_t t = begin; t < end; t++) {
        double s = score(a, query, t);
        max = s > max ? s : max;
    }
    for (int64_t c = 0; c < a->d; c++) out[c] = 0;
    for (int64_t t = begin; t < end; t++) {
        double p = exp(score(a, query, t) - max), weight = p * kept(a, query, t);
        sum += p;
        for (int64_t c = 0; c < a->d; c++) out[c] += weight * a->qkv[column(a, t, 2, c)];
    }
    store(a->call, ARG(lse), to * a->call->attr->heads + a->h, max + log(sum));
    for (int64_t c = 0; c < a->d; c++) store(a->call, ARG(ctx), to * a->H + a->h * a->d + c, out[c] / sum);
}

static void attention(const tri_call *call) {
    OPERANDS(attention);
    const int32_t *seq = i32(call, ARG(seq)); /* [S] */
    int64_t S = call->t[ARG(seq)].rows, T = call->t[ARG(ctx)].rows, H = call->t[ARG(ctx)].cols,
            heads = call->attr->heads;
    for (int64_t s = 0; s + 1 < S; s++)
        for (int64_t h = 0; h < heads; h++) {
            head a = head_at(call, ARG(qkv), ARG(key), H, h);
            for (int64_t t = seq[s]; t < seq[s + 1]; t++) attend(&a, seq[s], seq[s + 1], t, t);
        }
    for (int64_t i = seq[S - 1] * H; i < T * H; i++) store(call, ARG(ctx), i, 0);
    for (int64_t i = seq[S - 1] * heads; i < T * heads; i++) store(call, ARG(lse), i, 0);
}

/* Word `at` of the tile of 16 queries from the sequence's row `query` on, and 64 keys from `other` on. Rows after the
 * last of the sequence count on. */
static uint32_t mask_word(const tri_call *call, const int32_t *key, int64_t h, int64_t query, int64_t other, int at) {
    const tri_attr *attr = call->attr;
    uint32_t word = 0, threshold = tri__random_threshold(attr->p);
    for (int bit = 0; bit < 32; bit++) {
        int64_t row = query + at % 16 / 2 + bit / 4 % 2 * 8,
                column = other + bit / 8 % 2 * 32 + (at / 16 * 2 + at % 2) * 8 + bit % 4 * 2 + bit / 16;
        int64_t feature = (attr->head0 + h) * attr->max_len + key[1] + column;
        tri_random random = tri__philox(call->seed, attr->id, call->step, (uint32_t)key[0], (uint32_t)(key[1] + row),
                                        (uint32_t)(feature / 8));
        word |= (uint32_t)(tri__random_decision(&random, (unsigned)(feature % 8)) >= threshold) << bit;
    }
    return word;
}

static void write_mask(const tri_call *call) {
    OPERANDS(attention_bits);
    const int32_t *seq = i32(call, ARG(seq)), *key = i32(call, ARG(key)); /* [S] [T,2] */
    int32_t *bits = call->t[ARG(bits)].data;                              /* [T,M], in tiles of its own */
    int64_t S = call->t[ARG(seq)].rows, heads = call->attr->heads, tiles = tri__mask_tiles(call->attr->max_len);
    if (call->attr->p == 0 ||
        !tri__mask_fits(call->t[ARG(bits)].rows, call->t[ARG(bits)].cols, S - 1, heads, call->attr->max_len))
        return;
    for (int64_t s = 0; s + 1 < S; s++)
        for (int64_t query = 0; query < seq[s + 1] - seq[s]; query += TRI_MASK_QUERIES)
            for (int64_t h = 0; h < heads; h++)
                for (int64_t other = 0; other < seq[s + 1] - seq[s]; other += TRI_MASK_KEYS) {
                    int64_t granule = seq[s] / TRI_MASK_QUERIES + s + query / TRI_MASK_QUERIES;
                    int32_t *tile = bits + ((granule * heads + h) * tiles + other / TRI_MASK_KEYS) * TRI_MASK_WORDS;
                    for (int at = 0; at < TRI_MASK_WORDS; at++)
                        tile[at] = (int32_t)mask_word(call, key + 2 * seq[s], h, query, other, at);
                }
}

static void attention_bits(const tri_call *call) {
    OPERANDS(attention_bits);
    tri_call plain = *call;
    plain.t[TRI_ARG(attention, qkv)] = call->t[ARG(qkv)];
    plain.t[TRI_ARG(attention, seq)] = call->t[ARG(seq)];
    plain.t[TRI_ARG(attention, key)] = call->t[ARG(key)];
    attention(&plain);
    write_mask(call);
}

static void attention_first(const tri_call *call) {
    OPERANDS(attention_first);
    const int32_t *seq = i32(call, ARG(seq)); /* [S] */
    for (int64_t s = 0; s < call->t[ARG(ctx)].rows; s++)
        for (int64_t h = 0; h < call->attr->heads; h++) {
            head a = head_at(call, ARG(qkv), ARG(key), call->t[ARG(ctx)].cols, h);
            attend(&a, seq[s], seq[s + 1], seq[s], s);
        }
}

/* The gradients of one row's query (over all rows it attends to), key and value (over all rows that attend to it). */
static void attend_din(const head *a, int64_t begin, int64_t end, int64_t row) {
    OPERANDS(attention_din);
    int64_t n = end - begin;
    double *out_ds = a->call->work, *in_ds = out_ds + n,
           *in_weight = in_ds + n; /* [n]: of row's weights; of the weights that others give to row */
    double scale = 1 / sqrt((double)a->d), unused;
    for (int64_t j = 0; j < n; j++) {
        weight_gradient(a, row, row, begin + j, &unused, &out_ds[j]);
        weight_gradient(a, begin + j, begin + j, row, &in_weight[j], &in_ds[j]);
    }
    for (int64_t c = 0; c < a->d; c++) {
        double dq = 0, dk = 0, dv = 0;
        for (int64_t j = 0; j < n; j++) {
            dq += out_ds[j] * a->qkv[column(a, begin + j, 1, c)];
            dk += in_ds[j] * a->qkv[column(a, begin + j, 0, c)];
            dv += in_weight[j] * f32(a->call, ARG(dctx))[(begin + j) * a->H + a->h * a->d + c];
        }
        store(a->call, ARG(dqkv), column(a, row, 0, c), dq * scale);
        store(a->call, ARG(dqkv), column(a, row, 1, c), dk * scale);
        store(a->call, ARG(dqkv), column(a, row, 2, c), dv);
    }
}

static void attention_din(const tri_call *call) {
    OPERANDS(attention_din);
    const int32_t *seq = i32(call, ARG(seq)); /* [S] */
    int64_t S = call->t[ARG(seq)].rows, T = call->t[ARG(dqkv)].rows, H = call->t[ARG(dctx)].cols;
    for (int64_t s = 0; s + 1 < S; s++)
        for (int64_t h = 0; h < call->attr->heads; h++) {
            head a = head_at(call, ARG(qkv), ARG(key), H, h);
            for (int64_t t = seq[s]; t < seq[s + 1]; t++) attend_din(&a, seq[s], seq[s + 1], t);
        }
    for (int64_t i = seq[S - 1] * 3 * H; i < T * 3 * H; i++) store(call, ARG(dqkv), i, 0);
}

/* The gradients of a sequence's keys, values and first query, the only query that attends. */
static void attend_first_din(const head *a, int64_t begin, int64_t end, int64_t s) {
    OPERANDS(attention_first_din);
    const float *dctx = f32(a->call, ARG(dctx)) + s * a->H + a->h * a->d; /* [d] */
    double *dq = a->call->work;                                           /* [d] */
    double scale = 1 / sqrt((double)a->d), weight, ds;
    for (int64_t c = 0; c < a->d; c++) dq[c] = 0;
    for (int64_t t = begin; t < end; t++) {
        weight_gradient(a, begin, s, t, &weight, &ds);
        for (int64_t c = 0; c < a->d; c++) {
            dq[c] += ds * a->qkv[column(a, t, 1, c)];
            if (t > begin) store(a->call, ARG(dqkv), column(a, t, 0, c), 0);
            store(a->call, ARG(dqkv), column(a, t, 1, c), ds * a->qkv[column(a, begin, 0, c)] * scale);
            store(a->call, ARG(dqkv), column(a, t, 2, c), weight * dctx[c]);
        }
    }
    for (int64_t c = 0; c < a->d; c++) store(a->call, ARG(dqkv), column(a, begin, 0, c), dq[c] * scale);
}

static void attention_first_din(const tri_call *call) {
    OPERANDS(attention_first_din);
    const int32_t *seq = i32(call, ARG(seq)); /* [S] */
    int64_t N = call->t[ARG(dctx)].rows, T = call->t[ARG(dqkv)].rows, H = call->t[ARG(dctx)].cols;
    for (int64_t s = 0; s < N; s++)
        for (int64_t h = 0; h < call->attr->heads; h++) {
            head a = head_at(call, ARG(qkv), ARG(key), H, h);
            attend_first_din(&a, seq[s], seq[s + 1], s);
        }
    for (int64_t i = seq[N] * 3 * H; i < T * 3 * H; i++) store(call, ARG(dqkv), i, 0);
}

/* Scratch: one double per column of a head; or three per row of the longest sequence, which may contain all rows. */
const tri_kernel_row tri__cpu_attention_reference[] = {
    {.op = TRI_OP_attention, .dtype = TRI_F32, .run = attention, .work = {.col = 8}},
    {.op = TRI_OP_attention_bits, .dtype = TRI_F32, .run = attention_bits, .work = {.col = 8}},
    {.op = TRI_OP_attention_din, .dtype = TRI_F32, .run = attention_din, .work = {.row = 24}},
    {.op = TRI_OP_attention_first, .dtype = TRI_F32, .run = attention_first, .work = {.col = 8}},
    {.op = TRI_OP_attention_first_din, .dtype = TRI_F32, .run = attention_first_din, .work = {.col = 8}},
    {.run = NULL},
};
