/* attention_relative.c - attention whose scores depend on the distance of query and key (numbers/distance.h): MPNet's,
 * which adds a number for each bucket of distances (Raffel et al., 2020), and DeBERTa's disentangled attention (He et
 * al., 2021), where query and key also meet the bucket's own key and query. Otherwise as attention.c. */
#include "device/cpu/reference/attention.h"

#include "numbers/distance.h"

/* One head of packed sequences, and its columns of the table. */
typedef struct relative {
    head of;
    const float *table;    /* [B,A] biases; [B,3H] queries and keys of buckets */
    int64_t B;
    int terms;             /* attr.terms; -1: biases */
    double scale;
} relative;

static relative relative_at(const tri_call *call, int qkv, int table, int key, int64_t h) {
    relative a = {.of = head_at(call, qkv, key, call->t[qkv].cols / 3, h), .table = f32(call, table),
                  .B = call->t[table].rows, .terms = -1};
    int products = 1;
    if (tri__row_arg(tri__call_row(call), "rel") >= 0) {
        a.terms = call->attr->terms;
        products += (a.terms & 1) + (a.terms >> 1 & 1);
    }
    a.scale = 1 / sqrt((double)a.of.d * products);
    return a;
}

/* The table's row for a query and a key. */
static int64_t row_of(const relative *a, int64_t distance) {
    const tri_attr *attr = a->of.call->attr;
    if (a->terms < 0) return tri__bucket_t5((int32_t)-distance, attr->buckets, attr->reach);
    return tri__bucket_log((int32_t)distance, attr->buckets, attr->reach) - (attr->buckets - a->B) / 2;
}

/* Element c of a bucket's query (part 0) or key (1). */
static int64_t entry(const relative *a, int64_t row, int part, int64_t c) { return column(&a->of, row, part, c); }

static double relative_score(const relative *a, int64_t query, int64_t other) {
    int64_t row = row_of(a, query - other);
    const float *qkv = a->of.qkv;
    double sum = 0;
    for (int64_t c = 0; c < a->of.d; c++) {
        double q = qkv[column(&a->of, query, 0, c)], k = qkv[column(&a->of, other, 1, c)];
        sum += q * k;
        if (a->terms < 0) continue;
        if (a->terms & 1) sum += q * a->table[entry(a, row, 1, c)];
        if (a->terms & 2) sum += k * a->table[entry(a, row, 0, c)];
    }
    return sum * a->scale + (a->terms < 0 ? a->table[row * a->of.call->attr->heads + a->of.h] : 0);
}

static void attend(const relative *a, int64_t begin, int64_t end, int64_t query) {
    OPERANDS(attention_biased);  /* same order as attention_disentangled */
    const tri_call *call = a->of.call;
    double *out = call->work;    /* [d] */
    double max = -INFINITY, sum = 0;
    for (int64_t t = begin; t < end; t++) {
        double s = relative_score(a, query, t);
        max = s > max ? s : max;
    }
    for (int64_t c = 0; c < a->of.d; c++) out[c] = 0;
    for (int64_t t = begin; t < end; t++) {
        double p = exp(relative_score(a, query, t) - max), weight = p * kept(&a->of, query, t);
        sum += p;
        for (int64_t c = 0; c < a->of.d; c++) out[c] += weight * a->of.qkv[column(&a->of, t, 2, c)];
    }
    store(call, ARG(lse), query * call->attr->heads + a->of.h, max + log(sum));
    for (int64_t c = 0; c < a->of.d; c++)
        store(call, ARG(ctx), query * a->of.H + a->of.h * a->of.d + c, out[c] / sum);
}

static void attention_relative(const tri_call *call) {
    OPERANDS(attention_biased);
    const int32_t *seq = i32(call, ARG(seq)); /* [S] */
    int64_t S = call->t[ARG(seq)].rows, T = call->t[ARG(ctx)].rows, H = call->t[ARG(ctx)].cols,
            heads = call->attr->heads;
    for (int64_t s = 0; s + 1 < S; s++)
        for (int64_t h = 0; h < heads; h++) {
            relative a = relative_at(call, ARG(qkv), ARG(bias), ARG(key), h);
            for (int64_t t = seq[s]; t < seq[s + 1]; t++) attend(&a, seq[s], seq[s + 1], t);
        }
    for (int64_t i = seq[S - 1] * H; i < T * H; i++) store(call, ARG(ctx), i, 0);
    for (int64_t i = seq[S - 1] * heads; i < T * heads; i++) store(call, ARG(lse), i, 0);
}

/* The weight that `query` gives to `other` after dropout, and the gradient of its score. */
static void slope_of(const relative *a, int64_t query, int64_t other, double *weight, double *ds) {
    OPERANDS(attention_biased_din); /* same order as attention_disentangled_din */
    const tri_call *call = a->of.call;
    int64_t at = query * a->of.H + a->of.h * a->of.d;
    const float *dctx = f32(call, ARG(dctx)) + at, *ctx = f32(call, ARG(ctx)) + at; /* [d] */
    double p = exp(relative_score(a, query, other) - f32(call, ARG(lse))[query * call->attr->heads + a->of.h]);
    double m = kept(&a->of, query, other), dp = 0, mean = 0; /* mean = sum_k p_k dp_k */
    for (int64_t c = 0; c < a->of.d; c++) {
        dp += m * dctx[c] * a->of.qkv[column(&a->of, other, 2, c)];
        mean += (double)dctx[c] * ctx[c];
    }
    *weight = p * m;
    *ds = p * (dp - mean);
}

