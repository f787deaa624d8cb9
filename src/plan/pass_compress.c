/* pass_compress.c - pass: gradients and gathered weights travel between replicas in fewer bits (layout/coded.h).
 *
 * A transfer becomes several, each posted and waited for like any other; sums are in fp32, and every member, the owner
 * of a part included, goes on with the decoded numbers, so replicas never drift apart.
 *
 *   reduce_scatter   pack, all_to_all; unpack_sum into this member's shard
 *   all_reduce       the same into this member's part of the slot; then pack, all_gather; unpack
 *   all_gather       (weights) pack, all_gather; unpack
 *
 * With --compress-scope node, an all_reduce is a reduce_scatter within the machine, an all_reduce in the code of each
 * part across machines, and an all_gather within: in full inside, coded between. Sharded gradients are so by themselves
 * (hybrid): only the sums across runs of replicas are coded.
 *
 * A sum of gradients advances by one of these transfers wherever the next sum is posted, so that one is in flight while
 * another is coded, and its buffers live no longer. Parts of less than a block stay as they were.
 *
 * Error feedback: what coding loses of this member's gradients is kept and added to the next step's. What the second
 * coding loses of its part of the sum is kept in that part's place, from where the first coding's loss has just been
 * added. So the sum over all replicas is all that is missing, whatever the shard. */
#include "plan/local.h"
#include "base/random.h"

#include <string.h>

/* What a transfer waits for. */
typedef enum leg { SCATTER, EXCHANGE, GATHER, SPREAD, DONE } leg;

typedef struct flight {
    tri_instr post;        /* of the transfer that is replaced */
    leg leg;
    tri_code code;
    tri_attr group;        /* exchanges in the code */
    int n, place;          /* its members; this one's place */
    int64_t row;           /* bytes of a coded part */
    int part;              /* slot: what is exchanged in the code; sums within a machine are in their place in y */
    int sum;               /* slot: this member's part of the sum */
    int error, error_sum;  /* slots of what coding lost of `part` and of `sum`; -1 */
    tri_ends ends;         /* of the transfer in flight */
} flight;

typedef struct compress {
    tri_pass *pass;
    tri_builder to;
    const tri_compression *how;
    int within;            /* replicas of a machine that exchange in full; 1: every exchange is coded */
    flight *open;          /* in the order of their posts */
    int n_open, cap_open;
    int n_gradients, n_weights; /* transfers that are coded */
    int64_t *bucket_count; /* [n_buckets] elements */
    int n_buckets;
    int *error;            /* [n_buckets] slots of what coding lost of error_range; NULL: nothing is kept */
} compress;

static tri_range own_of(const compress *c, int64_t count, tri_attr group) {
    const tri_mesh *mesh = &c->pass->in->mesh;
    return tri__shard(count, tri__transfer_size(mesh, &group), tri__transfer_place(mesh, c->pass->in->rank, &group));
}

static tri_attr within_of(const compress *c) {
    return (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP), .within = c->within};
}

/* The gates, the unit and the microbatch of everything that replaces a transfer. */
static tri_instr *emit(compress *c, const flight *f, tri_op op, const int *slots, tri_attr attr) {
    c->to.unit = f->post.unit, c->to.mb = f->post.mb;
    tri_instr *instr = tri__build(&c->to, op, slots, attr);
    instr->gates = f->post.gates;
    return instr;
}
#define EMIT(c, f, op, attr, ...) emit((c), (f), TRI_OP_##op, (const int[TRI_MAX_ARGS]){__VA_ARGS__}, (attr))

static void post(compress *c, flight *f, tri_op op, tri_attr group, tri_ends ends, leg leg) {
    tri_instr *instr = emit(c, f, op, (const int[TRI_MAX_ARGS]){ends.y, ends.x}, group);
    /* Codes of one size would meet otherwise. */
    instr->attr.id = tri__random_id(tri__arena_print(c->to.arena, "%s %s", tri__code_name(f->code),
                                                     c->to.program->slot[tri__transfer_whole(instr)].name));
    f->ends = ends, f->leg = leg;
}

static void await(compress *c, const flight *f) { EMIT(c, f, wait, (tri_attr){0}, f->ends.y, f->ends.x); }

static const char *name_of(const compress *c, const flight *f) {
    return c->to.program->slot[tri__transfer_whole(&f->post)].name;
}

static void pack(compress *c, const flight *f, int q, int error, int x) {
    EMIT(c, f, pack, ((tri_attr){.code = (int32_t)f->code}), q, error, x, -1, -1, -1);
}

