/* attention.c - attention over packed sequences (Vaswani et al., 2017). The forward stores one number per row and head,
 * the log of the softmax's denominator, from which the backward recomputes the weights (Dao et al., 2022). Padding
 * rows, after the last sequence, produce 0 and receive 0. Of first tokens alone, row s of ctx and lse belongs to the
 * first row of sequence s. Scores may depend on distances (numbers/distance.h): MPNet's, which adds a number for each
 * bucket of distances (Raffel et al., 2020), and DeBERTa's disentangled attention (He et al., 2021), where query and
 * key also meet the bucket's own key and query. */
#include "device/cpu/reference/attention.h"
#include "layout/mask_bits.h"

/* A head of packed sequences, qkv [T,3H], and its columns of the table. */
static head packed_head(const tri_call *call, int qkv, int table, int blocks, int key, int64_t h) {
    const tri_attr *attr = call->attr;
    int64_t H = call->t[qkv].cols / 3;
    head a = head_at(call, f32(call, qkv), 3 * H, f32(call, qkv) + H, 3 * H, H, blocks, key, h);
    if (attr->score == TRI_SCORE_DOT) return a;
    a.table = f32(call, table), a.B = call->t[table].rows, a.ld_table = call->t[table].cols;
    a.terms = attr->score == TRI_SCORE_DISENTANGLED ? attr->terms : 0;
    a.scale = 1 / sqrt((double)a.d * (1 + (a.terms & 1) + (a.terms >> 1 & 1)));
    return a;
}

static tri_run_rows rows_of(const int32_t *seq, int64_t s) { return (tri_run_rows){seq[s], seq[s + 1], 0}; }

static tri_run_rows queries_of(const tri_call *call, tri_run_rows of) {
    if (call->attr->first) of.end = of.begin + 1;
    return of;
}

/* Zeroes rows of padding. */
static void store_padding(const tri_call *call, int k, int64_t first) {
    for (int64_t i = first * call->t[k].cols; i < call->t[k].rows * call->t[k].cols; i++) store(call, k, i, 0);
}

static void attention(const tri_call *call) {
    OPERANDS(attention);
    const int32_t *seq = i32(call, ARG(seq)); /* [S] */
    int64_t S = call->t[ARG(seq)].rows, heads = call->attr->heads;
    double *out = call->work; /* [d] */
    for (int64_t i = 0; i < (S - 1) * heads; i++) {
        int64_t s = i / heads, h = i % heads;
        head a = packed_head(call, ARG(qkv), ARG(rel), ARG(blocks), ARG(key), h);
        tri_run_rows all = rows_of(seq, s), queries = queries_of(call, all);
        for (int64_t t = queries.begin; t < queries.end; t++) {
            int64_t to = call->attr->first ? s : t;
            store(call, ARG(lse), to * heads + h, attend(&a, t, t - all.begin, all, out));
            for (int64_t c = 0; c < a.d; c++) store(call, ARG(ctx), to * a.H + h * a.d + c, out[c]);
        }
    }
    if (call->attr->first) return;
    store_padding(call, ARG(ctx), seq[S - 1]);
    store_padding(call, ARG(lse), seq[S - 1]);
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
    OPERANDS(attention);
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
    attention(call);
    write_mask(call);
}

/* The gradients of one row's query, if it is one, key and value. */
static void row_din(const head *a, tri_run_rows all, tri_run_rows queries, int64_t row) {
    OPERANDS(attention_din);
    double *dq = a->call->work, *dk = dq + a->cols, *dv = dk + a->cols; /* [cols] */
    int64_t at = row * 3 * a->H + a->h * a->d + a->from;
    for (int64_t c = 0; c < a->cols; c++) dq[c] = 0;
    if (row < queries.end) query_din(a, row, row - all.begin, all, dq);
    key_din(a, row, row - all.begin, queries, dk, dv);
    for (int64_t c = 0; c < a->cols; c++) {
        store(a->call, ARG(dqkv), at + c, dq[c]);
        store(a->call, ARG(dqkv), at + a->H + c, dk[c]);
        store(a->call, ARG(dqkv), at + 2 * a->H + c, dv[c]);
    }
}

/* Adds the gradients that all pairs at a distance have for their bucket: dq [d] and dk [d], and the sum of ds. */
static double sum_distance(const head *a, const int32_t *seq, int64_t sequences, int64_t distance, double *dq,
                           double *dk) {
    double sum = 0, unused, ds;
    for (int64_t s = 0; s < sequences; s++) {
        int64_t first = distance > 0 ? distance : 0, last = distance < 0 ? distance : 0; /* of the queries */
        for (int64_t i = seq[s] + first; i < seq[s + 1] + last; i++) {
            slope(a, i, i - distance, &unused, &ds);
            sum += ds;
            for (int64_t c = 0; c < a->d; c++) {
                dk[c] += ds * a->q[i * a->ld_q + c];
                dq[c] += ds * a->k[(i - distance) * a->ld_kv + c];
            }
        }
    }
    return sum;
}

