/* fp8_gathers.c - sharded weights that products read in 8 bits are gathered so: half the bytes.
 *
 * The owner of a shard casts it once a step, before the block's first gather, with the scales that every rank has; what
 * `most` has of the other shards comes with the sums of the update. Where a block's shards end has nothing to do with
 * where its weights do, so that all of a block's elements travel as bytes; those that are read in 16 bits (biases,
 * gains of norms: one in 700 of a layer of 768 columns) come beside them, by a broadcast from each owner.
 *
 *   all_gather  w <- p                    fp8_cast_weights  q.p <- p, once a step
 *                                         all_gather        w <- q.p
 *                                         broadcast         w.rest <- p
 *   linear      y <- x w.qkv.w w.qkv.b    linear_scaled     y <- q(x) w.qkv.w w.rest.qkv.b
 *
 * A block stays in 16 bits where more than half of it is read so, or a weight would not begin at a multiple of 16 bytes
 * (blocks of several units). */
#include "plan/fp8.h"

enum { ALIGN = 16 }; /* bytes: products read factors by vectors */

/* A weight in a block, or what lies between weights. */
typedef struct stretch {
    tri_range at; /* elements of the block */
    int row;      /* of history; -1: read in 16 bits */
} stretch;

typedef struct block {
    int shard, bytes;      /* slots: this rank's shard; the same in 8 bits */
    tri_attr group;
    int64_t count;
    int n_ranks, place;
    stretch *of;           /* [n] by place; once taken, they cover the block */
    int n, cap;
    int is_taken, is_cast;
} block;

/* What a member of the group has of a stretch in 16 bits. */
typedef struct piece {
    int y, x; /* slots; x -1: another member has it */
    int root;
} piece;

typedef struct gather {
    int block;
    int whole, rest; /* slots: the result; what is read of it in 16 bits */
    piece *piece;
    int n, cap;
} gather;

typedef struct tri_fp8_gathers {
    block *block;
    gather *gather;
    int n_blocks, cap_blocks, n, cap;
    int *of; /* [n_slots] the gather whose result a slot is, or is in; -1 */
} gathers;

static tri_range range_of(const tri_fp8 *z, int slot) {
    const tri_slot *s = &z->to.program->slot[slot];
    int64_t begin = tri__slot_begin(z->to.program, slot);
    return (tri_range){begin, begin + s->rows.add * s->cols};
}

static int is_weight(const tri_fp8 *z, int slot) {
    return z->use[slot].row >= 0 && z->use[slot].row % TRI_FP8_KINDS == TRI_FP8_WEIGHT;
}

/* ---- Which gathers ---- */

static int block_of(tri_fp8 *z, const tri_instr *post) {
    gathers *g = z->gathers;
    const tri_mesh *mesh = &z->pass->in->mesh;
    int shard = TRI_SLOT(post, all_gather_post, x), b = 0;
    while (b < g->n_blocks && g->block[b].shard != shard) b++;
    if (b < g->n_blocks) return b;
    const tri_attr group = {.axes = post->attr.axes, .within = post->attr.within, .across = post->attr.across};
    *TRI_PUSH(z->pass->arena, g->block, g->n_blocks, g->cap_blocks) =
        (block){.shard = shard, .group = group, .bytes = -1, .is_taken = 1,
                .count = z->to.program->slot[TRI_SLOT(post, all_gather_post, y)].cols,
                .n_ranks = tri__transfer_size(mesh, &group),
                .place = tri__transfer_place(mesh, z->pass->in->rank, &group)};
    return b;
}

/* Coded gathers have another type, and those after an update are of slots that are kept. */
static void find_gathers(tri_fp8 *z) {
    gathers *g = z->gathers;
    const tri_program *program = z->to.program;
    for (int s = 0; s < z->n_slots; s++) g->of[s] = -1;
    for (int i = 0; i < z->n_from; i++) {
        const tri_instr *post = &z->from[i];
        if (post->op != TRI_OP_all_gather_post) continue;
        int whole = TRI_SLOT(post, all_gather_post, y), shard = TRI_SLOT(post, all_gather_post, x);
        if (program->slot[whole].mem != TRI_MEM_GATHER || program->slot[whole].dtype != z->pass->in->precision ||
            program->slot[shard].mem != TRI_MEM_PARAM)
            continue;
        g->of[whole] = g->n;
        *TRI_PUSH(z->pass->arena, g->gather, g->n, g->cap) = (gather){.block = block_of(z, post), .whole = whole};
    }
    for (int s = 0; s < z->n_slots; s++) g->of[s] = g->of[tri__slot_root(program, s)];
}

static void note_weight(tri_fp8 *z, int slot) {
    block *b = &z->gathers->block[z->gathers->gather[z->gathers->of[slot]].block];
    tri_range at = range_of(z, slot);
    for (int k = 0; k < b->n; k++)
        if (b->of[k].at.begin == at.begin) return; /* in an earlier gather */
    *TRI_PUSH(z->pass->arena, b->of, b->n, b->cap) = (stretch){at, z->use[slot].row};
}