/* Codes the parts of all members, and exchanges them. */
static void exchange(compress *c, flight *f) {
    tri_ends ends;
    c->to.unit = f->post.unit;
    ends.x = tri__build_slot(&c->to, TRI_MEM_COMM, TRI_U8, (tri_rows){.add = f->n}, f->row, "q.%s", name_of(c, f));
    ends.y = tri__build_slot(&c->to, TRI_MEM_COMM, TRI_U8, (tri_rows){.add = f->n}, f->row, "r.%s", name_of(c, f));
    pack(c, f, ends.x, f->error, f->part);
    post(c, f, TRI_OP_all_to_all_post, f->group, ends, EXCHANGE);
}

/* Codes this member's part x of f->part, and gathers those of all. */
static void gather(compress *c, flight *f, int error, int x) {
    c->to.unit = f->post.unit;
    int all = tri__build_slot(&c->to, TRI_MEM_COMM, TRI_U8, (tri_rows){.add = 1}, f->n * f->row, "s.%s", name_of(c, f));
    int own = tri__build_view(&c->to, all, f->place * f->row, 1, f->row, "s.%s.own", name_of(c, f));
    pack(c, f, own, error, x);
    post(c, f, TRI_OP_all_gather_post, f->group, (tri_ends){all, own}, GATHER);
}

static void decode(compress *c, flight *f) {
    int rows = tri__build_view(&c->to, f->ends.y, 0, f->n, f->row, "s.%s.rows", name_of(c, f));
    EMIT(c, f, unpack, ((tri_attr){.code = (int32_t)f->code}), f->part, rows);
}

/* Begins a transfer among the ranks of a layer, in place; y: a view of `slot`. */
static tri_ends post_in_layer(compress *c, const flight *f, tri_op op, int slot, tri_range part, const char *unit) {
    const char *name = c->to.program->slot[slot].name;
    int is_first = tri__mesh_coords(&c->pass->in->mesh, c->pass->in->rank).tp == 0;
    int y = tri__build_view(&c->to, slot, part.begin, 1, tri__range_count(part), "%s.layer.%s", name, unit);
    tri_ends ends = {y, op == TRI_OP_broadcast_post && is_first ? y : -1};
    tri_attr group = {.axes = TRI_AXIS_SET(TRI_AXIS_TP), .id = tri__random_id(c->to.program->slot[y].name)};
    emit(c, f, op, (const int[TRI_MAX_ARGS]){ends.y, ends.x}, group);
    return ends;
}

static void await_all(compress *c, const flight *f, const tri_ends *ends, int n) {
    for (int i = 0; i < n; i++) EMIT(c, f, wait, (tri_attr){0}, ends[i].y, ends[i].x);
}

/* Codes whose blocks have a scale: the same number is decoded otherwise beside others. */
static int has_scales(tri_code code) { return code != TRI_CODE_NONE && code != TRI_CODE_BF16; }

/* Weights that ranks of a layer hold in common: those that the first decoded. */
static void take_first(compress *c, const flight *f) {
    const tri_pass *pass = c->pass;
    int root = tri__slot_root(c->to.program, TRI_SLOT(&f->post, all_gather_post, x)), n = 0;
    tri_ends *ends = tri__arena_alloc(pass->arena, (size_t)pass->model->n_units * sizeof *ends);
    int64_t at = 0;
    for (int u = 0; u < pass->model->n_units; u++) {
        const tri_unit *unit = &pass->model->unit[u];
        if (tri__slot_root(c->to.program, pass->out.param[u]) != root) continue;
        tri_range whole = {at + unit->split, at + unit->count};
        at += unit->count;
        if (tri__range_count(whole)) ends[n++] = post_in_layer(c, f, TRI_OP_broadcast_post, f->part, whole, unit->name);
    }
    await_all(c, f, ends, n);
}

/* Ends the transfer in flight, and begins what follows it. */
static void advance(compress *c, flight *f) {
    if (f->leg == DONE) return;
    await(c, f);
    tri_ends whole = tri__transfer_ends(&f->post);
    switch (f->leg) {
    case SCATTER: exchange(c, f); break;
    case EXCHANGE:
        EMIT(c, f, unpack_sum, ((tri_attr){.code = (int32_t)f->code}), f->sum, f->ends.y, -1);
        if (f->post.op == TRI_OP_all_reduce_post) gather(c, f, f->error_sum, f->sum);
        else f->leg = DONE;
        break;
    case GATHER:
        decode(c, f);
        if (f->post.op == TRI_OP_all_gather_post && has_scales(f->code) && c->pass->in->mesh.tp > 1) take_first(c, f);
        if (f->part != whole.y)
            post(c, f, TRI_OP_all_gather_post, within_of(c), (tri_ends){whole.y, f->part}, SPREAD);
        else f->leg = DONE;
        break;
    default: f->leg = DONE;
    }
}

