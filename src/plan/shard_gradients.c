/* shard_gradients.c - sums gradients over the replicas.
 *
 * Unsharded (none, zero1): each microbatch adds to the gradients, and after the last write of the last microbatch a
 * bucket (none) is all-reduced or a block (zero1) reduce-scattered, in place: communication once a step. Buckets are
 * units in the order in which the backward pass completes them, contiguous in memory, so that one transfer covers them
 * without copies.
 *
 * Sharded (zero2 and up): a microbatch's gradients of a block are written to a separate slot, reduce-scattered after
 * the last write, and added to the shard. This ends before the next block's are written, so at most one block of full
 * gradients exists at a time. Where gradients travel in a code (pass_compress.c), coding frees them at once: a
 * reduce-scatter then ends where the next one is posted, so that it has the time of a block's backward pass.
 *
 * 1-bit optimizers need each copy's own gradients in the steps in which these are not summed: zero2 and zero3 then keep
 * whole gradients as zero1 does, and only full steps sum them. Copies that take local steps (pass_local.c) sum within a
 * copy only. */
#include "plan/optimizer.h"
#include "plan/shard.h"
#include "plan/step_kinds.h"

enum { FIRST_BUCKET = 1 << 20 }; /* bytes: small, so that the first sum begins early */

/* Gradients of several units that one transfer sums. */
typedef struct bucket {
    int slot;
    int last;              /* the last instruction that writes to it */
    tri_ends ends;
    tri_sharers of;        /* the ranks that sum it */
    int unit;              /* of the program; -1 several */
} bucket;

/* A transfer that is waited for after the last microbatch. */
typedef struct flight {
    tri_ends ends;
    int unit;
    uint32_t gates;
} flight;

/* A reduce-scatter of a microbatch's gradients of a block. */
typedef struct scatter {
    int block, mb; /* block -1: none */
    tri_ends ends;
} scatter;

struct tri_reductions {
    bucket *bucket;        /* none and zero1 */
    int n_buckets, cap_buckets;
    int loss_at;           /* the last instruction that adds to the loss; -1: this rank has none */
    flight *flight;
    int n_flights, cap_flights;
    int *shard;            /* [n_blocks] slots of this rank's shard of the sums; NULL: not sharded */
    /* zero2 and up */
    int *last; /* [n_blocks * n_mb] the last instruction that writes a block's gradients of a microbatch; -1 */
    int *begun;            /* [n_blocks] 1 + the microbatch whose gradients of the block are being written */
    int *written;          /* [slots of from] 1 + the microbatch that wrote the gradient last */
    scatter open;          /* the reduce-scatter in flight */
};

/* Whether reduce-scatters travel in a code; not within a machine, where only exchanges between machines do. */
static int codes_scatters(const tri_sharder *s) {
    const tri_compression *how = &s->pass->in->compression;
    return how->gradients != TRI_CODE_NONE && how->within <= 1 && !tri__takes_local_steps(s->pass);
}

static int shares_grads(const tri_sharder *s) {
    return s->pass->sharding.kind >= (s->pass->local_grad ? TRI_SHARD_HYBRID : TRI_SHARD_ZERO2);
}

/* The same for one unit: gradients that no other rank adds to stay whole. */
static int shares_unit(const tri_sharder *s, int unit) {
    return shares_grads(s) && s->block[s->block_of[unit]].of.n > 1;
}

/* The unit whose gradients an instruction writes; -1 none. */
static int unit_written(const tri_sharder *s, const tri_instr *instr) {
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (tri__writes(instr, k) && s->grads.unit[instr->slot[k]] >= 0) return s->grads.unit[instr->slot[k]];
    return -1;
}

/* Remembers that a slot holds gradients that travel together, or this rank's shard of them. */
static void note_slot(tri_sharder *s, int slot, int bucket) {
    tri_pass *pass = s->pass;
    *TRI_PUSH(s->to.arena, pass->bucket_slot, pass->n_bucket_slots, pass->cap_bucket_slots) = (tri_bucket_slot){slot,
                                                                                                               bucket};
}

static void fly(tri_sharder *s, tri_op op, tri_attr group, tri_ends ends, int unit, int mb, uint32_t gates) {
    s->to.gates = gates;
    tri__sharder_post(s, op, group, ends, unit, mb);
    s->to.gates = 0;
    *TRI_PUSH(s->to.arena, s->reductions->flight, s->reductions->n_flights,
              s->reductions->cap_flights) = (flight){ends, unit, gates};
}

