/* pass_compress.c - pass: gradients and gathered weights travel between replicas in fewer bits (numbers/coded.h).
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
 * Error feedback: what coding loses of this member's gradients is kept, once `update` knows that the step is applied,
 * and added to the next step's. What the second coding loses of its part of the sum is kept in that part's place, from
 * where the first coding's loss has just been added. So the sum over all replicas is all that is missing, whatever the
 * shard. */
#include "plan/coded_transfer.h"
#include "plan/least.h"
#include "plan/optimizer.h"

typedef struct flight {
    tri_instr post;        /* of the transfer that is replaced */
    tri_coded_transfer transfer;
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
    int *error_new;        /* [n_buckets] the same with this step's losses; -1: nothing of the bucket is coded yet */
} compress;

static tri_attr within_of(const compress *c) {
    return (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP), .within = c->within};
}

/* Begins a transfer among the ranks of a layer, in place; y: a view of `slot`. */
static tri_ends post_in_layer(compress *c, tri_op op, int slot, tri_range part, const char *unit) {
    const char *name = c->to.program->slot[slot].name;
    int is_first = tri__mesh_coords(&c->pass->in->mesh, c->pass->in->rank).tp == 0;
    int y = tri__build_view(&c->to, slot, part.begin, 1, tri__range_count(part), "%s.layer.%s", name, unit);
    tri_ends ends = {y, op == TRI_OP_broadcast_post && is_first ? y : -1};
    tri__build_post(&c->to, op, (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_TP)}, ends);
    return ends;
}

/* Codes whose blocks have a scale: what a number decodes to depends on the others of its block. */
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
        if (tri__range_count(whole))
            ends[n++] = post_in_layer(c, TRI_OP_broadcast_post, f->transfer.part, whole, unit->name);
    }
    for (int i = 0; i < n; i++) tri__build_wait(&c->to, ends[i]);
}

/* Ends the leg in flight, and begins what follows it. */
static void advance(compress *c, flight *f) {
    tri_coded_transfer *t = &f->transfer;
    if (t->leg == TRI_LEG_DONE) return;
    tri__build_as(&c->to, &f->post);
    tri__coded_end(&c->to, t);
    if (f->post.op == TRI_OP_all_gather_post && has_scales(t->code) && c->pass->in->mesh.tp > 1) take_first(c, f);
    tri__coded_next(&c->to, t);
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

/* This member's shard of a slot among a group. */
static int own_of(compress *c, int slot, tri_attr group, const char *label) {
    const tri_slot *whole = &c->to.program->slot[slot];
    tri_range own = tri__group_shard(c->pass, whole->cols, group);
    return tri__build_view(&c->to, slot, own.begin, 1, tri__range_count(own), "%s.%s", whole->name, label);
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
    return tri__group_shard(c->pass, count, is_hybrid(c) ? c->pass->group : within_of(c));
}

static tri_range sum_range(const compress *c, int64_t count) {
    tri_range inner = is_hybrid(c) ? tri__group_shard(c->pass, count, c->pass->group) : error_range(c, count);
    int each = is_hybrid(c) ? c->pass->sharding.size : c->within;
    tri_range part = tri__group_shard(c->pass, tri__range_count(inner),
                            (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP), .across = each > 1 ? each : 0});
    return (tri_range){inner.begin + part.begin, inner.begin + part.end};
}

/* The elements of a unit that are among elements `part` of its bucket. */
static tri_range held_of(const tri_pass *pass, int unit, tri_range part) {
    int64_t at = pass->unit_at[unit];
    return tri__range_both((tri_range){part.begin - at, part.end - at}, (tri_range){0, pass->model->unit[unit].count});
}

/* Makes the state of error feedback: each replica's own, whose sum matters. A slot for each bucket, of which the state
 * has each unit's part. */