static int same_kind(const tri_instr *a, const tri_instr *b) {
    return a->op == b->op && a->attr.axes == b->attr.axes && a->attr.within == b->attr.within &&
           a->attr.across == b->attr.across;
}

/* Whether parts of `count` elements among `group` are worth coding: the largest has a block. */
static int has_blocks(const compress *c, int64_t count, tri_attr group) {
    int n = tri__transfer_size(&c->pass->in->mesh, &group);
    return n > 1 && tri__range_count(tri__shard(count, n, 0)) >= TRI_CODE_BLOCK;
}

static void set_group(const compress *c, flight *f, tri_code code, tri_attr group, int64_t count) {
    const tri_mesh *mesh = &c->pass->in->mesh;
    f->code = code, f->group = (tri_attr){.axes = group.axes, .within = group.within, .across = group.across};
    f->n = tri__transfer_size(mesh, &group);
    f->place = tri__transfer_place(mesh, c->pass->in->rank, &group);
    f->row = tri__coded_row(code, count, f->n);
}

static int view_of(compress *c, int slot, tri_range part, const char *label) {
    return tri__build_view(&c->to, slot, part.begin, 1, tri__range_count(part), "%s.%s",
                           c->to.program->slot[slot].name, label);
}

/* The group that exchanges a sum of gradients in the code, and the elements that a member of it has. */
static tri_attr coded_group(const compress *c, const tri_instr *sum, int64_t *count) {
    if (c->within == 1 || sum->attr.across) return sum->attr;
    *count = tri__range_count(tri__shard(*count, c->within, 0));
    return (tri_attr){.axes = sum->attr.axes, .across = c->within};
}

/* 1: an all-reduce or reduce-scatter of gradients that is to be coded. */
static int is_coded_sum(compress *c, const tri_instr *instr) {
    if (instr->op != TRI_OP_all_reduce_post && instr->op != TRI_OP_reduce_scatter_post) return 0;
    const tri_slot *whole = &c->to.program->slot[tri__transfer_whole(instr)];
    int64_t count = whole->cols;
    if (c->how->gradients == TRI_CODE_NONE || (whole->mem != TRI_MEM_GRAD && whole->mem != TRI_MEM_COMM)) return 0;
    if (instr->op == TRI_OP_reduce_scatter_post && c->within > 1) return 0;
    tri_attr group = coded_group(c, instr, &count);
    return has_blocks(c, count, group);
}

static int is_coded_gather(const compress *c, const tri_instr *instr) {
    if (instr->op != TRI_OP_all_gather_post || c->how->weights == TRI_CODE_NONE || c->within > 1) return 0;
    const tri_slot *whole = &c->to.program->slot[TRI_SLOT(instr, all_gather_post, y)];
    return whole->mem == TRI_MEM_GATHER && has_blocks(c, whole->cols, instr->attr);
}

static int is_hybrid(const compress *c) { return c->pass->sharding.kind == TRI_SHARD_HYBRID; }

/* The elements of a bucket of `count` that this replica codes, and its part of their sum. */
static tri_range error_range(const compress *c, int64_t count) {
    if (c->within == 1) return (tri_range){0, count};
    return own_of(c, count, is_hybrid(c) ? c->pass->group : within_of(c));
}

static tri_range sum_range(const compress *c, int64_t count) {
    tri_range inner = is_hybrid(c) ? own_of(c, count, c->pass->group) : error_range(c, count);
    int each = is_hybrid(c) ? c->pass->sharding.size : c->within;
    tri_range part = own_of(c, tri__range_count(inner),
                            (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP), .across = each > 1 ? each : 0});
    return (tri_range){inner.begin + part.begin, inner.begin + part.end};
}

/* The elements of a unit that are among elements `part` of its bucket. */
static tri_range held_of(const tri_pass *pass, int unit, tri_range part) {
    int64_t at = pass->unit_at[unit];
    return tri__range_both((tri_range){part.begin - at, part.end - at}, (tri_range){0, pass->model->unit[unit].count});
}

