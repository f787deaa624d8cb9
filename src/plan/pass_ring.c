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
 * Block-sparse attention needs fewer runs: steps in which no rank has a present block, in a sequence of any length that
 * the plan allows, are left out. Keys and values then go straight from their rank to where they are needed, and their
 * gradients straight back: in all steps kv.0 is sent, k ranks on, and a part of its gradient comes from there.
 *
 * First tokens: a sum over ranks brings their queries to all of them; each attends to its own keys, and a second sum,
 * in which each rank has columns of its own, brings the parts together.
 *
 * Runs of keys and peers count from this rank on until `context_place`. */
#include "plan/pass.h"
#include "layout/blocks.h"

typedef struct ring {
    tri_builder to;
    int n;                  /* ranks */
    const tri_instr *at;    /* the operation */
    const char *name;       /* of what it writes: all its slots begin with it */
    int *sparse[2];         /* [n + 1] of each text: the steps of block-sparse attention, n after the last */
    int *all;               /* [n + 1] every step */
    const int *step;        /* [n + 1] those of this operation */
    int steps;              /* how many */
    int straight;           /* 1: keys come from their own rank in each step, not from the previous one */
} ring;

static tri_attr group_of(const ring *r) { return (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP), .within = r->n}; }

static int operand(const ring *r, const char *name) { return r->at->slot[tri__row_arg(tri__instr_row(r->at), name)]; }

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

/* Posts `x` to the rank `far` places on, and receives `y`, of which it is the same as many places back. */
static void post_shift(ring *r, int x, int y, int far) {
    tri_attr attr = group_of(r);
    attr.id = tri__random_id(r->to.program->slot[y].name);
    attr.root = far;
    TRI_BUILD(&r->to, send_post, attr, x);
    attr.root = r->n - far;
    TRI_BUILD(&r->to, recv_post, attr, y);
}

static void wait_shift(ring *r, int x, int y) {
    TRI_BUILD(&r->to, wait, (tri_attr){0}, y, -1);
    TRI_BUILD(&r->to, wait, (tri_attr){0}, -1, x);
}

/* The run of keys that is here in a step; a query has its share of those that it attends to. */
static tri_attr attr_of(const ring *r, int step) {
    tri_attr attr = r->at->attr;
    attr.sparse = operand(r, "blocks") >= 0;
    attr.part = (r->n - step) % r->n;
    attr.keys /= (float)r->steps;
    return attr;
}

/* Parts of attention to all keys of a run, or to those of present blocks. */
static void part(ring *r, int step, int ctx, int lse, int kv) {
    TRI_BUILD(&r->to, attention_part, attr_of(r, step), ctx, lse, -1, operand(r, "qkv"), kv, operand(r, "seq"),
              operand(r, "blocks"), operand(r, "key"));
}

static void part_din(ring *r, int step, int dkv, int kv) {
    tri_instr *made = TRI_BUILD(&r->to, attention_part_din, attr_of(r, step), operand(r, "dqkv"), dkv,
                                operand(r, "dctx"), -1, operand(r, "qkv"), kv, operand(r, "ctx"), operand(r, "lse"),
                                operand(r, "seq"), operand(r, "blocks"), operand(r, "key"));
    made->acc = step ? 1 : r->at->acc;
}

/* Keys and values of one step after the other. */
typedef struct tour {
    int own, here, next;    /* slots: this rank's; those of the present step; of the next one, on their way, or -1 */
} tour;

static void post_next(ring *r, tour *t, int i) {
    int step = r->step[i + 1];
    t->next = i + 1 < r->steps ? kv_slot(r, "kv", step) : -1;
    if (t->next < 0) return;
    if (r->straight) post_shift(r, t->own, t->next, step);
    else post_shift(r, t->here, t->next, 1);
}

static void wait_next(ring *r, tour *t) {
    if (t->next >= 0) wait_shift(r, r->straight ? t->own : t->here, t->next);
    t->here = t->next;
}

static tour begin_tour(ring *r) {
    int kv = own_kv(r);
    return (tour){.own = kv, .here = kv, .next = -1};
}

