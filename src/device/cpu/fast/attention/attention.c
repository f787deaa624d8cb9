/* attention.c - attention over packed sequences: each head of each sequence is one work item that writes its own
 * columns. For very long sequences, scratch space limits the number of threads. First tokens need none. */
#include "device/cpu/cpu.h"
#include "device/cpu/fast/attention/simd_head_first.h"
#include "device/cpu/fast/attention/simd_head_relative.h"
#include "device/cpu/fast/attention/simd_head_sparse_din.h"
#include "numbers/distance.h"

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

static span span_of(const tri_call *call, int seq, int blocks, int key, int64_t h) {
    span s = {.seq = i32(call, seq), .sequences = call->t[seq].rows - 1, .heads = call->attr->heads, .key = key,
              .blocks = i32(call, blocks), .window = call->attr->window};
    s.d = h / s.heads;
    s.threads = threads_for(call, s.seq[s.sequences] * h, ENOUGH);
    return s;
}

static int64_t longest_of(const span *s) {
    int64_t longest = 0;
    for (int64_t i = 0; i < s->sequences; i++)
        if (s->seq[i + 1] - s->seq[i] > longest) longest = s->seq[i + 1] - s->seq[i];
    return longest;
}

/* As many threads as `bytes` of scratch space allow. Where sequences are no longer than their windows, attention is
 * that to all keys. */