/* A slot for each bucket, of which the state has each unit's part. */
static void keep_units(compress *c, tri_state *state) {
    tri_pass *pass = c->pass;
    int n = pass->model->n_units;
    state->held = tri__arena_alloc(pass->arena, (size_t)n * sizeof *state->held);
    state->save = tri__arena_alloc(pass->arena, (size_t)n * sizeof *state->save);
    c->to.unit = -1;
    for (int b = 0; b < c->n_buckets; b++)
        c->error[b] = tri__build_slot(&c->to, TRI_MEM_STATE, TRI_F32, (tri_rows){.add = 1},
                                      tri__range_count(error_range(c, c->bucket_count[b])), "error.bucket.%d", b);
    for (int u = 0; u < n; u++) {
        int b = pass->unit_bucket[u];
        tri_range all = error_range(c, c->bucket_count[b]), held = state->held[u] = held_of(pass, u, all);
        int64_t count = tri__range_count(held), at = count ? held.begin + pass->unit_at[u] - all.begin : 0;
        state->save[u] = tri__tensor_once(pass, u, held);
        state->slot[u] = tri__build_view(&c->to, c->error[b], at, 1, count, "error.%s", pass->model->unit[u].name);
    }
}

/* Makes the state of error feedback: each replica's own, whose sum matters. */
static void keep_errors(compress *c) {
    tri_pass *pass = c->pass;
    int place = tri__mesh_coords(&pass->in->mesh, pass->in->rank).dp, each = c->within;
    if (is_hybrid(c) && each > 1) each = pass->sharding.size;
    for (int u = 0; u < pass->model->n_units; u++)
        if (pass->unit_bucket[u] >= c->n_buckets) c->n_buckets = pass->unit_bucket[u] + 1;
    c->bucket_count = tri__arena_alloc(pass->arena, (size_t)c->n_buckets * sizeof *c->bucket_count);
    c->error = tri__arena_alloc(pass->arena, (size_t)c->n_buckets * sizeof *c->error);
    for (int u = 0; u < pass->model->n_units; u++) c->bucket_count[pass->unit_bucket[u]] += pass->model->unit[u].count;
    tri_state *state = &pass->out.state[tri__add_state(pass, "error", "error.")];
    state->scope = TRI_STATE_SUMMED, state->absent = TRI_ABSENT_ZERO;
    state->copy = place / each, state->copies = pass->in->mesh.dp / each;
    keep_units(c, state);
    pass->tokens_summed = tri__arena_alloc(pass->arena, (size_t)pass->model->n_units);
}

/* The slot of what was lost of elements `part` of a bucket. */
static int lost_of(compress *c, int bucket, tri_range part, const char *label) {
    tri_range all = error_range(c, c->bucket_count[bucket]);
    if (part.begin == all.begin && part.end == all.end) return c->error[bucket];
    return view_of(c, c->error[bucket], (tri_range){part.begin - all.begin, part.end - all.begin}, label);
}

static void set_errors(compress *c, flight *f) {
    const tri_pass *pass = c->pass;
    int root = tri__slot_root(c->to.program, tri__transfer_whole(&f->post)), i = 0;
    if (!c->error) return;
    while (pass->bucket_slot[i].slot != root) i++;
    int bucket = pass->bucket_slot[i].bucket;
    int64_t count = c->bucket_count[bucket];
    tri_range sent = f->post.attr.across ? own_of(c, count, pass->group) : error_range(c, count);
    f->error = lost_of(c, bucket, sent, "own");
    if (f->post.op == TRI_OP_all_reduce_post) f->error_sum = lost_of(c, bucket, sum_range(c, count), "sum");
}

/* Error feedback: ranks of a layer keep the same errors of weights that they hold in common. So gradients that each
 * forms from its own tokens are summed over them before they are coded. */
