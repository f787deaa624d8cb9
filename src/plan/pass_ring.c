/* pass_ring.c - pass: attention of ranks that have a chunk of each sequence each (layout/runs.h), as parts of attention
 * between transfers round a ring (Liu et al., 2023).
 *
 * Each rank's keys and values pass all others, to the next rank in each step. The next run is posted before the part of
 * attention to the present one, and waited for after it:
 *
 *   kv.0 = kv_part qkv
 *   step k:   post kv.k -> next rank, kv.k+1 <- previous; attention_part of run (place - k); attention_join; wait
 *
 * The order of runs is given by the ring, so that bits do not depend on timing. The gradient sends keys and values
 * round once more, so that no rank keeps more than its own, and the gradient of each run of them follows one step
 * behind: a rank adds its part and sends it on. After the last step it goes home.
 *
 * First tokens: a sum over ranks brings their queries to all of them; each attends to its own keys, and a second sum,
 * in which each rank has columns of its own, brings the parts together.
 *
 * Runs of keys and peers count from this rank on until `context_place`. */
#include "plan/plan.h"
#include "base/random.h"

typedef struct ring {
    tri_builder to;
    int n;                  /* ranks */
    const tri_instr *at;    /* the operation */
    const char *name;       /* of what it writes: all its slots begin with it */
} ring;

static tri_attr group_of(const ring *r) {
    return (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP), .within = r->n};
}

static int operand(const ring *r, const char *name) { return r->at->slot[tri__op_arg(r->at->op, name)]; }

/* A slot with the rows of `like`. */
static int slot_like(ring *r, int like, int64_t cols, const char *what, int step) {
    const tri_slot s = r->to.program->slot[like];
    return tri__build_slot(&r->to, s.mem, s.dtype, s.rows, cols, "%s.%s%d", r->name, what, step);
}

/* Keys and values are two thirds of qkv. */
static int kv_slot(ring *r, const char *what, int step) {
    int qkv = operand(r, "qkv");
    return slot_like(r, qkv, r->to.program->slot[qkv].cols / 3 * 2, what, step);
}

static int own_kv(ring *r) {
    int kv = kv_slot(r, "kv", 0);
    TRI_BUILD(&r->to, kv_part, (tri_attr){0}, kv, operand(r, "qkv"));
    return kv;
}

/* Posts `x` to the next rank, and receives `y`, of which it is the same on the previous. */
static void post_shift(ring *r, int x, int y) {
    tri_attr attr = group_of(r);
    attr.id = tri__random_id(r->to.program->slot[y].name);
    attr.root = 1;
    TRI_BUILD(&r->to, send_post, attr, x);
    attr.root = r->n - 1;
    TRI_BUILD(&r->to, recv_post, attr, y);
}

static void wait_shift(ring *r, int x, int y) {
    TRI_BUILD(&r->to, wait, (tri_attr){0}, y, -1);
    TRI_BUILD(&r->to, wait, (tri_attr){0}, -1, x);
}

/* The run of keys that is here in a step; a query has its share of those that it attends to. */
static tri_attr attr_of(const ring *r, int step) {
    tri_attr attr = r->at->attr;
    attr.part = (r->n - step) % r->n;
    attr.keys /= (float)r->n;
    return attr;
}

/* Parts of attention to all keys of a run, or to those of present blocks. */
static void part(ring *r, int step, int ctx, int lse, int kv) {
    int qkv = operand(r, "qkv"), seq = operand(r, "seq"), blocks = operand(r, "blocks"), key = operand(r, "key");
    tri_attr attr = attr_of(r, step);
    if (blocks < 0) TRI_BUILD(&r->to, attention_part, attr, ctx, lse, qkv, kv, seq, key);
    else TRI_BUILD(&r->to, attention_sparse_part, attr, ctx, lse, qkv, kv, seq, blocks, key);
}

static void part_din(ring *r, int step, int dkv, int kv) {
    int dqkv = operand(r, "dqkv"), dctx = operand(r, "dctx"), qkv = operand(r, "qkv"), ctx = operand(r, "ctx");
    int lse = operand(r, "lse"), seq = operand(r, "seq"), blocks = operand(r, "blocks"), key = operand(r, "key");
    tri_attr attr = attr_of(r, step);
    tri_instr *made =
        blocks < 0 ? TRI_BUILD(&r->to, attention_part_din, attr, dqkv, dkv, dctx, qkv, kv, ctx, lse, seq, key)
                   : TRI_BUILD(&r->to, attention_sparse_part_din, attr, dqkv, dkv, dctx, qkv, kv, ctx, lse, seq,
                               blocks, key);
    made->acc = step ? 1 : r->at->acc;
}