static void keep_errors(compress *c) {
    tri_pass *pass = c->pass;
    int n = pass->model->n_units, place = tri__mesh_coords(&pass->in->mesh, pass->in->rank).dp, each = c->within;
    if (is_hybrid(c) && each > 1) each = pass->sharding.size;
    for (int u = 0; u < n; u++)
        if (pass->unit_bucket[u] >= c->n_buckets) c->n_buckets = pass->unit_bucket[u] + 1;
    c->bucket_count = tri__arena_alloc(pass->arena, (size_t)c->n_buckets * sizeof *c->bucket_count);
    for (int u = 0; u < n; u++)
        if (pass->unit_bucket[u] >= 0) c->bucket_count[pass->unit_bucket[u]] += pass->model->unit[u].count;
    c->error = tri__none_yet(pass->arena, c->n_buckets);
    c->error_new = tri__none_yet(pass->arena, c->n_buckets);
    c->to.unit = -1;
    for (int b = 0; b < c->n_buckets; b++)
        if (c->bucket_count[b])
            c->error[b] = TRI_BUILD_FLAT(&c->to, TRI_MEM_STATE, TRI_F32,
                                         tri__range_count(error_range(c, c->bucket_count[b])), "error.bucket.%d", b);
    pass->error_new = tri__none_yet(pass->arena, n);
    pass->tokens_summed = tri__arena_alloc(pass->arena, (size_t)n);
    pass->error = tri__add_state(pass, "error", "gradient_error.");
    tri_state *state = &pass->out.state[pass->error];
    tri_range *held = tri__arena_alloc(pass->arena, (size_t)n * sizeof *held);
    for (int u = 0; u < n; u++) {
        int b = pass->unit_bucket[u];
        if (b < 0) continue;
        tri_range all = error_range(c, c->bucket_count[b]);
        held[u] = held_of(pass, u, all);
        int64_t count = tri__range_count(held[u]), at = count ? held[u].begin + pass->unit_at[u] - all.begin : 0;
        state->slot[u] = tri__build_view(&c->to, c->error[b], at, 1, count, "error.%s", pass->model->unit[u].name);
    }
    tri__state_of_copies(pass, pass->error, TRI_STATE_SUMMED, place / each, pass->in->mesh.dp / each, held);
    state->absent = TRI_ABSENT_ZERO;
}

/* Before the first coding of a bucket: the errors of this step begin as those of the steps before. Whether it is
 * applied is known only when all sums are done, so these stay until then. */
static void open_errors(compress *c, int bucket) {
    tri_pass *pass = c->pass;
    tri_program *program = c->to.program;
    const tri_slot kept = program->slot[c->error[bucket]];
    int new = c->error_new[bucket];
    if (new >= 0) return;
    c->error_new[bucket] = new = tri__build_slot(&c->to, TRI_MEM_ACT, TRI_F32, kept.rows, kept.cols, "%s.new",
                                                 kept.name);
    TRI_BUILD(&c->to, cast, (tri_attr){0}, new, c->error[bucket]);
    for (int u = 0; u < pass->model->n_units; u++) {
        if (pass->unit_bucket[u] != bucket) continue;
        const tri_slot of = program->slot[pass->out.state[pass->error].slot[u]];
        if (of.cols)
            pass->error_new[u] = tri__build_view(&c->to, new, of.parent_at, 1, of.cols, "%s.new", of.name);
    }
}

/* The slot of what is lost of elements `part` of a bucket. */
static int lost_of(compress *c, int bucket, tri_range part, const char *label) {
    tri_range all = error_range(c, c->bucket_count[bucket]);
    return tri__build_part(&c->to, c->error_new[bucket], all, part, label);
}

static void set_errors(compress *c, flight *f) {
    const tri_pass *pass = c->pass;
    int root = tri__slot_root(c->to.program, tri__transfer_whole(&f->post)), i = 0;
    if (!c->error) return;
    while (pass->bucket_slot[i].slot != root) i++;
    int bucket = pass->bucket_slot[i].bucket;
    int64_t count = c->bucket_count[bucket];
    tri_range sent = f->post.attr.across ? tri__group_shard(c->pass, count, pass->group) : error_range(c, count);
    open_errors(c, bucket);
    f->transfer.error = lost_of(c, bucket, sent, "own");
    if (f->transfer.gathers) f->transfer.error_sum = lost_of(c, bucket, sum_range(c, count), "sum");
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
    tri_range held = f->post.attr.across ? tri__group_shard(c->pass, count, pass->group) : (tri_range){0, count};
    tri_ends *ends = tri__arena_alloc(pass->arena, (size_t)pass->model->n_units * sizeof *ends);
    for (int u = 0; u < pass->model->n_units; u++) {
        const tri_unit *unit = &pass->model->unit[u];
        int64_t at = pass->unit_at[u];
        if (pass->unit_bucket[u] != bucket) continue;
        pass->tokens_summed[u] = 1;
        tri_range part = tri__range_both(held, (tri_range){at + unit->tokens, at + unit->count});
        tri_range here = {part.begin - held.begin, part.end - held.begin};
        if (tri__range_count(part)) ends[n++] = post_in_layer(c, TRI_OP_all_reduce_post, slot, here, unit->name);
    }
    for (int i = 0; i < n; i++) tri__build_wait(&c->to, ends[i]);
}