static int by_place(const void *a, const void *b) {
    const stretch *x = a, *y = b;
    return x->at.begin < y->at.begin ? -1 : x->at.begin > y->at.begin;
}

/* Adds the stretches between weights. */
static void cover(tri_fp8 *z, block *b) {
    int64_t at = 0, rest = b->count;
    int n = b->n;
    if (n) qsort(b->of, (size_t)n, sizeof *b->of, by_place);
    for (int k = 0; k <= n; k++) {
        tri_range next = k < n ? b->of[k].at : (tri_range){b->count, b->count};
        if (next.begin < at || next.begin % (k < n ? ALIGN : 1)) b->is_taken = 0;
        if (next.begin > at)
            *TRI_PUSH(z->pass->arena, b->of, b->n, b->cap) = (stretch){{at, next.begin}, -1};
        at = next.end, rest -= tri__range_count(next);
    }
    if (!n || 2 * rest >= b->count) b->is_taken = 0;
    if (b->n) qsort(b->of, (size_t)b->n, sizeof *b->of, by_place);
}

/* A block in which something else reads a weight keeps its 16 bits, or in which steps differ in what reads it. */
static void check_reads(tri_fp8 *z, int slot) {
    const tri_fp8_use *u = &z->use[slot];
    block *b = &z->gathers->block[z->gathers->gather[z->gathers->of[slot]].block];
    if (is_weight(z, slot) && u->differs) b->is_taken = 0;
    for (int k = 0; k < b->n && u->others; k++)
        if (b->of[k].row >= 0 && tri__range_count(tri__range_both(b->of[k].at, range_of(z, slot)))) b->is_taken = 0;
}

/* ---- What replaces their results ---- */

/* Where an element of a block that is read in 16 bits lies among those. */
static int64_t rest_before(const block *b, int64_t at) {
    int64_t n = 0;
    for (int k = 0; k < b->n; k++)
        if (b->of[k].row < 0) n += tri__range_count(tri__range_both(b->of[k].at, (tri_range){0, at}));
    return n;
}

static void make_pieces(tri_fp8 *z, gather *g) {
    const block *b = &z->gathers->block[g->block];
    const char *name = z->to.program->slot[g->rest].name;
    int64_t each = tri__range_count(tri__shard(b->count, b->n_ranks, 0));
    for (int k = 0; k < b->n; k++)
        for (int m = (int)(b->of[k].at.begin / each); m * each < b->of[k].at.end && b->of[k].row < 0; m++) {
            tri_range own = tri__shard(b->count, b->n_ranks, m), part = tri__range_both(b->of[k].at, own);
            int64_t n = tri__range_count(part);
            piece *made = TRI_PUSH(z->pass->arena, g->piece, g->n, g->cap);
            *made = (piece){.x = -1, .root = m};
            made->y = tri__build_view(&z->to, g->rest, rest_before(b, part.begin), 1, n, "%s.%d.%d", name, k, m);
            if (m == b->place)
                made->x = tri__build_view(&z->to, b->shard, part.begin - own.begin, 1, n, "%s.own",
                                          z->to.program->slot[made->y].name);
        }
}

/* Slots beside the result of a gather. */
static void make_slots(tri_fp8 *z, gather *g) {
    block *b = &z->gathers->block[g->block];
    const tri_slot whole = z->to.program->slot[g->whole], shard = z->to.program->slot[b->shard];
    int64_t rest = rest_before(b, b->count);
    const tri_rows one = {.add = 1};
    z->to.unit = whole.unit;
    if (b->bytes < 0)
        b->bytes = tri__build_slot(&z->to, TRI_MEM_GATHER, TRI_F8_E4M3, one, shard.cols, "q.%s", shard.name);
    if (!rest) return;
    g->rest = tri__build_slot(&z->to, TRI_MEM_GATHER, whole.dtype, one, rest, "%s.rest", whole.name);
    make_pieces(z, g);
}

/* The view of the rest that replaces a view of the result. */
static int rest_view(tri_fp8 *z, int slot) {
    const gather *g = &z->gathers->gather[z->gathers->of[slot]];
    const tri_program *program = z->to.program;
    const tri_slot of = program->slot[slot];
    const char *label = of.name + strlen(program->slot[g->whole].name) + 1; /* a view's name is parent.label */
    int64_t at = rest_before(&z->gathers->block[g->block], range_of(z, slot).begin);
    z->to.unit = of.unit;
    return tri__build_view(&z->to, g->rest, at, of.rows.add, of.cols, "%s.%s", program->slot[g->rest].name, label);
}