static void attention(ring *r) {
    int ctx = operand(r, "ctx"), lse = operand(r, "lse");
    const tri_slot of = r->to.program->slot[ctx];
    tour t = begin_tour(r);
    for (int i = 0; i < r->steps; i++) {
        post_next(r, &t, i);
        int here = i ? slot_like(r, ctx, of.cols, "part", r->step[i]) : ctx;
        int sums = !i && lse >= 0 ? lse
                                  : tri__build_slot(&r->to, of.mem, TRI_F32, of.rows, r->at->attr.heads, "%s.lse%d",
                                                    r->name, r->step[i]);
        part(r, r->step[i], here, sums, t.here);
        if (!i) lse = sums;
        else TRI_BUILD(&r->to, attention_join, ((tri_attr){.heads = r->at->attr.heads}), ctx, lse, here, sums);
        wait_next(r, &t);
    }
}

/* Gradients of keys and values on their way. */
typedef struct way {
    int sum;                /* what this rank has so far of those of its own run, or of the run that passes; -1 */
    int left, coming;       /* posted: what it sent, and what it receives; -1 */
} way;

/* Waits for what is coming, which `own` is added to, or which is added to the sum of this rank's run. */
static void arrive(ring *r, way *w, int own) {
    if (w->coming < 0) return;
    wait_shift(r, w->left, w->coming);
    if (r->straight) TRI_BUILD(&r->to, add_din, (tri_attr){0}, w->sum, -1, w->coming)->acc = 1;
    else if (own >= 0) TRI_BUILD(&r->to, add_din, (tri_attr){0}, w->coming, -1, own)->acc = 1;
}

/* The gradient of a step's keys, `own`: round the ring with that of other ranks, or straight to its rank. */
static void send_gradient(ring *r, way *w, int step, int own) {
    arrive(r, w, own);
    if (r->straight && !step) {
        w->sum = own;
        return;
    }
    w->left = r->straight || w->coming < 0 ? own : w->coming;
    w->coming = kv_slot(r, "come", r->straight ? step : step + 1);
    post_shift(r, w->left, w->coming, r->straight ? r->n - step : 1);
}

static void attention_din(ring *r) {
    int dqkv = operand(r, "dqkv");
    tour t = begin_tour(r);
    way w = {-1, -1, -1};
    for (int i = 0; i < r->steps; i++) {
        int own = kv_slot(r, "dkv", r->step[i]);
        post_next(r, &t, i);
        part_din(r, r->step[i], own, t.here);
        wait_next(r, &t);
        send_gradient(r, &w, r->step[i], own);
    }
    arrive(r, &w, -1);
    TRI_BUILD(&r->to, kv_part, (tri_attr){.back = 1}, dqkv, r->straight ? w.sum : w.coming)->acc = 1;
}

/* A sum over the ranks, in place. */
static void sum_up(ring *r, int slot) {
    const tri_ends ends = {slot, -1};
    tri__build_post(&r->to, TRI_OP_all_reduce_post, group_of(r), ends);
    tri__build_wait(&r->to, ends);
}

static void first(ring *r) {
    int ctx = operand(r, "ctx"), q = operand(r, "q"), qkv = operand(r, "qkv"), seq = operand(r, "seq");
    const tri_slot of = r->to.program->slot[ctx];
    tri_attr attr = attr_of(r, 0);
    TRI_BUILD(&r->to, pool, ((tri_attr){.members = r->n}), q, qkv, seq);
    sum_up(r, q);
    int all = tri__build_slot(&r->to, of.mem, TRI_F32, of.rows, r->n * (of.cols + attr.heads), "%s.parts", r->name);
    TRI_BUILD(&r->to, attention_part, attr, all, -1, q, qkv, -1, seq, operand(r, "blocks"), operand(r, "key"));
    sum_up(r, all);
    TRI_BUILD(&r->to, attention_first_join, ((tri_attr){.heads = attr.heads, .members = r->n}), ctx, operand(r, "lse"),
              all);
}

static void first_din(ring *r) {
    int dqkv = operand(r, "dqkv"), q = operand(r, "q");
    int dq = slot_like(r, q, r->to.program->slot[q].cols, "first", 0);
    TRI_BUILD(&r->to, attention_part_din, attr_of(r, 0), dqkv, dq, operand(r, "dctx"), q, operand(r, "qkv"), -1,
              operand(r, "ctx"), operand(r, "lse"), operand(r, "seq"), operand(r, "blocks"), operand(r, "key"))->acc =
        r->at->acc;
    sum_up(r, dq);
    TRI_BUILD(&r->to, pool, ((tri_attr){.back = 1, .members = r->n}), dqkv, dq, operand(r, "seq"))->acc = 1;
}

