/* attention_part.c - attention of a run's queries to the keys of a run (reference/attention_part.c): each head of each
 * sequence is one work item. Over present blocks alone, each block of queries attends to one stretch of its keys after
 * the other: blocks side by side, as far as the run has them. First tokens have too little work for more than the plain
 * rows. */
#include "device/cpu/fast/attention/join.h"
#include "device/cpu/fast/attention/simd_head_din.h"
#include "layout/blocks.h"
#include "layout/runs.h"

enum { ENOUGH = 1 << 14 /* elements */, WIDEST = 64 /* tokens of a block */ };
static const float NO_KEYS = -1e30f;

#define FORWARD_WORK {.fixed = 8 << 20, .row = 512, .row_cols = 8}
#define GRADIENT_WORK {.fixed = 8 << 20, .row = 2048, .row_cols = 8}

/* Sequences of which this rank has a run of the queries, qkv [T,3H], and one of the keys, kv [T,2H]. */
typedef struct pair {
    const tri_call *call;
    const int32_t *seq;
    int key;                       /* the operand: of all runs */
    const int32_t *blocks;         /* layout/blocks.h; NULL: all keys */
    const float *qkv, *kv;
    int64_t items, T, H, d;        /* items: heads of sequences */
    int64_t room, need;            /* scratch floats of a head; per thread: of a block's rows of ctx and lse, too */
    int threads;
} pair;

static pair pair_of(const tri_call *call, int qkv, int kv, int seq, int blocks, int key) {
    pair p = {.call = call, .seq = i32(call, seq), .key = key, .blocks = i32(call, blocks), .qkv = f32(call, qkv),
              .kv = f32(call, kv), .items = (call->t[seq].rows - 1) * call->attr->heads, .T = call->t[qkv].rows,
              .H = call->t[kv].cols / 2};
    p.d = p.H / call->attr->heads;
    p.threads = threads_for(call, p.T * p.H, ENOUGH);
    return p;
}

static tri_run_rows run_of(const pair *p, int64_t s, int64_t run) {
    return tri__ring_run(p->seq, s, run, p->call->attr->members);
}

/* As many threads as the row's scratch space allows. The first run has the longest chunks. */
static void fit_threads(pair *p, int64_t (*work)(int64_t, int64_t), tri_workspace w) {
    int64_t longest = 0, sequences = p->items / p->call->attr->heads;
    for (int64_t s = 0; s < sequences; s++) {
        tri_run_rows run = run_of(p, s, 0);
        if (run.end - run.begin > longest) longest = run.end - run.begin;
    }
    p->room = (work(longest, p->d) + 31) / 16 * 16;
    p->need = p->room + (p->blocks ? (WIDEST * (p->d + 1) + 15) / 16 * 16 : 0);
    int64_t bytes = w.fixed + w.row * p->call->t[0].rows + w.row_cols * elements(p->call, 0);
    int64_t fit = bytes / (p->need * 4);
    if (fit < p->threads) p->threads = fit < 1 ? 1 : (int)fit;
}

/* Work item i; own: its queries' rows. */
static tri_head head_of(const pair *p, int64_t i, tri_run_rows *own, tri_run_rows *keys) {
    const tri_attr *attr = p->call->attr;
    int64_t s = i / attr->heads, a = i % attr->heads, at = a * p->d;
    *own = run_of(p, s, attr->run), *keys = run_of(p, s, attr->part);
    tri_drop drop = drop_of(p->call, p->key);
    int64_t place = 0;
    if (drop.threshold && own->begin < own->end && keys->begin < keys->end) {
        drop.key += 2 * (attr->run * p->T + own->begin);
        place = i32(p->call, p->key)[2 * (attr->part * p->T + keys->begin) + 1];
    }
    const float *k = p->kv + keys->begin * 2 * p->H + at;
    return (tri_head){.drop = drop, .len = own->end - own->begin, .keys = keys->end - keys->begin, .d = p->d,
                      .feature0 = (attr->head0 + a) * (int64_t)attr->max_len + place, .window = attr->window,
                      .shift = own->place - keys->place, .ld = 3 * p->H,
                      .ld_kv = 2 * p->H, .ld_ctx = p->H, .ld_lse = attr->heads,
                      .q = p->qkv + own->begin * 3 * p->H + at, .k = k, .v = k + p->H,
                      .work = (float *)p->call->work + p->need * omp_get_thread_num()};
}

