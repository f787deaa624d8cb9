/* attention_part.c - attention of a run's queries to the keys of a run: parts of attention over sequences of which each
 * rank of a ring has a chunk (layout/runs.h), and how parts are joined. A softmax over two sets of keys is the mean of
 * those over each, weighted by their sums of exponentials (Milakov and Gimelshein, 2018). */
#include "device/cpu/reference/attention.h"

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

/* A head of queries in qkv [T,3H] and keys in kv [T,2H], of runs attr.run and attr.part. */
static head ring_head(const tri_call *call, int qkv, int kv, int blocks, int key, int64_t h) {
    int64_t T = call->t[qkv].rows, H = call->t[kv].cols / 2;
    head a = head_at(call, f32(call, qkv), 3 * H, f32(call, kv), 2 * H, H, blocks, key, h);
    a.key_q = call->attr->run * T, a.key_kv = call->attr->part * T;
    return a;
}

static void attention_part(const tri_call *call) {
    OPERANDS(attention_part);
    int64_t S = call->t[ARG(seq)].rows, heads = call->attr->heads;
    double *out = call->work; /* [d] */
    clear(call, ARG(ctx)), clear(call, ARG(lse));
    for (int64_t i = 0; i < (S - 1) * heads; i++) {
        int64_t s = i / heads, h = i % heads;
        head a = ring_head(call, ARG(qkv), ARG(kv), ARG(blocks), ARG(key), h);
        tri_run_rows own = run_of(call, ARG(seq), s, call->attr->run);
        tri_run_rows keys = run_of(call, ARG(seq), s, call->attr->part);
        for (int64_t t = own.begin; t < own.end; t++) {
            store(call, ARG(lse), t * heads + h, attend(&a, t, own.place + t - own.begin, keys, out));
            for (int64_t c = 0; c < a.d; c++) store(call, ARG(ctx), t * a.H + h * a.d + c, out[c]);
        }
    }
}

static void attention_part_din(const tri_call *call) {
    OPERANDS(attention_part_din);
    double *dq = call->work; /* [d], and dk and dv [2,d] */
    clear(call, ARG(dqkv)), clear(call, ARG(dkv));
    for (int64_t i = 0; i < (call->t[ARG(seq)].rows - 1) * call->attr->heads; i++) {
        int64_t s = i / call->attr->heads, h = i % call->attr->heads;
        head a = ring_head(call, ARG(qkv), ARG(kv), ARG(blocks), ARG(key), h);
        tri_run_rows own = run_of(call, ARG(seq), s, call->attr->run);
        tri_run_rows keys = run_of(call, ARG(seq), s, call->attr->part);
        set_results(&a, ARG(dctx), ARG(ctx), ARG(lse));
        for (int64_t t = own.begin; t < own.end; t++) {
            query_din(&a, t, own.place + t - own.begin, keys, dq);
            for (int64_t c = 0; c < a.d; c++) add_to(f32(call, ARG(dqkv)) + t * 3 * a.H + h * a.d + c, dq[c]);
        }
        for (int64_t u = keys.begin; u < keys.end; u++) {
            float *to = f32(call, ARG(dkv)) + u * 2 * a.H + h * a.d;
            key_din(&a, u, keys.place + u - keys.begin, own, dq, dq + a.d);
            for (int64_t c = 0; c < a.d; c++) add_to(&to[c], dq[c]), add_to(&to[a.H + c], dq[a.d + c]);
        }
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

/* A head of first tokens' queries in q [N,3H], and keys of this run in qkv [T,3H]; of sequence s. */
static head first_head(const tri_call *call, int q, int qkv, int seq, int blocks, int key, int64_t s, int64_t h) {
    int64_t T = call->t[qkv].rows, H = call->t[qkv].cols / 3;
    head a = head_at(call, f32(call, q), 3 * H, f32(call, qkv) + H, 3 * H, H, blocks, key, h);
    a.key_q = run_of(call, seq, s, 0).begin - s, a.key_kv = call->attr->part * T;
    return a;
}

/* y has the place of ctx. */
static void attention_first_part(const tri_call *call) {
    OPERANDS(attention_part);
    int64_t N = call->t[ARG(ctx)].rows, G = call->t[ARG(ctx)].cols, H = call->t[ARG(qkv)].cols / 3;
    int64_t at = call->attr->part * (H + call->attr->heads);
    double *out = call->work; /* [d] */
    clear(call, ARG(ctx));
    for (int64_t s = 0; s < N; s++)
        for (int64_t h = 0; h < call->attr->heads; h++) {
            head a = first_head(call, ARG(q), ARG(qkv), ARG(seq), ARG(blocks), ARG(key), s, h);
            float *y = f32(call, ARG(ctx)) + s * G + at;
            y[H + h] = (float)attend(&a, s, 0, run_of(call, ARG(seq), s, call->attr->part), out);
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

/* dq has the place of dkv. */
static void attention_first_part_din(const tri_call *call) {
    OPERANDS(attention_part_din);
    int64_t N = call->t[ARG(dctx)].rows, heads = call->attr->heads;
    double *dq = call->work; /* [d], and dk and dv [2,d] */
    clear(call, ARG(dqkv)), clear(call, ARG(dkv));
    for (int64_t i = 0; i < N * heads; i++) {
        int64_t s = i / heads, h = i % heads;
        head a = first_head(call, ARG(q), ARG(qkv), ARG(seq), ARG(blocks), ARG(key), s, h);
        tri_run_rows keys = run_of(call, ARG(seq), s, call->attr->part), own = {s, s + 1, 0};
        set_results(&a, ARG(dctx), ARG(ctx), ARG(lse));
        query_din(&a, s, 0, keys, dq);
        for (int64_t c = 0; c < a.d; c++) f32(call, ARG(dkv))[s * 3 * a.H + h * a.d + c] = (float)dq[c];
        for (int64_t t = keys.begin; t < keys.end; t++) {
            float *to = f32(call, ARG(dqkv)) + t * 3 * a.H + a.H + h * a.d;
            key_din(&a, t, keys.place + t - keys.begin, own, dq, dq + a.d);
            for (int64_t c = 0; c < a.d; c++) add_to(&to[c], dq[c]), add_to(&to[a.H + c], dq[a.d + c]);
        }
    }
}

/* To all keys and to those of present blocks. */
#define ROWS(op_, facts_, run_) \
    {.op = TRI_OP_##op_, .facts = (facts_), .dtype = TRI_F32, .run = run_, .work = {.col = 8}}, \
    {.op = TRI_OP_##op_, .facts = (facts_) | TRI_FACT_SPARSE, .dtype = TRI_F32, .run = run_, .work = {.col = 8}}
/* Scratch: doubles of a head's columns, which are at most those of the first operand. */
const tri_kernel_row tri__cpu_attention_part_reference[] = TRI_KERNEL_ROWS(
    TRI_KERNEL(kv_part), TRI_KERNEL(attention_join), TRI_KERNEL(attention_first_join),
    ROWS(attention_part, 0, attention_part),
    ROWS(attention_part_din, 0, attention_part_din),
    ROWS(attention_part, TRI_FACT_FIRST, attention_first_part),
    ROWS(attention_part_din, TRI_FACT_FIRST, attention_first_part_din));