static void attention(ring *r) {
    int ctx = operand(r, "ctx"), lse = operand(r, "lse"), kv = own_kv(r);
    const tri_slot of = r->to.program->slot[ctx];
    for (int step = 0; step < r->n; step++) {
        int next = step + 1 < r->n ? kv_slot(r, "kv", step + 1) : -1;
        if (next >= 0) post_shift(r, kv, next);
        int here = step ? slot_like(r, ctx, of.cols, "part", step) : ctx;
        int sums = !step && lse >= 0 ? lse
                                     : tri__build_slot(&r->to, of.mem, TRI_F32, of.rows, r->at->attr.heads, "%s.lse%d",
                                                       r->name, step);
        part(r, step, here, sums, kv);
        if (!step) lse = sums;
        else TRI_BUILD(&r->to, attention_join, ((tri_attr){.heads = r->at->attr.heads}), ctx, lse, here, sums);
        if (next >= 0) wait_shift(r, kv, next);
        kv = next;
    }
}

static void attention_din(ring *r) {
    int dqkv = operand(r, "dqkv"), kv = own_kv(r), coming = -1, left = -1;
    for (int step = 0; step < r->n; step++) {
        int next = step + 1 < r->n ? kv_slot(r, "kv", step + 1) : -1, own = kv_slot(r, "dkv", step);
        if (next >= 0) post_shift(r, kv, next);
        part_din(r, step, own, kv);
        if (next >= 0) wait_shift(r, kv, next);
        if (coming >= 0) {
            wait_shift(r, left, coming);
            TRI_BUILD(&r->to, add_din, (tri_attr){0}, coming, -1, own)->acc = 1;
        }
        left = coming >= 0 ? coming : own, coming = kv_slot(r, "come", step + 1);
        post_shift(r, left, coming);
        kv = next;
    }
    wait_shift(r, left, coming);
    TRI_BUILD(&r->to, kv_part_din, (tri_attr){0}, dqkv, coming)->acc = 1;
}

/* A sum over the ranks, in place. */
static void sum_up(ring *r, int slot) {
    tri_attr attr = group_of(r);
    attr.id = tri__random_id(r->to.program->slot[slot].name);
    TRI_BUILD(&r->to, all_reduce_post, attr, slot);
    TRI_BUILD(&r->to, wait, (tri_attr){0}, slot, -1);
}

static void first(ring *r) {
    int ctx = operand(r, "ctx"), q = operand(r, "q"), qkv = operand(r, "qkv"), seq = operand(r, "seq");
    int blocks = operand(r, "blocks"), key = operand(r, "key");
    const tri_slot of = r->to.program->slot[ctx];
    tri_attr attr = r->at->attr;
    TRI_BUILD(&r->to, pool_first, ((tri_attr){.members = r->n}), q, qkv, seq);
    sum_up(r, q);
    int all = tri__build_slot(&r->to, of.mem, TRI_F32, of.rows, r->n * (of.cols + attr.heads), "%s.parts", r->name);
    attr = attr_of(r, 0);
    if (blocks < 0) TRI_BUILD(&r->to, attention_first_part, attr, all, q, qkv, seq, key);
    else TRI_BUILD(&r->to, attention_sparse_first_part, attr, all, q, qkv, seq, blocks, key);
    sum_up(r, all);
    TRI_BUILD(&r->to, attention_first_join, ((tri_attr){.heads = attr.heads, .members = r->n}), ctx, operand(r, "lse"),
              all);
}

static void first_din(ring *r) {
    int dqkv = operand(r, "dqkv"), q = operand(r, "q");
    int dq = slot_like(r, q, r->to.program->slot[q].cols, "first", 0);
    int dctx = operand(r, "dctx"), qkv = operand(r, "qkv"), ctx = operand(r, "ctx"), lse = operand(r, "lse");
    int seq = operand(r, "seq"), blocks = operand(r, "blocks"), key = operand(r, "key");
    tri_attr attr = attr_of(r, 0);
    tri_instr *made =
        blocks < 0 ? TRI_BUILD(&r->to, attention_first_part_din, attr, dqkv, dq, dctx, q, qkv, ctx, lse, seq, key)
                   : TRI_BUILD(&r->to, attention_sparse_first_part_din, attr, dqkv, dq, dctx, q, qkv, ctx, lse, seq,
                               blocks, key);
    made->acc = r->at->acc;
    sum_up(r, dq);
    TRI_BUILD(&r->to, pool_first_din, ((tri_attr){.members = r->n}), dqkv, dq, seq)->acc = 1;
}

tri_status tri__pass_ring(tri_pass *pass) {
    tri_program *program = pass->program;
    const tri_instr *from = program->instr;
    int n = program->n_instrs;
    ring r = {.to = {.arena = pass->arena, .program = program}, .n = tri__plan_ring(pass->in)};
    program->instr = NULL, program->n_instrs = program->cap_instrs = 0;
    for (int i = 0; i < n; i++) {
        r.at = &from[i], r.name = from[i].slot[0] < 0 ? "" : program->slot[from[i].slot[0]].name;
        tri__build_as(&r.to, &from[i]);
        switch (from[i].op) {
        case TRI_OP_ring_attention: attention(&r); break;
        case TRI_OP_ring_attention_din: attention_din(&r); break;
        case TRI_OP_ring_first: first(&r); break;
        case TRI_OP_ring_first_din: first_din(&r); break;
        default: tri__build(&r.to, from[i].op, from[i].slot, from[i].attr)->acc = from[i].acc;
        }
    }
    return TRI_OK;
}