/* Steps in which gradients are summed over copies of the model; 0: all. */
static uint32_t sum_gates(const tri_sharder *s) { return tri__sum_gates(&s->pass->in->optimizer); }

/* Buckets of `none`: units by the end of their gradients, joined up to the bucket size. A layer that steps leave out is
 * a bucket of its own. */

typedef struct ending {
    int unit, last;
} ending;

static int earlier_first(const void *a, const void *b) { return ((const ending *)a)->last - ((const ending *)b)->last; }

static void close_bucket(tri_sharder *s, const ending *units, int n) {
    struct tri_reductions *r = s->reductions;
    const tri_network *model = s->pass->model;
    int64_t count = 0;
    for (int i = 0; i < n; i++) count += model->unit[units[i].unit].count;
    bucket made = {.last = units[n - 1].last, .of = tri__unit_sharers(s->pass, units[0].unit),
                   .unit = n == 1 ? s->from->slot[s->weights.slot[units[0].unit]].unit : -1};
    s->to.unit = made.unit;
    const char *name = n == 1 ? tri__arena_print(s->to.arena, "g.%s", model->unit[units[0].unit].name)
                              : tri__arena_print(s->to.arena, "g.bucket.%d", r->n_buckets);
    made.slot = TRI_BUILD_FLAT(&s->to, TRI_MEM_GRAD, TRI_F32, count, "%s", name);
    made.ends = (tri_ends){.y = made.slot, .x = -1};
    for (int64_t i = 0, at = 0; i < n; at += model->unit[units[i++].unit].count) {
        const tri_unit *unit = &model->unit[units[i].unit];
        int part = n == 1 ? made.slot : tri__build_view(&s->to, made.slot, at, 1, unit->count, "g.%s", unit->name);
        tri__sharder_stand(s, &s->grads, units[i].unit, part);
        s->pass->unit_bucket[units[i].unit] = r->n_buckets, s->pass->unit_at[units[i].unit] = at;
    }
    note_slot(s, made.slot, r->n_buckets);
    *TRI_PUSH(s->to.arena, r->bucket, r->n_buckets, r->cap_buckets) = made;
}

static void make_buckets(tri_sharder *s, const int *last) {
    const tri_network *model = s->pass->model;
    double mb = s->pass->sharding.bucket_mb > 0 ? s->pass->sharding.bucket_mb : 25, full = mb * (1 << 20);
    double element = (double)tri__dtype_bytes(s->pass->in->reduce_dtype);
    ending *order = tri__arena_alloc(s->to.arena, (size_t)model->n_units * sizeof *order);
    int n = 0;
    for (int u = 0; u < model->n_units; u++)
        if (!model->unit[u].frozen) order[n++] = (ending){u, last[u]};
    qsort(order, (size_t)n, sizeof *order, earlier_first);
    for (int begin = 0; begin < n;) {
        double limit = begin == 0 && full > FIRST_BUCKET ? FIRST_BUCKET : full, bytes = 0;
        int end = begin;
        while (end < n) {
            bytes += (double)model->unit[order[end].unit].count * element;
            if (end > begin && (bytes > limit || tri__sharder_closes(s, order[end].unit) ||
                                tri__sharder_closes(s, order[begin].unit) ||
                                !tri__same_sharers(s->pass, order[begin].unit, order[end].unit)))
                break;
            end++;
        }
        close_bucket(s, order + begin, end - begin);
        begin = end;
    }
}

static int is_frozen(const tri_sharder *s, const tri_shard_block *block) {
    return s->pass->model->unit[block->first].frozen;
}

/* zero1: a bucket is a block, and its sum is reduce-scattered into this rank's shard. */
static void make_scatters(tri_sharder *s, const int *last) {
    struct tri_reductions *r = s->reductions;
    r->shard = tri__none_yet(s->to.arena, s->n_blocks);
    for (int b = 0; b < s->n_blocks; b++) {
        const tri_shard_block *block = &s->block[b];
        if (is_frozen(s, block)) continue;
        bucket made = {.unit = tri__sharder_unit(s, block), .of = block->of};
        made.slot = TRI_SHARD_SLOT(s, block, TRI_MEM_GRAD, block->count, "g.%s", block->name);
        r->shard[b] = tri__build_view(&s->to, made.slot, block->own.begin, 1, tri__range_count(block->own), "g.%s.own",
                                      block->name);
        made.ends = (tri_ends){.y = r->shard[b], .x = made.slot};
        for (int u = block->first; u < block->first + block->n; u++)
            if (last[u] > made.last) made.last = last[u];
        tri__sharder_stand_block(s, &s->grads, block, made.slot);
        note_slot(s, made.slot, b);
        *TRI_PUSH(s->to.arena, r->bucket, r->n_buckets, r->cap_buckets) = made;
    }
}