/* The gradient of one row of the table, in this head's columns. */
static void bucket_din(const head *a, const int32_t *seq, int64_t sequences, int64_t longest, int64_t row) {
    OPERANDS(attention_din);
    const tri_call *call = a->call;
    double *dq = call->work, *dk = dq + a->d, sum = 0; /* [d] */
    for (int64_t c = 0; c < a->d; c++) dq[c] = dk[c] = 0;
    for (int64_t distance = 1 - longest; distance < longest; distance++)
        if (bucket_of(a, distance) == row) sum += sum_distance(a, seq, sequences, distance, dq, dk);
    if (call->attr->score == TRI_SCORE_BIASED) {
        store(call, ARG(db), row * a->ld_table + a->h, sum);
        return;
    }
    for (int64_t c = 0; c < a->d; c++) {
        store(call, ARG(db), entry(a, row, 0, c), a->terms & 2 ? dq[c] * a->scale : 0);
        store(call, ARG(db), entry(a, row, 1, c), a->terms & 1 ? dk[c] * a->scale : 0);
        store(call, ARG(db), entry(a, row, 2, c), 0);
    }
}

static void attention_din(const tri_call *call) {
    OPERANDS(attention_din);
    const int32_t *seq = i32(call, ARG(seq)); /* [S] */
    int64_t S = call->t[ARG(seq)].rows, longest = 0;
    for (int64_t s = 0; s + 1 < S; s++) longest = at_least(seq[s + 1] - seq[s], longest);
    for (int64_t h = 0; h < call->attr->heads; h++) {
        head a = packed_head(call, ARG(qkv), ARG(rel), ARG(blocks), ARG(key), h);
        set_results(&a, ARG(dctx), ARG(ctx), ARG(lse));
        for (int64_t s = 0; s + 1 < S; s++) {
            tri_run_rows all = rows_of(seq, s), queries = queries_of(call, all);
            a.after = call->attr->first ? s - seq[s] : 0;
            for (a.from = 0; a.from < a.d; a.from += a.cols) {
                a.cols = at_most(a.d - a.from, call->t[ARG(dqkv)].rows);
                for (int64_t t = all.begin; t < all.end; t++) row_din(&a, all, queries, t);
            }
        }
        for (int64_t row = 0; row < a.B; row++) bucket_din(&a, seq, S - 1, longest, row);
    }
    store_padding(call, ARG(dqkv), seq[S - 1]);
}

static void table(const tri_call *call) {
    OPERANDS(table);
    int64_t B = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols, first = (call->t[ARG(w)].rows - B) / 2;
    for (int64_t i = 0; i < B * H; i++) f32(call, ARG(y))[i] = f32(call, ARG(w))[first * H + i];
}

static void table_dw(const tri_call *call) {
    OPERANDS(table);
    int64_t V = call->t[ARG(y)].rows, B = call->t[ARG(w)].rows, H = call->t[ARG(w)].cols, first = (V - B) / 2;
    for (int64_t row = 0; row < V; row++)
        for (int64_t c = 0; c < H; c++)
            store(call, ARG(y), row * H + c,
                  row >= first && row < first + B ? f32(call, ARG(w))[(row - first) * H + c] : 0);
}

/* Scratch: a double for each column of a head; gradients three, of all columns or of as many as there are rows. */
#define ROWS(facts_, ...)                                                                                \
    {.op = TRI_OP_attention, .facts = facts_, .dtype = TRI_F32, .run = attention, .work = {.col = 8}},   \
        {.op = TRI_OP_attention_din, .facts = facts_, .dtype = TRI_F32, .run = attention_din, .work = {__VA_ARGS__}}
const tri_kernel_row tri__cpu_attention_reference[] = TRI_KERNEL_ROWS(
    ROWS(0, .row = 24),
    ROWS(TRI_FACT_FIRST, .col = 8),
    ROWS(TRI_FACT_SPARSE, .col = 24),
    ROWS(TRI_FACT_SPARSE | TRI_FACT_FIRST, .col = 8),
    ROWS(TRI_FACT_RELATIVE, .row = 24, .col = 16),
    ROWS(TRI_FACT_RELATIVE | TRI_FACT_BIAS, .row = 24, .col = 16),
    {.op = TRI_OP_attention, .facts = TRI_FACT_BITS, .dtype = TRI_F32, .run = attention_bits, .work = {.col = 8}},
    TRI_KERNEL(table),
    {.op = TRI_OP_table, .dtype = TRI_F32, .run = table_dw, .facts = TRI_FACT_WEIGHT});