static int is_taken(const gathers *g, int slot) {
    return g->of[slot] >= 0 && g->block[g->gather[g->of[slot]].block].is_taken;
}

/* Results become bytes, whose views the products read; other views are of the rest. */
static void replace_results(tri_fp8 *z) {
    gathers *g = z->gathers;
    int *stand = tri__arena_alloc(z->pass->arena, (size_t)z->n_slots * sizeof *stand);
    for (int i = 0; i < g->n; i++)
        if (g->block[g->gather[i].block].is_taken) make_slots(z, &g->gather[i]);
    for (int s = 0; s < z->n_slots; s++) {
        stand[s] = s;
        if (!is_taken(g, s)) continue;
        if (is_weight(z, s)) z->form[s].q = s, z->form[s].is_gathered = 1;
        else if (z->use[s].others) stand[s] = rest_view(z, s);
        z->to.program->slot[s].dtype = TRI_F8_E4M3;
    }
    for (int i = 0; i < z->n_from; i++)
        for (int k = 0; k < TRI_MAX_ARGS; k++)
            if (z->from[i].slot[k] >= 0) z->from[i].slot[k] = stand[z->from[i].slot[k]];
}

void tri__fp8_gathers_plan(tri_fp8 *z) {
    gathers *g = z->gathers = tri__arena_alloc(z->pass->arena, sizeof *g);
    g->of = tri__arena_alloc(z->pass->arena, (size_t)z->n_slots * sizeof *g->of);
    find_gathers(z);
    for (int s = 0; s < z->n_slots; s++)
        if (g->of[s] >= 0 && is_weight(z, s)) note_weight(z, s);
    for (int b = 0; b < g->n_blocks; b++) cover(z, &g->block[b]);
    for (int s = 0; s < z->n_slots; s++)
        if (g->of[s] >= 0) check_reads(z, s);
    replace_results(z);
}

/* ---- Instructions ---- */

/* This rank's shard in 8 bits. Bytes of what is read in 16 bits are never read; they do not count for maxima. */
static void cast_shard(tri_fp8 *z, block *b) {
    tri_range own = tri__shard(b->count, b->n_ranks, b->place);
    size_t most = (size_t)b->n * sizeof(int);
    int *row = tri__arena_alloc(z->pass->arena, most), *q = tri__arena_alloc(z->pass->arena, most),
        *x = tri__arena_alloc(z->pass->arena, most), n = 0;
    const char *name = z->to.program->slot[b->shard].name;
    b->is_cast = 1;
    for (int k = 0; k < b->n; k++) {
        tri_range part = tri__range_both(b->of[k].at, own);
        int64_t at = part.begin - own.begin, count = tri__range_count(part);
        if (!count) continue;
        int from = tri__build_view(&z->to, b->shard, at, 1, count, "%s.part.%d", name, k);
        int to = tri__build_view(&z->to, b->bytes, at, 1, count, "q.%s.part.%d", name, k);
        if (b->of[k].row < 0) {
            int s = 0;
            while (b->of[s].row < 0) s++;
            TRI_BUILD(&z->to, fp8_cast, (tri_attr){0}, to, -1, -1, from, tri__fp8_scales(z, b->of[s].row, 1));
        } else {
            row[n] = b->of[k].row, q[n] = to, x[n++] = from;
        }
    }
    tri__fp8_cast_parts(z, n, row, q, x);
}

static void append_post(tri_fp8 *z, const gather *g) {
    block *b = &z->gathers->block[g->block];
    tri_attr group = b->group;
    if (!b->is_cast) cast_shard(z, b);
    group.id = tri__random_id(z->to.program->slot[g->whole].name);
    TRI_BUILD(&z->to, all_gather_post, group, g->whole, b->bytes);
    for (int k = 0; k < g->n; k++) {
        const piece *p = &g->piece[k];
        group.root = p->root, group.id = tri__random_id(z->to.program->slot[p->y].name);
        TRI_BUILD(&z->to, broadcast_post, group, p->y, p->x);
    }
}

static void append_wait(tri_fp8 *z, const gather *g) {
    TRI_BUILD(&z->to, wait, (tri_attr){0}, g->whole, z->gathers->block[g->block].bytes);
    for (int k = 0; k < g->n; k++) TRI_BUILD(&z->to, wait, (tri_attr){0}, g->piece[k].y, g->piece[k].x);
}

int tri__fp8_gathers_append(tri_fp8 *z, int i) {
    const tri_instr *instr = &z->from[i];
    if (instr->op != TRI_OP_all_gather_post && instr->op != TRI_OP_wait) return 0;
    int whole = tri__transfer_ends(instr).y;
    if (whole < 0 || !is_taken(z->gathers, whole)) return 0;
    const gather *of = &z->gathers->gather[z->gathers->of[whole]];
    if (instr->op == TRI_OP_wait) append_wait(z, of);
    else append_post(z, of);
    return 1;
}