static void sum_tokens(compress *c, const flight *f) {
    tri_pass *pass = c->pass;
    int slot = tri__transfer_whole(&f->post), i = 0, n = 0;
    if (!c->error || pass->in->mesh.tp == 1 || !pass->in->sequence_parallel) return;
    if (f->post.attr.across && c->within == 1) return; /* the sum within the run began with it */
    while (pass->bucket_slot[i].slot != slot) i++;
    int bucket = pass->bucket_slot[i].bucket;
    int64_t count = c->bucket_count[bucket];
    tri_range held = f->post.attr.across ? own_of(c, count, pass->group) : (tri_range){0, count};
    tri_ends *ends = tri__arena_alloc(pass->arena, (size_t)pass->model->n_units * sizeof *ends);
    for (int u = 0; u < pass->model->n_units; u++) {
        const tri_unit *unit = &pass->model->unit[u];
        int64_t at = pass->unit_at[u];
        if (pass->unit_bucket[u] != bucket) continue;
        pass->tokens_summed[u] = 1;
        tri_range part = tri__range_both(held, (tri_range){at + unit->tokens, at + unit->count});
        tri_range here = {part.begin - held.begin, part.end - held.begin};
        if (tri__range_count(part)) ends[n++] = post_in_layer(c, f, TRI_OP_all_reduce_post, slot, here, unit->name);
    }
    await_all(c, f, ends, n);
}

/* Begins a sum of gradients; those like it that are under way go on, while it is in flight. */
static void begin_sum(compress *c, const tri_instr *instr) {
    flight f = {.post = *instr, .error = -1, .error_sum = -1};
    tri_ends ends = tri__transfer_ends(instr);
    int sums_all = instr->op == TRI_OP_all_reduce_post, n = c->n_open;
    int64_t count = c->to.program->slot[tri__transfer_whole(instr)].cols;
    tri_attr group = coded_group(c, instr, &count);
    sum_tokens(c, &f);
    int nested = group.across && !instr->attr.across;
    f.part = sums_all ? ends.y : ends.x, f.sum = ends.y;
    if (nested) f.part = view_of(c, ends.y, own_of(c, c->to.program->slot[ends.y].cols, within_of(c)), "node");
    set_group(c, &f, c->how->gradients, group, c->to.program->slot[f.part].cols);
    if (sums_all) f.sum = view_of(c, f.part, own_of(c, c->to.program->slot[f.part].cols, group), "sum");
    set_errors(c, &f);
    c->n_gradients++;
    if (nested) post(c, &f, TRI_OP_reduce_scatter_post, within_of(c), (tri_ends){f.part, ends.y}, SCATTER);
    else exchange(c, &f);
    for (int i = 0; i < n; i++)
        if (same_kind(&c->open[i].post, instr)) advance(c, &c->open[i]);
    *TRI_PUSH(c->pass->arena, c->open, c->n_open, c->cap_open) = f;
}

static void begin_gather(compress *c, const tri_instr *instr) {
    flight f = {.post = *instr, .part = TRI_SLOT(instr, all_gather_post, y)};
    set_group(c, &f, c->how->weights, instr->attr, c->to.program->slot[f.part].cols);
    c->n_weights++;
    gather(c, &f, -1, TRI_SLOT(instr, all_gather_post, x));
    *TRI_PUSH(c->pass->arena, c->open, c->n_open, c->cap_open) = f;
}

/* The flight that a wait is for; -1: it is not coded. */
static int flight_of(const compress *c, const tri_instr *instr) {
    tri_ends ends = tri__transfer_ends(instr);
    for (int i = 0; i < c->n_open && instr->op == TRI_OP_wait; i++) {
        tri_ends of = tri__transfer_ends(&c->open[i].post);
        if (of.y == ends.y && of.x == ends.x) return i;
    }
    return -1;
}

/* Ends a transfer. All-reduces are waited for one after the other: those after it go on meanwhile. */
static void finish(compress *c, int index) {
    const tri_instr done = c->open[index].post;
    while (c->open[index].leg != DONE)
        for (int i = 0; i < c->n_open; i++)
            if (i == index || (done.op == TRI_OP_all_reduce_post && same_kind(&c->open[i].post, &done)))
                advance(c, &c->open[i]);
    memmove(c->open + index, c->open + index + 1, (size_t)(--c->n_open - index) * sizeof *c->open);
}

static void rewrite(compress *c) {
    tri_program *program = c->to.program;
    const tri_instr *instr = program->instr;
    int n = program->n_instrs;
    program->instr = NULL;
    program->n_instrs = program->cap_instrs = 0;
    for (int i = 0; i < n; i++) {
        int waited = flight_of(c, &instr[i]);
        if (is_coded_sum(c, &instr[i])) begin_sum(c, &instr[i]);
        else if (is_coded_gather(c, &instr[i])) begin_gather(c, &instr[i]);
        else if (waited >= 0) finish(c, waited);
        else *TRI_PUSH(c->pass->arena, program->instr, program->n_instrs, program->cap_instrs) = instr[i];
    }
    TRI_ASSERT(!c->n_open);
}