/* zero2 and up: where each microbatch's gradients of a block end. */
static void make_shards(tri_sharder *s) {
    struct tri_reductions *r = s->reductions;
    int n_mb = s->from->n_mb;
    r->last = tri__arena_alloc(s->to.arena, (size_t)s->n_blocks * (size_t)n_mb * sizeof *r->last);
    r->begun = tri__arena_alloc(s->to.arena, (size_t)s->n_blocks * sizeof *r->begun);
    r->shard = tri__none_yet(s->to.arena, s->n_blocks);
    r->written = tri__arena_alloc(s->to.arena, (size_t)s->from->n_slots * sizeof *r->written);
    for (int i = 0; i < s->from->n_instrs; i++) {
        int unit = unit_written(s, &s->from->instr[i]);
        if (unit >= 0) r->last[s->block_of[unit] * n_mb + s->from->instr[i].mb] = i;
    }
    for (int b = 0; b < s->n_blocks; b++) {
        const tri_shard_block *block = &s->block[b];
        if (is_frozen(s, block)) continue;
        r->shard[b] = TRI_SHARD_SLOT(s, block, TRI_MEM_GRAD, tri__range_count(block->own), "g.%s", block->name);
        note_slot(s, r->shard[b], b);
        if (block->of.n == 1) tri__sharder_stand_block(s, &s->grads, block, r->shard[b]);
    }
}

void tri__reductions_plan(tri_sharder *s) {
    struct tri_reductions *r = s->reductions = tri__arena_alloc(s->to.arena, sizeof *r);
    size_t n_units = (size_t)s->pass->model->n_units;
    s->pass->unit_bucket = tri__arena_alloc(s->to.arena, n_units * sizeof *s->pass->unit_bucket);
    s->pass->unit_at = tri__arena_alloc(s->to.arena, n_units * sizeof *s->pass->unit_at);
    for (size_t u = 0; u < n_units; u++)
        s->pass->unit_bucket[u] = s->pass->model->unit[u].frozen ? -1 : s->block_of[u],
        s->pass->unit_at[u] = s->unit_at[u];
    int *last = tri__arena_alloc(s->to.arena, n_units * sizeof *last); /* write of each unit's gradients */
    r->open.block = r->loss_at = -1;
    for (int i = 0; i < s->from->n_instrs; i++) {
        int unit = unit_written(s, &s->from->instr[i]);
        if (unit >= 0) last[unit] = i;
        if (s->pass->out.loss >= 0 && s->from->instr[i].slot[0] == s->pass->out.loss) r->loss_at = i;
    }
    if (shares_grads(s)) make_shards(s);
    else if (s->pass->sharding.kind != TRI_SHARD_NONE) make_scatters(s, last);
    else make_buckets(s, last);
}

/* Waits for a reduce-scatter; its result becomes the shard or is added to it. */
static void finish_scatter(tri_sharder *s, scatter done) {
    if (done.block < 0) return;
    const tri_shard_block *block = &s->block[done.block];
    int unit = tri__sharder_unit(s, block), shard = s->reductions->shard[done.block];
    tri__sharder_wait(s, done.ends, unit, done.mb);
    if (done.ends.y != shard) TRI_BUILD(&s->to, accumulate, (tri_attr){0}, shard, done.ends.y)->acc = 1;
    const tri_sharding *how = &s->pass->sharding;
    if (how->kind != TRI_SHARD_HYBRID || done.mb != s->from->n_mb - 1 || tri__takes_local_steps(s->pass)) return;
    fly(s, TRI_OP_all_reduce_post, (tri_attr){.axes = s->pass->group.axes, .across = how->size},
        (tri_ends){.y = shard, .x = -1}, unit, done.mb, sum_gates(s));
}

static void finish_open(tri_sharder *s) {
    finish_scatter(s, s->reductions->open);
    s->reductions->open.block = -1;
}