/* The runs of chunks of `chunk` tokens that a block of a sequence of `length` tokens is in. */
static void runs_of(int64_t block, int64_t tokens, int64_t chunk, int64_t length, int64_t *first, int64_t *last) {
    int64_t end = (block + 1) * tokens < length ? (block + 1) * tokens : length;
    *first = block * tokens / chunk, *last = (end - 1) / chunk;
}

/* Marks the steps in which some rank has a present block of a sequence of `length` tokens; returns how many are marked
 * in all. */
static int mark_steps(const ring *r, const int32_t *words, int64_t tokens, int64_t length, uint8_t *needed) {
    int64_t chunk = (length + r->n - 1) / r->n, blocks = (length + tokens - 1) / tokens, of[4];
    int marked = 0;
    for (int layout = 0; layout < words[1]; layout++) {
        tri_block_lists lists = tri__blocks_of_queries(words, layout);
        for (int64_t i = 0; i < blocks; i++)
            for (int32_t at = lists.at[i]; at < tri__blocks_end(lists, i, blocks); at++) {
                runs_of(i, tokens, chunk, length, &of[0], &of[1]), runs_of(lists.of[at], tokens, chunk, length, &of[2],
                                                                           &of[3]);
                for (int64_t query = of[0]; query <= of[1]; query++)
                    for (int64_t key = of[2]; key <= of[3]; key++) needed[(query - key + r->n) % r->n] = 1;
            }
    }
    for (int step = 0; step < r->n; step++) marked += needed[step];
    return marked;
}

/* The steps that a text's pattern needs. Sequences with chunks of the same size need those of the longest of them. */
static int *steps_of(ring *r, const tri_pass *pass, int text) {
    const tri_network *model = pass->in->model;
    const tri_counts *max = pass->training ? &pass->in->max : &pass->in->max_infer;
    int64_t longest = model->max_len, least = max->shortest[text] > 0 ? max->shortest[text] : 1;
    uint8_t *needed = tri__arena_alloc(pass->arena, (size_t)r->n);
    int *steps = tri__arena_alloc(pass->arena, (size_t)(r->n + 1) * sizeof *steps), n = 0;
    for (int step = 0; step < r->n; step++) needed[step] = step == 0; /* a rank begins with its own keys */
    for (int64_t chunk = (least + r->n - 1) / r->n, marked = 0; (chunk - 1) * r->n < longest && marked < r->n; chunk++)
        marked = mark_steps(r, model->blocks[text].word, model->blocks[text].block,
                            chunk * r->n < longest ? chunk * r->n : longest, needed);
    for (int step = 0; step < r->n; step++)
        if (needed[step]) steps[n++] = step;
    steps[n] = r->n;
    return steps;
}

/* The operation's steps. */
static void choose_steps(ring *r) {
    int blocks = tri__row_arg(tri__instr_row(r->at), "blocks"), text = 0;
    r->straight = blocks >= 0 && r->at->slot[blocks] >= 0;
    if (r->straight) text = r->to.program->slot[operand(r, "qkv")].rows.sym == TRI_SYM_T1;
    r->step = r->straight ? r->sparse[text] : r->all;
    for (r->steps = 0; r->step[r->steps] < r->n; r->steps++) continue;
}

tri_status tri__pass_ring(tri_pass *pass) {
    tri_program *program = pass->program;
    int n;
    ring r = {.to = {.arena = pass->arena, .program = program}, .n = tri__plan_ring(pass->in)};
    r.all = tri__arena_alloc(pass->arena, (size_t)(r.n + 1) * sizeof *r.all);
    for (int step = 0; step <= r.n; step++) r.all[step] = step;
    for (int text = 0; text < pass->in->model->n_encoders; text++)
        if (pass->in->model->blocks[text].word) r.sparse[text] = steps_of(&r, pass, text);
    const tri_instr *from = tri__take_instrs(program, &n);
    for (int i = 0; i < n; i++) {
        r.at = &from[i], r.name = from[i].slot[0] < 0 ? "" : program->slot[from[i].slot[0]].name;
        tri__build_as(&r.to, &from[i]);
        choose_steps(&r);
        switch (from[i].op) {
        case TRI_OP_ring_attention: (from[i].attr.first ? first : attention)(&r); break;
        case TRI_OP_ring_attention_din: (from[i].attr.first ? first_din : attention_din)(&r); break;
        default: tri__build_copy(&r.to, &from[i]);
        }
    }
    return TRI_OK;
}