static void fit_threads(span *s, int64_t (*sparse)(int64_t, int64_t), int64_t (*dense)(int64_t, int64_t),
                        int64_t bytes) {
    int64_t longest = longest_of(s), need = s->blocks ? sparse(longest, s->d) : dense(longest, s->d);
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

/* The head's results, at row `row` of ctx and lse: what the forward writes. */
static void set_forward(const tri_call *call, const span *s, int64_t row, int64_t a, tri_head *head) {
    OPERANDS(attention);
    head->ctx = f32(call, ARG(ctx)) + row * head->ld_ctx + a * s->d;
    head->lse = f32(call, ARG(lse)) ? f32(call, ARG(lse)) + row * s->heads + a : NULL;
}

/* What the gradient reads at row `row`, and writes at the rows of q, k and v. */
static void set_gradient(const tri_call *call, const span *s, int64_t row, int64_t a, tri_head *head) {
    OPERANDS(attention_din);
    head->ctx = f32(call, ARG(ctx)) + row * head->ld_ctx + a * s->d;
    head->dctx = f32(call, ARG(dctx)) + row * head->ld_ctx + a * s->d;
    head->lse = f32(call, ARG(lse)) + row * s->heads + a;
    head->dq = f32(call, ARG(dqkv)) + (head->q - f32(call, ARG(qkv)));
    head->dk = head->dq + head->ld_ctx, head->dv = head->dk + head->ld_ctx;
    head->acc = head->acc_kv = adds(call, ARG(dqkv));
}

#define FORWARD_WORK {.fixed = 8 << 20, .row = 512, .row_cols = 8}
#define GRADIENT_WORK {.fixed = 8 << 20, .row = 2048, .row_cols = 8}

static int64_t bytes_of(const tri_call *call, tri_workspace w) {
    return w.fixed + w.row * call->t[0].rows + w.row_cols * elements(call, 0);
}

/* Each head of each sequence. Of first tokens alone, results have one row a sequence. */
static void each_head(const tri_call *call, const span *s, int qkv, int64_t h,
                      void (*set)(const tri_call *, const span *, int64_t, int64_t, tri_head *),
                      void (*dense)(const tri_head *), void (*sparse)(const tri_head *)) {
    int first = call->attr->first;
#pragma omp parallel for schedule(dynamic, 1) num_threads(s->threads)
    for (int64_t i = 0; i < s->sequences * s->heads; i++) {
        tri_head_blocks blocks;
        tri_head head = head_of(call, s, i, qkv, h, &blocks);
        set(call, s, first ? i / s->heads : s->seq[i / s->heads], i % s->heads, &head);
        if (first || head.len > 0) (head.blocks ? sparse : dense)(&head);
    }
}

static void attention(const tri_call *call) {
    OPERANDS(attention);
    int64_t h = call->t[ARG(ctx)].cols;
    span s = span_of(call, ARG(seq), ARG(blocks), ARG(key), h);
    if (call->attr->first) {
        each_head(call, &s, ARG(qkv), h, set_forward, simd_head_first, simd_head_first);
        return;
    }
    fit_threads(&s, simd_head_sparse_work, simd_head_work, bytes_of(call, (tri_workspace)FORWARD_WORK));
    each_head(call, &s, ARG(qkv), h, set_forward, simd_head, simd_head_sparse);
    clear_rest(call, ARG(ctx), s.seq[s.sequences]);
    clear_rest(call, ARG(lse), s.seq[s.sequences]);
}

static void attention_din(const tri_call *call) {
    OPERANDS(attention_din);
    int64_t h = call->t[ARG(dctx)].cols;
    span s = span_of(call, ARG(seq), ARG(blocks), ARG(key), h);
    if (call->attr->first) {
        each_head(call, &s, ARG(qkv), h, set_gradient, simd_head_first_din, simd_head_first_din);
    } else {
        fit_threads(&s, simd_head_sparse_din_work, simd_head_din_work, bytes_of(call, (tri_workspace)GRADIENT_WORK));
        each_head(call, &s, ARG(qkv), h, set_gradient, simd_head_din, simd_head_sparse_din);
    }
    clear_rest(call, ARG(dqkv), s.seq[s.sequences]);
}

/* Attention by distances. A table's gradient sums over sequences: in runs of sequences that depend on the shapes alone,
 * each of which has its own sums. */
enum { MOST_RUNS = 32, BIAS_SUMS = 1 << 20 /* bytes */ };

#define RELATIVE_WORK {.fixed = 8 << 20, .row = 16384, .row_cols = 8}
#define BIASED_DIN_WORK {.fixed = (8 << 20) + BIAS_SUMS, .row = 8192, .col = 96, .row_cols = 8}
#define DISENTANGLED_DIN_WORK {.fixed = 8 << 20, .row = 16384, .row_cols = 12}

typedef struct relative_span {
    span s;
    int table;             /* the operand rel, or bias, which has its place; the place of its gradient is that of db */
    int64_t longest, runs;
    int64_t terms;
    int32_t *row;          /* [2 longest - 1] of the table, by distance */
    void *sums;            /* of runs: double [runs, heads, buckets]; float [runs - 1, B, 3H]: the first are in drel */
    float *work;           /* of threads */
} relative_span;

/* Runs of sequences, of which `fit` have room for their sums. */
static int64_t runs_of(const span *s, int64_t fit) {
    int64_t most = s->sequences < MOST_RUNS ? s->sequences : MOST_RUNS;
    return fit < 1 || most < 1 ? 1 : fit < most ? fit : most;
}

static void run_plain(const tri_call *call) {
    unsigned facts = tri__kernel_facts(tri__variant(call->op, call->attr));
    for (const tri_kernel_row *row = tri__cpu_attention_reference; row->run; row++)
        if (row->op == call->op && row->facts == facts) row->run(call);
}

/* Lays out the scratch space; 0: sequences are too long for it, and the plain row has run. */
static int relative_open(const tri_call *call, int table, span s, tri_workspace w, int sums, relative_span *out) {
    const tri_attr *attr = call->attr;
    int is_biased = attr->score == TRI_SCORE_BIASED;
    int64_t bytes = w.fixed + w.row * call->t[0].rows + w.col * call->t[0].cols + w.row_cols * elements(call, 0);
    int64_t longest = longest_of(&s), B = call->t[table].rows, list = (8 * longest + 63) / 64 * 64;
    int64_t each = is_biased ? 8 * s.heads * attr->buckets : 4 * elements(call, table);
    int64_t runs = !sums         ? 1
                   : is_biased ? runs_of(&s, (BIAS_SUMS + 96 * call->t[0].cols) / each)
                               : runs_of(&s, 4 * elements(call, 0) / each + 1);
    int64_t rest = bytes - list - (sums ? ((is_biased ? runs : runs - 1) * each + 63) / 64 * 64 : 0);
    s.need = (simd_head_relative_work(longest, s.d) + 31) / 16 * 16;
    int64_t fit = rest / (s.need * 4);
    if (fit < 1) return run_plain(call), 0;
    if (fit < s.threads) s.threads = (int)fit;
    *out = (relative_span){.s = s, .table = table, .longest = longest, .runs = runs, .row = call->work,
                           .terms = is_biased ? 1 : 1 + (attr->terms & 1) + (attr->terms >> 1 & 1),
                           .sums = (char *)call->work + list, .work = (float *)call->work + (bytes - rest) / 4};
    for (int64_t m = 0; m < 2 * longest - 1; m++) {
        int32_t distance = (int32_t)(m - longest + 1);
        out->row[m] = is_biased
                          ? tri__bucket_t5(-distance, attr->buckets, attr->reach)
                          : tri__bucket_log(distance, attr->buckets, attr->reach) - (attr->buckets - (int32_t)B) / 2;
    }
    return 1;
}

/* Work item i of head_of, and head `a` of the table. */
static tri_relative relative_of(const tri_call *call, const relative_span *r, tri_head *head, int64_t a) {
    const float *table = f32(call, r->table);
    int64_t ld = call->t[r->table].cols;
    tri_relative out = {.row = r->row + r->longest - 1, .ld = ld};
    head->work = r->work + r->s.need * omp_get_thread_num();
    head->terms = r->terms;
    out.work = head->work + simd_head_din_work(r->longest, r->s.d);
    if (call->attr->score == TRI_SCORE_BIASED) {
        out.bias = table + a;
        return out;
    }
    if (call->attr->terms & 2) out.q = table + a * r->s.d;
    if (call->attr->terms & 1) out.k = table + ld / 3 + a * r->s.d;
    return out;
}

static void attention_relative(const tri_call *call) {
    OPERANDS(attention);
    int64_t h = call->t[ARG(ctx)].cols;
    relative_span r;
    span s = span_of(call, ARG(seq), ARG(blocks), ARG(key), h);
    if (!relative_open(call, ARG(rel), s, (tri_workspace)RELATIVE_WORK, 0, &r)) return;
#pragma omp parallel for schedule(dynamic, 1) num_threads(r.s.threads)
    for (int64_t i = 0; i < r.s.sequences * r.s.heads; i++) {
        tri_head head = head_of(call, &r.s, i, ARG(qkv), h, NULL);
        tri_relative relative = relative_of(call, &r, &head, i % r.s.heads);
        set_forward(call, &r.s, r.s.seq[i / r.s.heads], i % r.s.heads, &head);
        if (head.len > 0) simd_head_relative(&head, &relative);
    }
    clear_rest(call, ARG(ctx), r.s.seq[r.s.sequences]);
    clear_rest(call, ARG(lse), r.s.seq[r.s.sequences]);
}

/* Head `a` of one run of sequences, one after the other. */
static void relative_run_din(const tri_call *call, const relative_span *r, int64_t run, int64_t a) {
    OPERANDS(attention_din);
    int64_t h = call->t[ARG(dctx)].cols, first = run * r->s.sequences / r->runs,
            end = (run + 1) * r->s.sequences / r->runs, each = elements(call, ARG(db));
    float *sums = run ? (float *)r->sums + (run - 1) * each : f32(call, ARG(db)); /* of rel */
    for (int64_t s = first; s < end; s++) {
        tri_head head = head_of(call, &r->s, s * r->s.heads + a, ARG(qkv), h, NULL);
        tri_relative relative = relative_of(call, r, &head, a);
        relative.dbias = (double *)r->sums + (run * r->s.heads + a) * call->attr->buckets;
        relative.dq = sums + a * r->s.d;
        relative.dk = relative.dq + h;
        set_gradient(call, &r->s, r->s.seq[s], a, &head);
        if (head.len > 0) simd_head_relative_din(&head, &relative);
    }
}

static void all_runs_din(const tri_call *call, const relative_span *r) {
    OPERANDS(attention_din);
#pragma omp parallel for schedule(dynamic, 1) num_threads(r->s.threads)
    for (int64_t i = 0; i < r->runs * r->s.heads; i++) relative_run_din(call, r, i / r->s.heads, i % r->s.heads);
    clear_rest(call, ARG(dqkv), r->s.seq[r->s.sequences]);
}

static void attention_biased_din(const tri_call *call) {
    OPERANDS(attention_din);
    relative_span r;
    int64_t buckets = call->attr->buckets;
    span s = span_of(call, ARG(seq), ARG(blocks), ARG(key), call->t[ARG(dctx)].cols);
    if (!relative_open(call, ARG(rel), s, (tri_workspace)BIASED_DIN_WORK, 1, &r)) return;
    double *sums = r.sums;
    memset(sums, 0, (size_t)(r.runs * r.s.heads * buckets) * sizeof *sums);
    all_runs_din(call, &r);
    for (int64_t i = 0; i < elements(call, ARG(db)); i++) {
        double sum = adds(call, ARG(db)) ? f32(call, ARG(db))[i] : 0;
        for (int64_t run = 0; run < r.runs && i / r.s.heads < buckets; run++)
            sum += sums[(run * r.s.heads + i % r.s.heads) * buckets + i / r.s.heads];
        f32(call, ARG(db))[i] = (float)sum;
    }
}

static void attention_disentangled_din(const tri_call *call) {
    OPERANDS(attention_din);
    relative_span r;
    span s = span_of(call, ARG(seq), ARG(blocks), ARG(key), call->t[ARG(dctx)].cols);
    if (!relative_open(call, ARG(rel), s, (tri_workspace)DISENTANGLED_DIN_WORK, 1, &r)) return;
    int64_t n = elements(call, ARG(db));
    float *to = f32(call, ARG(db)), *sums = r.sums;
    if (!adds(call, ARG(db))) memset(to, 0, (size_t)n * sizeof *to);
    memset(sums, 0, (size_t)((r.runs - 1) * n) * sizeof *sums);
    all_runs_din(call, &r);
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n *r.runs, ENOUGH))
    for (int64_t i = 0; i < n; i++)
        for (int64_t run = 1; run < r.runs; run++) to[i] += sums[(run - 1) * n + i];
}