/* The next stretch of rows of the run that queries of a block row, those of h, attend to; at: the next entry of its
 * list. 0: none is left. */
static int next_stretch(const tri_head *h, tri_block_lists lists, int64_t row, int64_t block, tri_run_rows keys,
                        int32_t *at, tri_run_rows *out) {
    int64_t first = keys.place, last = keys.place + keys.end - keys.begin,
            near = keys.place + h->shift; /* first query */
    while (*at < lists.at[row + 1]) {
        int64_t from = lists.of[(*at)++] * block, to = from + block;
        while (*at < lists.at[row + 1] && lists.of[*at] * block == to) to += block, (*at)++;
        if (from < first) from = first;
        if (to > last) to = last;
        if (h->window && from < near - h->window) from = near - h->window;
        if (h->window && to > near + h->len + h->window) to = near + h->len + h->window;
        *out = (tri_run_rows){keys.begin + from - first, keys.begin + to - first, from};
        if (from < to) return 1;
    }
    return 0;
}

/* The part of a head's work of queries [from, from + len) to keys [key, key + keys), counted from its first ones. */
static tri_head narrowed(const tri_head *h, int64_t from, int64_t len, int64_t key, int64_t keys) {
    tri_head out = *h;
    if (out.drop.threshold) out.drop.key += 2 * from;
    out.len = len, out.keys = keys, out.feature0 += key, out.shift += from - key;
    out.q += from * h->ld, out.ctx += from * h->ld_ctx, out.lse += from * h->ld_lse;
    out.k += key * h->ld_kv, out.v += key * h->ld_kv;
    if (!h->dq) return out;
    out.dctx += from * h->ld_ctx, out.dq += from * h->ld;
    out.dk += key * h->ld_kv, out.dv += key * h->ld_kv;
    return out;
}

/* Attention of one block of queries to one stretch after the other; h: of its queries and all keys of the run. */
static void block_forward(const pair *p, const tri_head *h, tri_block_lists lists, int64_t row, tri_run_rows keys) {
    float *more = h->work + p->room, *logs = more + WIDEST * p->d; /* [block,d] [block] */
    int32_t at = lists.at[row];
    tri_run_rows stretch;
    int any = 0;
    for (; next_stretch(h, lists, row, p->call->attr->block, keys, &at, &stretch); any = 1) {
        tri_head part = narrowed(h, 0, h->len, stretch.begin - keys.begin, stretch.end - stretch.begin);
        if (any) part.ctx = more, part.ld_ctx = p->d, part.lse = logs, part.ld_lse = 1;
        simd_head(&part);
        for (int64_t t = 0; t < h->len && any; t++)
            tri__join_keys(h->ctx + t * h->ld_ctx, &h->lse[t * h->ld_lse], more + t * p->d, logs[t], p->d);
    }
    for (int64_t t = 0; t < h->len && !any; t++) h->lse[t * h->ld_lse] = NO_KEYS;
}

static void block_din(const pair *p, const tri_head *h, tri_block_lists lists, int64_t row, tri_run_rows keys) {
    int32_t at = lists.at[row];
    tri_run_rows stretch;
    while (next_stretch(h, lists, row, p->call->attr->block, keys, &at, &stretch)) {
        tri_head part = narrowed(h, 0, h->len, stretch.begin - keys.begin, stretch.end - stretch.begin);
        simd_head_din(&part);
    }
}