/* Begins a sum of gradients; those like it that are under way go on, while it is in flight. */
static void begin_sum(compress *c, const tri_instr *instr) {
    flight f = {.post = *instr};
    tri_ends ends = tri__transfer_ends(instr);
    int whole = tri__transfer_whole(instr), sums_all = instr->op == TRI_OP_all_reduce_post, n = c->n_open;
    int64_t count = c->to.program->slot[whole].cols;
    tri_attr group = coded_group(c, instr, &count);
    tri__build_as(&c->to, instr);
    sum_tokens(c, &f);
    int nested = group.across && !instr->attr.across, part = whole;
    if (nested) part = own_of(c, whole, within_of(c), "node");
    f.transfer = tri__coded_open(&c->to, c->how->gradients, group, part);
    f.transfer.gathers = sums_all, f.transfer.whole = whole;
    f.transfer.own = sums_all ? own_of(c, part, group, "sum") : ends.y;
    if (nested) f.transfer.within = within_of(c);
    set_errors(c, &f);
    c->n_gradients++;
    tri__coded_begin(&c->to, &f.transfer, 1);
    for (int i = 0; i < n; i++)
        if (same_kind(&c->open[i].post, instr)) advance(c, &c->open[i]);
    *TRI_PUSH(c->pass->arena, c->open, c->n_open, c->cap_open) = f;
}

static void begin_gather(compress *c, const tri_instr *instr) {
    int whole = TRI_SLOT(instr, all_gather_post, y);
    flight f = {.post = *instr, .transfer = tri__coded_open(&c->to, c->how->weights, instr->attr, whole)};
    f.transfer.whole = whole, f.transfer.own = TRI_SLOT(instr, all_gather_post, x);
    c->n_weights++;
    tri__build_as(&c->to, instr);
    tri__coded_begin(&c->to, &f.transfer, 0);
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
    while (c->open[index].transfer.leg != TRI_LEG_DONE)
        for (int i = 0; i < c->n_open; i++)
            if (i == index || (done.op == TRI_OP_all_reduce_post && same_kind(&c->open[i].post, &done)))
                advance(c, &c->open[i]);
    memmove(c->open + index, c->open + index + 1, (size_t)(--c->n_open - index) * sizeof *c->open);
}

static void rewrite(compress *c) {
    int n;
    const tri_instr *instr = tri__take_instrs(c->to.program, &n);
    for (int i = 0; i < n; i++) {
        int waited = flight_of(c, &instr[i]);
        if (is_coded_sum(c, &instr[i])) begin_sum(c, &instr[i]);
        else if (is_coded_gather(c, &instr[i])) begin_gather(c, &instr[i]);
        else if (waited >= 0) finish(c, waited);
        else tri__build_copy(&c->to, &instr[i]);
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
        if ((!model->unit[u].frozen || c->how->weights != TRI_CODE_NONE) &&
            has_blocks(c, model->unit[u].count / c->pass->in->mesh.tp, c->pass->group))
            return 1;
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

/* Whether sums of gradients are to be coded here; copies that take local steps have sums only within a copy. */
static int sums_coded(const compress *c) {
    return c->pass->training && c->how->gradients != TRI_CODE_NONE &&
           (is_hybrid(c) || !tri__takes_local_steps(c->pass));
}

tri_status tri__pass_compress(tri_pass *pass) {
    tri_compression how = pass->in->compression;
    if (tri__takes_local_steps(pass)) how.gradients = TRI_CODE_NONE; /* `local` codes what copies exchange */
    compress c = {.pass = pass, .to = {.arena = pass->arena, .program = pass->program}, .how = &how};
    c.within = c.how->within > 1 ? c.how->within : 1;
    TRI_TRY(check_asked(&c));
    if (sums_coded(&c) && c.how->feedback) keep_errors(&c);
    rewrite(&c);
    return check_coded(&c);
}

static double coded_each(tri_code code) { return (double)tri__code_payload(code) / TRI_CODE_BLOCK; }

/* Scales, what stays in full and what replicas of a machine exchange are left out. */
void tri__least_compress(const tri_plan_in *in, tri_least *least) {
    const tri_compression *how = &in->compression;
    for (int i = 0, n = least->n; i < n; i++) {
        tri_least_move *m = &least->move[i];
        if (m->kind == TRI_ALL_GATHER) {
            if (how->weights != TRI_CODE_NONE) m->each = coded_each(how->weights);
            continue;
        }
        if (how->gradients == TRI_CODE_NONE || m->group.within) continue; /* hybrid: in full within a run */
        int gathers = m->kind == TRI_ALL_REDUCE;
        m->kind = TRI_ALL_TO_ALL, m->each = how->within > 1 ? 0 : coded_each(how->gradients);
        tri_least_move back = *m;
        back.kind = TRI_ALL_GATHER;
        if (gathers) tri__least_add(least, back);
    }
}