void tri__reductions_before(tri_sharder *s, int at) {
    struct tri_reductions *r = s->reductions;
    int unit = unit_written(s, &s->from->instr[at]), mb = s->from->instr[at].mb;
    if (unit < 0 || !shares_unit(s, unit) || r->begun[s->block_of[unit]] == mb + 1) return;
    int b = s->block_of[unit];
    const tri_shard_block *block = &s->block[b];
    if (!codes_scatters(s)) finish_open(s);
    r->begun[b] = mb + 1;
    int slot = TRI_SHARD_SLOT(s, block, TRI_MEM_COMM, block->count, "g.%s#%d", block->name, mb);
    note_slot(s, slot, b);
    tri__sharder_stand_block(s, &s->grads, block, slot);
}

unsigned tri__reductions_acc(tri_sharder *s, const tri_instr *instr) {
    const tri_op_row *row = tri__instr_row(instr);
    unsigned acc = instr->acc;
    for (int k = 0; k < row->n_args && shares_grads(s); k++) {
        if (instr->slot[k] < 0 || row->arg[k].access != TRI_ACCESS_A || s->grads.unit[instr->slot[k]] < 0) continue;
        if (!shares_unit(s, s->grads.unit[instr->slot[k]])) continue;
        int *written = &s->reductions->written[instr->slot[k]];
        /* the first of each microbatch overwrites */
        acc = *written == instr->mb + 1 ? acc | 1u << k : acc & ~(1u << k);
        *written = instr->mb + 1;
    }
    return acc;
}

static void post_scatter(tri_sharder *s, int b, int mb) {
    struct tri_reductions *r = s->reductions;
    const tri_shard_block *block = &s->block[b];
    int to = r->shard[b], whole = s->map[s->grads.slot[block->first]];
    if (!codes_scatters(s))
        /* with two lanes, blocks of several units alternate: this one began before that scatter was posted */
        finish_open(s);
    if (mb > 0)
        to = TRI_SHARD_SLOT(s, block, TRI_MEM_COMM, tri__range_count(block->own), "g.%s#%d.own", block->name, mb);
    scatter before = r->open;
    r->open = (scatter){b, mb, {.y = to, .x = tri__slot_root(s->to.program, whole)}};
    tri__sharder_post(s, TRI_OP_reduce_scatter_post, block->of.group, r->open.ends, tri__sharder_unit(s, block), mb);
    finish_scatter(s, before);
}

void tri__reductions_after(tri_sharder *s, int at) {
    struct tri_reductions *r = s->reductions;
    int mb = s->from->instr[at].mb, unit = unit_written(s, &s->from->instr[at]);
    const tri_attr replicas = {.axes = s->pass->group.axes};
    if (at == r->loss_at)
        fly(s, TRI_OP_all_reduce_post, replicas, (tri_ends){.y = s->map[s->pass->out.loss], .x = -1}, -1, mb, 0);
    for (int i = 0; i < r->n_buckets; i++) {
        const bucket *b = &r->bucket[i];
        if (b->last == at && b->of.n > 1 && !tri__takes_local_steps(s->pass))
            fly(s, b->ends.x < 0 ? TRI_OP_all_reduce_post : TRI_OP_reduce_scatter_post, b->of.group, b->ends, b->unit,
                mb, sum_gates(s));
    }
    if (unit >= 0 && shares_unit(s, unit) && r->last[s->block_of[unit] * s->from->n_mb + mb] == at)
        post_scatter(s, s->block_of[unit], mb);
}

void tri__reductions_end(tri_sharder *s) {
    struct tri_reductions *r = s->reductions;
    finish_open(s);
    for (int i = 0; i < r->n_flights; i++) {
        s->to.gates = r->flight[i].gates;
        tri__sharder_wait(s, r->flight[i].ends, r->flight[i].unit, s->from->n_mb - 1);
    }
    s->to.gates = 0;
    int n_units = s->pass->model->n_units;
    if (s->pass->local_grad) s->pass->local_grad = tri__none_yet(s->to.arena, n_units);
    for (int u = 0; u < n_units; u++) {
        if (s->grads.slot[u] < 0) continue;
        int b = s->block_of[u], whole = s->map[s->grads.slot[u]];
        s->pass->unit_grad[u] = r->shard ? tri__sharder_share(s, &s->block[b], u, r->shard[b]) : whole;
        if (s->pass->local_grad) s->pass->local_grad[u] = shares_grads(s) ? s->pass->unit_grad[u] : whole;
    }
}