/* Work item i, over present blocks. */
static void each_block(const pair *p, const tri_head *h, int64_t i, tri_run_rows own, tri_run_rows keys,
                       void (*run)(const pair *, const tri_head *, tri_block_lists, int64_t, tri_run_rows)) {
    const tri_attr *attr = p->call->attr;
    tri_block_lists lists = tri__blocks_of_queries(p->blocks, attr->head0 + i % attr->heads);
    for (int64_t t = 0, n; t < h->len; t += n) {
        int64_t row = (own.place + t) / attr->block;
        n = (row + 1) * attr->block - own.place - t;
        if (n > h->len - t) n = h->len - t;
        tri_head block = narrowed(h, t, n, 0, h->keys);
        run(p, &block, lists, row, keys);
    }
}

static void attention_part(const tri_call *call) {
    OPERANDS(attention_part);
    pair p = pair_of(call, ARG(qkv), ARG(kv), ARG(seq), ARG(blocks), ARG(key));
    float *ctx = f32(call, ARG(ctx)), *lse = f32(call, ARG(lse));
    fit_threads(&p, simd_head_work, (tri_workspace)FORWARD_WORK);
    memset(ctx, 0, (size_t)elements(call, ARG(ctx)) * sizeof *ctx);
    memset(lse, 0, (size_t)elements(call, ARG(lse)) * sizeof *lse);
#pragma omp parallel for schedule(dynamic, 1) num_threads(p.threads)
    for (int64_t i = 0; i < p.items; i++) {
        tri_run_rows own, keys;
        tri_head head = head_of(&p, i, &own, &keys);
        int64_t heads = call->attr->heads, a = i % heads;
        head.ctx = ctx + own.begin * p.H + a * p.d;
        head.lse = lse + own.begin * heads + a;
        for (int64_t t = 0; t < head.len && head.keys == 0; t++) head.lse[t * heads] = NO_KEYS;
        if (head.len == 0 || head.keys == 0) continue;
        if (p.blocks) each_block(&p, &head, i, own, keys, block_forward);
        else simd_head(&head);
    }
}

static void clear(const tri_call *call, int k) {
    if (!adds(call, k)) memset(call->t[k].data, 0, (size_t)elements(call, k) * sizeof(float));
}

static void attention_part_din(const tri_call *call) {
    OPERANDS(attention_part_din);
    pair p = pair_of(call, ARG(qkv), ARG(kv), ARG(seq), ARG(blocks), ARG(key));
    fit_threads(&p, simd_head_din_work, (tri_workspace)GRADIENT_WORK);
    clear(call, ARG(dqkv));
    clear(call, ARG(dkv));
#pragma omp parallel for schedule(dynamic, 1) num_threads(p.threads)
    for (int64_t i = 0; i < p.items; i++) {
        tri_run_rows own, keys;
        tri_head head = head_of(&p, i, &own, &keys);
        int64_t heads = call->attr->heads, a = i % heads;
        head.ctx = f32(call, ARG(ctx)) + own.begin * p.H + a * p.d;
        head.dctx = f32(call, ARG(dctx)) + own.begin * p.H + a * p.d;
        head.lse = f32(call, ARG(lse)) + own.begin * heads + a;
        head.dq = f32(call, ARG(dqkv)) + own.begin * 3 * p.H + a * p.d;
        head.dk = f32(call, ARG(dkv)) + keys.begin * 2 * p.H + a * p.d;
        head.dv = head.dk + p.H;
        head.acc = head.acc_kv = 1;
        if (head.len == 0 || head.keys == 0) continue;
        if (p.blocks) each_block(&p, &head, i, own, keys, block_din);
        else simd_head_din(&head);
    }
}

#define KERNEL(op_, facts_, ...) \
    {.op = TRI_OP_##op_, .facts = facts_, .dtype = TRI_F32, .run = op_, .work = __VA_ARGS__}
TRI_FAST_ROWS(attention_part) = TRI_KERNEL_ROWS(
    KERNEL(attention_part, 0, FORWARD_WORK),
    KERNEL(attention_part_din, 0, GRADIENT_WORK),
    KERNEL(attention_part, TRI_FACT_SPARSE, FORWARD_WORK),
    KERNEL(attention_part_din, TRI_FACT_SPARSE, GRADIENT_WORK));
