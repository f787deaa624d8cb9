/* attention_half.c - attention and its gradients in bf16, on CPUs that multiply bf16: as attention.c, each head of each
 * sequence is one work item. First tokens, which read each key and value once, run the fp32 kernel on a head's rows,
 * which are fp32 only in a thread's cache. */
#include "device/cpu/cpu.h"
#include "device/cpu/fast/attention/simd_head_first.h"
#include "device/cpu/fast/attention/simd_head_half_din.h"

enum { ENOUGH = 1 << 14 }; /* elements of ctx */

typedef struct span {
    const tri_call *call;
    const int32_t *seq;            /* [sequences + 1] */
    int64_t sequences, heads, d, h;
    int64_t longest, need;         /* tokens; scratch floats per thread */
    int threads, key;
    const tri_half_product *product;
} span;

static span span_of(const tri_call *call, int seq, int key, int64_t h) {
    span s = {.call = call, .seq = i32(call, seq), .sequences = call->t[seq].rows - 1, .heads = call->attr->heads,
              .h = h, .key = key, .product = tri__half_product()};
    s.d = h / s.heads;
    s.threads = threads_for(call, s.seq[s.sequences] * h, ENOUGH);
    for (int64_t i = 0; i < s.sequences; i++)
        if (s.seq[i + 1] - s.seq[i] > s.longest) s.longest = s.seq[i + 1] - s.seq[i];
    return s;
}

/* As many threads as the row's scratch space allows: that of the fp32 row and of its fp32 copies. 0: not even one. */
static int fit_threads(span *s, int64_t need) {
    const tri_call *call = s->call;
    const tri_workspace *work = &call->table->work[tri__variant(call->op, call->attr)][TRI_BF16];
    int64_t halves = 0;
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (call->t[k].data && call->dtype[k] == TRI_BF16) halves += elements(call, k);
    s->need = (need + 31) / 16 * 16;
    int64_t fit = tri__workspace_bytes(work, call->t[0].rows, call->t[0].cols, halves) / (s->need * 4);
    if (fit < s->threads) s->threads = (int)fit;
    return fit > 0;
}

/* Whether this CPU multiplies bf16, in panels that heads are computed in. */
static int fits_product(const tri_half_product *product) {
    return product && product->nr == HR && product->b_group == HEAD_GROUP;
}

/* The fields of work item i that both directions use. */
static tri_head_half head_of(const span *s, int64_t i, int qkv) {
    int64_t t0 = s->seq[i / s->heads], head = i % s->heads, number = s->call->attr->head0 + head;
    tri_head_half out = {.product = s->product, .drop = drop_of(s->call, s->key),
                         .len = s->seq[i / s->heads + 1] - t0, .d = s->d, .ld = 3 * s->h, .ld_ctx = s->h,
                         .ld_lse = s->heads, .work = (float *)s->call->work + s->need * omp_get_thread_num()};
    out.q = bf16(s->call, qkv) + t0 * 3 * s->h + head * s->d;
    out.k = out.q + s->h, out.v = out.q + 2 * s->h;
    out.feature0 = number * (int64_t)s->call->attr->max_len;
    if (out.drop.threshold && out.len > 0) {
        out.drop.key += 2 * t0;
        out.feature0 += out.drop.key[1];
    }
    return out;
}