/* The gradients of one row's query (over all rows it attends to), key and value (over all rows that attend to it). */
static void attend_din(const relative *a, int64_t begin, int64_t end, int64_t row) {
    OPERANDS(attention_biased_din);
    const tri_call *call = a->of.call;
    const float *qkv = a->of.qkv;
    int64_t n = end - begin;
    double *out_ds = call->work, *in_ds = out_ds + n, *in_weight = in_ds + n, unused; /* [n], as in attention.c */
    for (int64_t j = 0; j < n; j++) {
        slope_of(a, row, begin + j, &unused, &out_ds[j]);
        slope_of(a, begin + j, row, &in_weight[j], &in_ds[j]);
    }
    for (int64_t c = 0; c < a->of.d; c++) {
        double dq = 0, dk = 0, dv = 0;
        for (int64_t j = 0; j < n; j++) {
            double k = qkv[column(&a->of, begin + j, 1, c)], q = qkv[column(&a->of, begin + j, 0, c)];
            if (a->terms > 0 && (a->terms & 1)) k += a->table[entry(a, row_of(a, row - begin - j), 1, c)];
            if (a->terms > 0 && (a->terms & 2)) q += a->table[entry(a, row_of(a, begin + j - row), 0, c)];
            dq += out_ds[j] * k, dk += in_ds[j] * q;
            dv += in_weight[j] * f32(call, ARG(dctx))[(begin + j) * a->of.H + a->of.h * a->of.d + c];
        }
        store(call, ARG(dqkv), column(&a->of, row, 0, c), dq * a->scale);
        store(call, ARG(dqkv), column(&a->of, row, 1, c), dk * a->scale);
        store(call, ARG(dqkv), column(&a->of, row, 2, c), dv);
    }
}

/* Adds the gradients that all pairs at a distance have for their bucket: dq [d] and dk [d], and the sum of ds. */
static double sum_distance(const relative *a, const int32_t *seq, int64_t sequences, int64_t distance, double *dq,
                           double *dk) {
    double sum = 0, unused, ds;
    for (int64_t s = 0; s < sequences; s++) {
        int64_t first = distance > 0 ? distance : 0, last = distance < 0 ? distance : 0; /* of the queries */
        for (int64_t i = seq[s] + first; i < seq[s + 1] + last; i++) {
            slope_of(a, i, i - distance, &unused, &ds);
            sum += ds;
            for (int64_t c = 0; c < a->of.d; c++) {
                dk[c] += ds * a->of.qkv[column(&a->of, i, 0, c)];
                dq[c] += ds * a->of.qkv[column(&a->of, i - distance, 1, c)];
            }
        }
    }
    return sum;
}

/* The gradient of one row of the table, in this head's columns. */
static void row_din(const relative *a, const int32_t *seq, int64_t sequences, int64_t longest, int64_t row) {
    OPERANDS(attention_biased_din);
    const tri_call *call = a->of.call;
    double *dq = call->work, *dk = dq + a->of.d, sum = 0; /* [d] */
    for (int64_t c = 0; c < a->of.d; c++) dq[c] = dk[c] = 0;
    for (int64_t distance = 1 - longest; distance < longest; distance++)
        if (row_of(a, distance) == row) sum += sum_distance(a, seq, sequences, distance, dq, dk);
    if (a->terms < 0) store(call, ARG(dbias), row * call->attr->heads + a->of.h, sum);
    for (int64_t c = 0; c < a->of.d && a->terms >= 0; c++) {
        store(call, ARG(dbias), entry(a, row, 0, c), a->terms & 2 ? dq[c] * a->scale : 0);
        store(call, ARG(dbias), entry(a, row, 1, c), a->terms & 1 ? dk[c] * a->scale : 0);
        store(call, ARG(dbias), entry(a, row, 2, c), 0);
    }
}

static void attention_relative_din(const tri_call *call) {
    OPERANDS(attention_biased_din);
    const int32_t *seq = i32(call, ARG(seq)); /* [S] */
    int64_t S = call->t[ARG(seq)].rows, T = call->t[ARG(dqkv)].rows, D = call->t[ARG(dqkv)].cols, longest = 0;
    for (int64_t s = 0; s + 1 < S; s++) longest = seq[s + 1] - seq[s] > longest ? seq[s + 1] - seq[s] : longest;
    for (int64_t h = 0; h < call->attr->heads; h++) {
        relative a = relative_at(call, ARG(qkv), ARG(bias), ARG(key), h);
        for (int64_t s = 0; s + 1 < S; s++)
            for (int64_t t = seq[s]; t < seq[s + 1]; t++) attend_din(&a, seq[s], seq[s + 1], t);
        for (int64_t row = 0; row < a.B; row++) row_din(&a, seq, S - 1, longest, row);
    }
    for (int64_t i = seq[S - 1] * D; i < T * D; i++) store(call, ARG(dqkv), i, 0);
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

/* Scratch: doubles of a head's columns, or three per row of the longest sequence, which may contain all rows. */
const tri_kernel_row tri__cpu_attention_relative_reference[] = {
    {.op = TRI_OP_table, .dtype = TRI_F32, .run = table},
    {.op = TRI_OP_table, .dtype = TRI_F32, .run = table_dw, .facts = TRI_FACT_WEIGHT},
    {.op = TRI_OP_attention_biased, .dtype = TRI_F32, .run = attention_relative, .work = {.col = 8}},
    {.op = TRI_OP_attention_biased_din,
     .dtype = TRI_F32,
     .run = attention_relative_din,
     .work = {.row = 24, .col = 16}},
    {.op = TRI_OP_attention_disentangled, .dtype = TRI_F32, .run = attention_relative, .work = {.col = 8}},
    {.op = TRI_OP_attention_disentangled_din,
     .dtype = TRI_F32,
     .run = attention_relative_din,
     .work = {.row = 24, .col = 16}},
    {.run = NULL},
};
