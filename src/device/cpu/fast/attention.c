/* attention.c - attention over packed sequences: each head of each sequence is one work item that writes its own
 * columns. For very long sequences, scratch space limits the number of threads. attention_first needs none. The rows of
 * block-sparse attention are the same but for one more operand, before the keys: the present blocks. */
#include "device/cpu/fast/call.h"

#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#else /* one thread */
static int omp_get_thread_num(void) { return 0; }
#endif

enum { ENOUGH = 1 << 14 }; /* elements of ctx */

typedef struct span {
    const int32_t *seq;            /* [sequences + 1] */
    int64_t sequences, heads, d;
    int64_t need;                  /* scratch floats per thread */
    int threads;
    int key;                       /* the operand */
    const int32_t *blocks;         /* layout/blocks.h; NULL: all keys */
    int64_t window;                /* tokens; 0: none */
} span;

static span span_of(const tri_call *call, int seq, int64_t h) {
    span s = {.seq = i32(call, seq), .sequences = call->t[seq].rows - 1, .heads = call->attr->heads,
              .window = call->attr->window};
    int blocks = tri__op_arg(call->op, "blocks");
    s.key = tri__op_arg(call->op, "key");
    s.blocks = blocks < 0 ? NULL : i32(call, blocks);
    s.d = h / s.heads;
    s.threads = threads_for(call, s.seq[s.sequences] * h, ENOUGH);
    return s;
}

/* As many threads as `bytes` of scratch space allow. Where sequences are no longer than their windows, attention is
 * that to all keys. */
static void fit_threads(span *s, int64_t (*sparse)(int64_t, int64_t), int64_t (*dense)(int64_t, int64_t),
                        int64_t bytes) {
    int64_t longest = 0;
    for (int64_t i = 0; i < s->sequences; i++)
        if (s->seq[i + 1] - s->seq[i] > longest) longest = s->seq[i + 1] - s->seq[i];
    int64_t need = s->blocks ? sparse(longest, s->d) : dense(longest, s->d);
    if (s->blocks && s->window) {
        int64_t narrow = dense(longest <= s->window ? longest : s->window + 1, s->d);
        if (narrow > need) need = narrow;
    }
    s->need = (need + 31) / 16 * 16;
    int64_t fit = bytes / (s->need * 4);
    if (fit < s->threads) s->threads = fit < 1 ? 1 : (int)fit;
}

/* Whether a window takes no key away from any query of a sequence of `len` tokens, nor do the blocks. */
static int is_dense(const span *s, const tri_head_blocks *blocks, int64_t len) {
    int64_t n = (len + blocks->block - 1) / blocks->block;
    if (!s->window || len > s->window + 1) return 0;
    for (int64_t i = 0; i < n; i++)
        if (tri__blocks_end(blocks->keys, i, n) - blocks->keys.at[i] < n) return 0;
    return 1;
}

/* The fields of work item i that both directions use; *blocks: its present blocks. */
static tri_head head_of(const tri_call *call, const span *s, int64_t i, int qkv, int64_t h, tri_head_blocks *blocks) {
    int64_t t0 = s->seq[i / s->heads], head = i % s->heads, number = call->attr->head0 + head;
    tri_drop drop = drop_of(call, s->key);
    if (s->blocks)
        *blocks = (tri_head_blocks){tri__blocks_of_queries(s->blocks, number), tri__blocks_of_keys(s->blocks, number),
                                    call->attr->block};
    int64_t len = s->seq[i / s->heads + 1] - t0, place0 = 0;
    if (drop.threshold && len > 0) {
        drop.key += 2 * t0;
        place0 = drop.key[1];
    }
    const float *q = f32(call, qkv) + t0 * 3 * h + head * s->d;
    int sparse = s->blocks && !is_dense(s, blocks, len);
    return (tri_head){.drop = drop, .len = len, .keys = len, .d = s->d,
                      .feature0 = number * (int64_t)call->attr->max_len + place0, .blocks = sparse ? blocks : NULL,
                      .window = sparse ? s->window : 0,
                      .ld = 3 * h, .ld_kv = 3 * h, .ld_ctx = h, .ld_lse = s->heads, .q = q, .k = q + h, .v = q + 2 * h,
                      .work = (float *)call->work + s->need * omp_get_thread_num()};
}

/* Zeroes padding rows. */
static void clear_rest(const tri_call *call, int k, int64_t t) {
    float *data = f32(call, k);
    if (data && !adds(call, k))
        memset(data + t * call->t[k].cols, 0, (size_t)((call->t[k].rows - t) * call->t[k].cols) * 4);
}

#define FORWARD_WORK {.fixed = 8 << 20, .row = 512, .row_cols = 8}
#define GRADIENT_WORK {.fixed = 8 << 20, .row = 2048, .row_cols = 8}

static int64_t bytes_of(const tri_call *call, tri_workspace w) {
    return w.fixed + w.row * call->t[0].rows + w.row_cols * elements(call, 0);
}