enum { DISENTANGLED = TRI_FACT_RELATIVE, BIASED = TRI_FACT_RELATIVE | TRI_FACT_BIAS };
#define KERNEL(op_, facts_, run_, ...) \
    {.op = TRI_OP_##op_, .facts = (facts_), .dtype = TRI_F32, .run = run_, __VA_ARGS__}
/* To all keys and to those of present blocks. */
#define KERNELS(op_, facts_, run_, ...) \
    KERNEL(op_, facts_, run_, __VA_ARGS__), KERNEL(op_, (facts_) | TRI_FACT_SPARSE, run_, __VA_ARGS__)

TRI_FAST_ROWS(attention) = TRI_KERNEL_ROWS(
    KERNELS(attention, 0, attention, .work = FORWARD_WORK),
    KERNELS(attention_din, 0, attention_din, .work = GRADIENT_WORK),
    KERNELS(attention, TRI_FACT_FIRST, attention),
    KERNELS(attention_din, TRI_FACT_FIRST, attention_din),
    KERNEL(attention, BIASED, attention_relative, .work = RELATIVE_WORK),
    KERNEL(attention_din, BIASED, attention_biased_din, .work = BIASED_DIN_WORK),
    KERNEL(attention, DISENTANGLED, attention_relative, .work = RELATIVE_WORK),
    KERNEL(attention_din, DISENTANGLED, attention_disentangled_din, .work = DISENTANGLED_DIN_WORK));