static tri_status check_scope(const compress *c) {
    const tri_plan_in *in = c->pass->in;
    const tri_sharding *how = &c->pass->sharding;
    if (c->how->within < 0 || in->mesh.dp % c->within)
        return tri__fail(TRI_USAGE, "--compress-scope node: machines have different numbers of replicas of a layer: "
                                    "take another mesh, or --compress-scope world");
    if (c->within == 1) return TRI_OK;
    if (c->within == in->mesh.dp)
        return tri__fail(TRI_USAGE,
                         "--compress-scope node: all %d replicas are on one machine, so nothing would be coded: take "
                         "--compress-scope world, or leave the compression out",
                         in->mesh.dp);
    if (how->kind == TRI_SHARD_HYBRID && c->within % how->size)
        return tri__fail(TRI_USAGE,
                         "--compress-scope node: runs of --shard-size %d replicas span machines, which have %d: take "
                         "a --shard-size that divides them, or --compress-scope world",
                         how->size, c->within);
    if (how->kind != TRI_SHARD_NONE && how->kind != TRI_SHARD_HYBRID)
        return tri__fail(TRI_USAGE, "--compress-scope node with sharded gradients of all replicas: take --shard hybrid "
                                    "--shard-size %d, which shards within a machine and codes what travels between "
                                    "them, or --compress-scope world",
                         c->within);
    return TRI_OK;
}

static tri_status check_asked(const compress *c) {
    const char *code = tri__code_name(c->how->weights);
    TRI_TRY(check_scope(c));
    if (c->how->weights == TRI_CODE_NONE) return TRI_OK;
    if (c->pass->sharding.kind < TRI_SHARD_ZERO3)
        return tri__fail(TRI_USAGE, "--compress-weights %s: only --shard zero3 and hybrid gather weights: take one of "
                                    "them, or leave it out",
                         code);
    if (c->within > 1)
        return tri__fail(TRI_USAGE, "--compress-weights %s with --compress-scope node: weights are gathered within a "
                                    "machine, in full: leave it out, or take --compress-scope world",
                         code);
    if (c->how->weights == TRI_CODE_BF16 && tri__weights_dtype(c->pass) == TRI_BF16)
        return tri__fail(TRI_USAGE, "--compress-weights bf16: weights of --precision bf16 are gathered in bf16 "
                                    "already: leave it out, or take int8");
    return TRI_OK;
}

/* Whether another stage of the pipeline has a transfer of enough elements: units are the least that travel. */
static int others_have_blocks(const compress *c) {
    const tri_network *model = c->pass->in->model;
    for (int u = 0; u < model->n_units && c->pass->in->mesh.pp > 1; u++)
        if (has_blocks(c, model->unit[u].count / c->pass->in->mesh.tp, c->pass->group)) return 1;
    return 0;
}

static tri_status check_coded(const compress *c) {
    int gradients = c->pass->training && c->how->gradients != TRI_CODE_NONE && !c->n_gradients;
    int weights = c->how->weights != TRI_CODE_NONE && !c->n_weights;
    if ((!gradients && !weights) || others_have_blocks(c)) return TRI_OK;
    return tri__fail(TRI_USAGE,
                     "--compress-%s %s: no transfer has the %d elements of a block for each of its replicas, so "
                     "nothing would be coded: take fewer replicas, larger transfers (--bucket-mb, --wrap size), or "
                     "leave it out",
                     gradients ? "gradients" : "weights",
                     tri__code_name(gradients ? c->how->gradients : c->how->weights), TRI_CODE_BLOCK);
}

/* Whether sums of gradients are to be coded here; copies that step alone have sums only within a copy. */
static int sums_coded(const compress *c) {
    return c->pass->training && c->how->gradients != TRI_CODE_NONE && (is_hybrid(c) || !tri__steps_alone(c->pass));
}

tri_status tri__pass_compress(tri_pass *pass) {
    tri_compression how = pass->in->compression;
    if (tri__steps_alone(pass)) how.gradients = TRI_CODE_NONE; /* `local` codes what copies exchange at meetings */
    compress c = {.pass = pass, .to = {.arena = pass->arena, .program = pass->program}, .how = &how};
    c.within = c.how->within > 1 ? c.how->within : 1;
    TRI_TRY(check_asked(&c));
    if (sums_coded(&c) && c.how->feedback) keep_errors(&c);
    rewrite(&c);
    return check_coded(&c);
}