static void attention(const tri_call *call) {
    OPERANDS(attention);
    const tri_simd *simd = tri__simd();
    int64_t h = call->t[ARG(ctx)].cols;
    span s = span_of(call, ARG(seq), h);
    fit_threads(&s, simd->head_sparse_work, simd->head_work, bytes_of(call, (tri_workspace)FORWARD_WORK));
#pragma omp parallel for schedule(dynamic, 1) num_threads(s.threads)
    for (int64_t i = 0; i < s.sequences * s.heads; i++) {
        tri_head_blocks blocks;
        tri_head head = head_of(call, &s, i, ARG(qkv), h, &blocks);
        int64_t t0 = s.seq[i / s.heads], a = i % s.heads;
        head.ctx = f32(call, ARG(ctx)) + t0 * h + a * s.d;
        head.lse = f32(call, ARG(lse)) ? f32(call, ARG(lse)) + t0 * s.heads + a : NULL;
        if (head.len > 0) (head.blocks ? simd->head_sparse : simd->head)(&head);
    }
    clear_rest(call, ARG(ctx), s.seq[s.sequences]);
    clear_rest(call, ARG(lse), s.seq[s.sequences]);
}

static void attention_din(const tri_call *call) {
    OPERANDS(attention_din);
    const tri_simd *simd = tri__simd();
    int64_t h = call->t[ARG(dctx)].cols;
    span s = span_of(call, ARG(seq), h);
    fit_threads(&s, simd->head_sparse_din_work, simd->head_din_work, bytes_of(call, (tri_workspace)GRADIENT_WORK));
#pragma omp parallel for schedule(dynamic, 1) num_threads(s.threads)
    for (int64_t i = 0; i < s.sequences * s.heads; i++) {
        tri_head_blocks blocks;
        tri_head head = head_of(call, &s, i, ARG(qkv), h, &blocks);
        int64_t t0 = s.seq[i / s.heads], a = i % s.heads;
        head.ctx = f32(call, ARG(ctx)) + t0 * h + a * s.d;
        head.dctx = f32(call, ARG(dctx)) + t0 * h + a * s.d;
        head.lse = f32(call, ARG(lse)) + t0 * s.heads + a;
        head.dq = f32(call, ARG(dqkv)) + t0 * 3 * h + a * s.d;
        head.dk = head.dq + h;
        head.dv = head.dq + 2 * h;
        head.acc = head.acc_kv = adds(call, ARG(dqkv));
        if (head.len > 0) (head.blocks ? simd->head_sparse_din : simd->head_din)(&head);
    }
    clear_rest(call, ARG(dqkv), s.seq[s.sequences]);
}

static void attention_first(const tri_call *call) {
    OPERANDS(attention_first);
    const tri_simd *simd = tri__simd();
    int64_t h = call->t[ARG(ctx)].cols;
    span s = span_of(call, ARG(seq), h);
#pragma omp parallel for schedule(dynamic, 1) num_threads(s.threads)
    for (int64_t i = 0; i < s.sequences * s.heads; i++) {
        tri_head_blocks blocks;
        tri_head head = head_of(call, &s, i, ARG(qkv), h, &blocks);
        head.ctx = f32(call, ARG(ctx)) + i * s.d;
        head.lse = f32(call, ARG(lse)) ? f32(call, ARG(lse)) + i : NULL;
        simd->head_first(&head);
    }
}

static void attention_first_din(const tri_call *call) {
    OPERANDS(attention_first_din);
    const tri_simd *simd = tri__simd();
    int64_t h = call->t[ARG(dctx)].cols;
    span s = span_of(call, ARG(seq), h);
#pragma omp parallel for schedule(dynamic, 1) num_threads(s.threads)
    for (int64_t i = 0; i < s.sequences * s.heads; i++) {
        tri_head_blocks blocks;
        tri_head head = head_of(call, &s, i, ARG(qkv), h, &blocks);
        head.ctx = f32(call, ARG(ctx)) + i * s.d;
        head.dctx = f32(call, ARG(dctx)) + i * s.d;
        head.lse = f32(call, ARG(lse)) + i;
        head.dq = f32(call, ARG(dqkv)) + (head.q - f32(call, ARG(qkv)));
        head.dk = head.dq + h;
        head.dv = head.dq + 2 * h;
        head.acc = head.acc_kv = adds(call, ARG(dqkv));
        simd->head_first_din(&head);
    }
    clear_rest(call, ARG(dqkv), s.seq[s.sequences]);
}

const tri_kernel_row tri__cpu_attention_fast[] = {
    {.op = TRI_OP_attention, .dtype = TRI_F32, .run = attention, .work = FORWARD_WORK},
    {.op = TRI_OP_attention_din, .dtype = TRI_F32, .run = attention_din, .work = GRADIENT_WORK},
    {.op = TRI_OP_attention_first, .dtype = TRI_F32, .run = attention_first},
    {.op = TRI_OP_attention_first_din, .dtype = TRI_F32, .run = attention_first_din},
    {.op = TRI_OP_attention_sparse, .dtype = TRI_F32, .run = attention, .work = FORWARD_WORK},
    {.op = TRI_OP_attention_sparse_din, .dtype = TRI_F32, .run = attention_din, .work = GRADIENT_WORK},
    {.op = TRI_OP_attention_sparse_first, .dtype = TRI_F32, .run = attention_first},
    {.op = TRI_OP_attention_sparse_first_din, .dtype = TRI_F32, .run = attention_first_din},
    {.run = NULL},
};