static void attention(const tri_call *call) {
    OPERANDS(attention);
    int64_t h = call->t[ARG(ctx)].cols;
    span s = span_of(call, ARG(seq), ARG(key), h);
    if (!fits_product(s.product) || !fit_threads(&s, PER_ISA(tri__head_half_work)(s.product, s.longest, s.d))) {
        tri__cpu_half_row(call);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(s.threads)
    for (int64_t i = 0; i < s.sequences * s.heads; i++) {
        tri_head_half head = head_of(&s, i, ARG(qkv));
        int64_t t0 = s.seq[i / s.heads], a = i % s.heads;
        head.ctx = bf16(call, ARG(ctx)) + t0 * h + a * s.d;
        head.lse = f32(call, ARG(lse)) ? f32(call, ARG(lse)) + t0 * s.heads + a : NULL;
        if (head.len > 0) PER_ISA(tri__head_half)(&head);
    }
    clear_rest(call, ARG(ctx), s.seq[s.sequences]);
    clear_rest(call, ARG(lse), s.seq[s.sequences]);
}

static void attention_din(const tri_call *call) {
    OPERANDS(attention_din);
    int64_t h = call->t[ARG(dctx)].cols;
    span s = span_of(call, ARG(seq), ARG(key), h);
    if (!fits_product(s.product) || !fit_threads(&s, PER_ISA(tri__head_half_din_work)(s.product, s.longest, s.d))) {
        tri__cpu_half_row(call);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(s.threads)
    for (int64_t i = 0; i < s.sequences * s.heads; i++) {
        tri_head_half head = head_of(&s, i, ARG(qkv));
        int64_t t0 = s.seq[i / s.heads], a = i % s.heads;
        head.ctx = bf16(call, ARG(ctx)) + t0 * h + a * s.d;
        head.dctx = bf16(call, ARG(dctx)) + t0 * h + a * s.d;
        head.lse = f32(call, ARG(lse)) + t0 * s.heads + a;
        head.dq = bf16(call, ARG(dqkv)) + t0 * 3 * h + a * s.d;
        head.dk = head.dq + h;
        head.dv = head.dq + 2 * h;
        head.acc = adds(call, ARG(dqkv));
        if (head.len > 0) PER_ISA(tri__head_half_din)(&head);
    }
    clear_rest(call, ARG(dqkv), s.seq[s.sequences]);
}

/* Rows of query, key and value of n tokens side by side, [n,3d], as fp32 and back; `first`: of queries the first row
 * alone. */
static void widen_head(const span *s, const uint16_t *from, int64_t n, int first, float *to) {
    for (int64_t t = 0; t < n; t++)
        for (int part = first && t > 0; part < 3; part++)
            simd_widen(s->d, from + t * 3 * s->h + part * s->h, to + (t * 3 + part) * s->d);
}

static void narrow_head(const span *s, const float *from, int64_t n, uint16_t *to) {
    for (int64_t t = 0; t < n; t++)
        for (int part = 0; part < 3; part++)
            simd_narrow(s->d, from + (t * 3 + part) * s->d, to + t * 3 * s->h + part * s->h);
}

/* Work item i as the fp32 kernel takes it: rows are in the thread's scratch space, whose first `used` floats are
 * taken. */
static tri_head first_of(const span *s, int64_t i, int qkv, int64_t used) {
    tri_head_half half = head_of(s, i, qkv);
    float *rows = half.work + used; /* [len,3d] */
    widen_head(s, half.q, half.len, 1, rows);
    return (tri_head){.drop = half.drop, .len = half.len, .keys = half.len, .d = s->d, .feature0 = half.feature0,
                      .ld = 3 * s->d, .ld_kv = 3 * s->d, .q = rows, .k = rows + s->d, .v = rows + 2 * s->d};
}

static void attention_first(const tri_call *call) {
    OPERANDS(attention);
    span s = span_of(call, ARG(seq), ARG(key), call->t[ARG(ctx)].cols);
    if (!fits_product(s.product) || !fit_threads(&s, (3 * s.longest + 1) * s.d)) {
        tri__cpu_half_row(call);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(s.threads)
    for (int64_t i = 0; i < s.sequences * s.heads; i++) {
        tri_head head = first_of(&s, i, ARG(qkv), s.d);
        head.ctx = (float *)call->work + s.need * omp_get_thread_num(); /* [d] */
        head.lse = f32(call, ARG(lse)) ? f32(call, ARG(lse)) + i : NULL;
        simd_head_first(&head);
        simd_narrow(s.d, head.ctx, bf16(call, ARG(ctx)) + i * s.d);
    }
}

static void attention_first_din(const tri_call *call) {
    OPERANDS(attention_din);
    span s = span_of(call, ARG(seq), ARG(key), call->t[ARG(dctx)].cols);
    if (!fits_product(s.product) || !fit_threads(&s, (6 * s.longest + 2) * s.d)) {
        tri__cpu_half_row(call);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(s.threads)
    for (int64_t i = 0; i < s.sequences * s.heads; i++) {
        float *ctx = (float *)call->work + s.need * omp_get_thread_num(), *dctx = ctx + s.d, *out = dctx + s.d;
        int64_t len = s.seq[i / s.heads + 1] - s.seq[i / s.heads];
        uint16_t *to = bf16(call, ARG(dqkv)) + s.seq[i / s.heads] * 3 * s.h + i % s.heads * s.d;
        tri_head head = first_of(&s, i, ARG(qkv), (2 + 3 * len) * s.d);
        simd_widen(s.d, bf16(call, ARG(ctx)) + i * s.d, ctx);
        simd_widen(s.d, bf16(call, ARG(dctx)) + i * s.d, dctx);
        head.ctx = ctx, head.dctx = dctx, head.lse = f32(call, ARG(lse)) + i;
        head.dq = out, head.dk = out + s.d, head.dv = out + 2 * s.d; /* [len,3d] */
        head.acc = head.acc_kv = adds(call, ARG(dqkv));
        if (head.acc) widen_head(&s, to, len, 0, out);
        simd_head_first_din(&head);
        narrow_head(&s, out, len, to);
    }
    clear_rest(call, ARG(dqkv), s.seq[s.sequences]);
}

TRI_FAST_ROWS(attention_half) = TRI_KERNEL_ROWS(
    {.op = TRI_OP_attention, .dtype = TRI_BF16, .run = attention, .work = TRI_AS_HALF},
    {.op = TRI_OP_attention_din, .dtype = TRI_BF16, .run = attention_din, .work = TRI_AS_HALF},
    {.op = TRI_OP_attention, .facts = TRI_FACT_FIRST, .dtype = TRI_BF16, .run = attention_first, .work = TRI_AS_HALF},
    {.op = TRI_OP_attention_din, .facts = TRI_FACT_FIRST, .dtype = TRI_BF16, .run = attention_first_din,
     .work = TRI_AS_HALF});
