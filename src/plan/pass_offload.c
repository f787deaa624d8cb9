/* pass_offload.c - pass: slots in offload memory that kernels cannot access are copied through device memory (class
 * `staging`).
 *
 * A tile is a root of an offloaded class, or a piece of one for optimizer state, whose updates are cut to match. It is
 * used in spans: groups of uses close to each other. Each span has its own staging slot, which a copy fills before the
 * span and another stores back after it if it was written. At most target->ahead bytes (fewer where little is
 * offloaded) are fetched ahead of their use, and about as many are being stored, so that kernels and both directions of
 * the bus work at the same time in little memory. A tile with one span that does not outlive the step is in staging
 * memory only. */
#include "plan/least.h"
#include "plan/pass.h"

enum {
    CLOSE = 16, /* instructions from one use to the next in a span: half a layer */
    PIECES = 4, /* tiles of optimizer state in `ahead` bytes: one is updated while others are copied */
    SHARE = 64, /* at most 1/SHARE of the offloaded bytes is ahead */
    GRAIN = 64  /* elements: tiles begin on a vector of any type */
};

typedef struct tile {
    int root, host;        /* slots: the root it is part of; the tile in offload memory */
    tri_range part;        /* of the root's elements */
    tri_range *known;      /* elements written in this step; disjoint, in any order */
    int n_known, cap_known;
    int flights;           /* transfers in flight */
    int span, last;        /* the current span, initially the first; the last one; -1 */
    int n_spans;
} tile;

/* Spans are in the order of their first uses. */
typedef struct span {
    int tile, first, last; /* instructions that use it */
    int next, before;      /* spans of the same tile; -1 */
    int writes, fetches, stores;
    int always;            /* 1: an instruction of it runs in all kinds of steps, so its copies do */
    uint32_t gates;        /* kinds of steps in which the others run */
    int layer;             /* the gate that all its instructions have, as in tri_instr: its copies have it, too; 0 */
    int post;              /* the instruction before which it is fetched */
    int mb;                /* the microbatch whose row counts it has */
    int staging;           /* slot; -1: not made yet */
    int is_there;          /* its staging slot has its initial values */
    int is_stored, is_away; /* its store was posted; and is in flight */
    int64_t bytes;
} span;

typedef struct offload {
    tri_pass *pass;
    tri_builder to;
    const tri_counts *max;
    int *first_tile;       /* [slots] of a root; -1: it is not offloaded */
    uint8_t *is_uncut;     /* [slots] of a root of optimizer state: 1: it is one tile */
    int64_t ahead;         /* limit in bytes of fetches before their use, and of stores in flight beyond one */
    int64_t each;          /* elements of a tile of optimizer state */
    tile *tile;
    span *span;
    int n_tiles, cap_tiles, n_spans, cap_spans;
    int *fetch;            /* [n_fetches] spans, in the order of their posts */
    int n_fetches, fetched;
    int *away;             /* [n_away] spans whose store is in flight, oldest first */
    int n_away;
    int64_t away_bytes;
    struct {
        int span, slot;
    } *stand;              /* [slots] the slot that replaces a slot in a span; span -1: none yet */
} offload;

static tri_mem class_of(const offload *o, const tile *t) { return o->to.program->slot[t->root].mem; }

/* The range of its root that a slot covers. */
static tri_range range_of(const offload *o, int slot) {
    const tri_slot *of = &o->to.program->slot[slot];
    int64_t begin = tri__slot_begin(o->to.program, slot), count = tri__slot_rows(of, o->max) * of->cols;
    return (tri_range){begin, begin + count};
}

/* Whether a root consists of several tiles. */
static int is_cut(const offload *o, int root) {
    return o->to.program->slot[root].mem == TRI_MEM_STATE && !o->is_uncut[root];
}

/* The tile of an operand; NULL: it is not in offload memory, or empty. */
static tile *tile_of(const offload *o, int slot) {
    if (slot < 0) return NULL;
    int first = o->first_tile[tri__slot_root(o->to.program, slot)];
    tri_range range = range_of(o, slot);
    if (first < 0 || range.begin == range.end) return NULL;
    tile *t = &o->tile[first];
    if (is_cut(o, t->root)) t += range.begin / o->each;
    TRI_ASSERT(t->part.begin <= range.begin && range.end <= t->part.end);
    return t;
}

static int is_state(const offload *o, int slot) { return slot >= 0 && o->to.program->slot[slot].mem == TRI_MEM_STATE; }

/* Whether operand k is one of elements that an instruction treats one by one. */
static int is_flat(const tri_instr *instr, int k) {
    return instr->slot[k] >= 0 && tri__row_is_flat(tri__instr_row(instr), k);
}

/* Whether an instruction is elementwise in optimizer state, so that cutting it gives the same bits: all its operands
 * have the same elements, or are single numbers; sums are not. */
static int can_be_cut(const offload *o, const tri_instr *instr) {
    const tri_op_row *row = tri__instr_row(instr);
    int has_state = 0;
    if (tri__op_queue(instr->op) != TRI_QUEUE_COMPUTE) return 0;
    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0) continue;
        if (!is_flat(instr, k) && (row->arg[k].dims[0] != '1' || tri__access_writes(row->arg[k].access))) return 0;
        has_state |= is_flat(instr, k) && is_state(o, instr->slot[k]);
    }
    return has_state;
}

/* Marks the roots of optimizer state that some instruction uses without being cut: they are one tile each. */
static void find_uncut(offload *o) {
    const tri_program *p = o->to.program;
    o->is_uncut = tri__arena_alloc(o->pass->arena, (size_t)p->n_slots);
    for (int i = 0; i < p->n_instrs; i++) {
        if (can_be_cut(o, &p->instr[i])) continue;
        for (int k = 0; k < TRI_MAX_ARGS; k++)
            if (is_state(o, p->instr[i].slot[k])) o->is_uncut[tri__slot_root(p, p->instr[i].slot[k])] = 1;
    }
}

/* How many elements of an instruction's operands, from element `from` of `all` on, are in one tile each. */
static int64_t uncut_length(const offload *o, const tri_instr *instr, int64_t from, int64_t all) {
    int64_t length = all - from;
    for (int k = 0; k < TRI_MAX_ARGS; k++) {
        if (!is_state(o, instr->slot[k]) || o->is_uncut[tri__slot_root(o->to.program, instr->slot[k])]) continue;
        int64_t at = range_of(o, instr->slot[k]).begin + from, left = o->each - at % o->each;
        if (is_flat(instr, k) && left < length) length = left;
    }
    return length;
}

/* The part of an instruction on elements [from, from + n) of its operands. */
static void append_part(offload *o, tri_instr instr, int64_t from, int64_t n, int part) {
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (is_flat(&instr, k))
            instr.slot[k] = tri__build_view(&o->to, instr.slot[k], from, 1, n, "%s.%d",
                                            o->to.program->slot[instr.slot[k]].name, part);
    tri__build_copy(&o->to, &instr);
}

static void cut_update(offload *o, const tri_instr *instr) {
    int k = 0;
    while (!is_flat(instr, k) || !is_state(o, instr->slot[k])) k++;
    tri_range all = range_of(o, instr->slot[k]);
    int64_t count = tri__range_count(all), n;
    if (uncut_length(o, instr, 0, count) == count) {
        tri__build_copy(&o->to, instr);
        return;
    }
    for (int64_t from = 0; from < count; from += n) {
        n = uncut_length(o, instr, from, count);
        append_part(o, *instr, from, n, (int)((all.begin + from) / o->each));
    }
}

static void cut_updates(offload *o) {
    int n, update = o->pass->out.update;
    const tri_instr *instr = tri__take_instrs(o->to.program, &n);
    for (int i = 0; i < n; i++) {
        if (i == update) o->pass->out.update = o->to.program->n_instrs;
        if (can_be_cut(o, &instr[i])) cut_update(o, &instr[i]);
        else tri__build_copy(&o->to, &instr[i]);
    }
}

/* Moves sums of squares to where their gradient is complete and still in staging memory, so that it is not fetched
 * again for them. */
static void advance_sums(offload *o) {
    int n, update = o->pass->out.update;
    const tri_instr *instr = tri__take_instrs(o->to.program, &n);
    size_t roots = (size_t)o->to.program->n_slots;
    int *last = tri__arena_alloc(o->pass->arena, roots * sizeof *last); /* of roots: 1 + the last use; 0 none */
    /* of an instruction: 1 + the sum that follows it; 0 none */
    int *then = tri__arena_alloc(o->pass->arena, (size_t)n * sizeof *then);
    int *moved = tri__arena_alloc(o->pass->arena, (size_t)n * sizeof *moved);
    for (int i = 0; i < n; i++) {
        int root = instr[i].op == TRI_OP_sumsq ? tri__slot_root(o->to.program, TRI_SLOT(&instr[i], sumsq, x)) : -1;
        moved[i] = root >= 0 && o->to.program->slot[root].mem == TRI_MEM_GRAD && last[root] && !then[last[root] - 1];
        if (moved[i]) then[last[root] - 1] = i + 1;
        for (int k = 0; k < TRI_MAX_ARGS && !moved[i]; k++)
            if (instr[i].slot[k] >= 0) last[tri__slot_root(o->to.program, instr[i].slot[k])] = i + 1;
    }
    for (int i = 0; i < n; i++) {
        if (i == update) o->pass->out.update = o->to.program->n_instrs;
        if (!moved[i]) tri__build_copy(&o->to, &instr[i]);
        if (then[i]) tri__build_copy(&o->to, &instr[then[i] - 1]);
    }
}

static void make_tiles(offload *o) {
    const tri_program *p = o->to.program;
    o->first_tile = tri__arena_alloc(o->pass->arena, (size_t)p->n_slots * sizeof *o->first_tile);
    for (int s = 0; s < p->n_slots; s++) {
        o->first_tile[s] = -1;
        if (p->slot[s].parent >= 0 || !(o->pass->in->offload >> p->slot[s].mem & 1)) continue;
        o->first_tile[s] = o->n_tiles;
        int64_t end = range_of(o, s).end, each = is_cut(o, s) ? o->each : end;
        for (int64_t at = 0; at < end; at += each)
            *TRI_PUSH(o->pass->arena, o->tile, o->n_tiles, o->cap_tiles) =
                (tile){.root = s, .host = -1, .part = {at, end - at < each ? end : at + each}, .span = -1, .last = -1};
    }
}

/* Remembers that elements were written. */
static void know(offload *o, tile *t, tri_range add) {
    int n = 0;
    for (int i = 0; i < t->n_known; i++) {
        tri_range had = t->known[i];
        if (had.end < add.begin || add.end < had.begin) {
            t->known[n++] = had;
            continue;
        }
        if (had.begin < add.begin) add.begin = had.begin;
        if (had.end > add.end) add.end = had.end;
    }
    t->n_known = n;
    *TRI_PUSH(o->pass->arena, t->known, t->n_known, t->cap_known) = add;
}

/* Whether a tile may be stored between two uses: all of it has a value, and no transfer of it is in flight. */
static int may_leave(const offload *o, const tile *t) {
    if (t->flights) return 0;
    return tri__mem_lasts(class_of(o, t)) ||
           (t->n_known == 1 && tri__range_count(t->known[0]) == tri__range_count(t->part));
}

static void use(offload *o, tile *t, int at, const tri_instr *instr, int k) {
    if (t->last < 0 || (at - o->span[t->last].last > CLOSE && may_leave(o, t))) {
        const tri_slot *root = &o->to.program->slot[t->root];
        int index = o->n_spans, before = t->last;
        *TRI_PUSH(o->pass->arena, o->span, o->n_spans,
                  o->cap_spans) = (span){.tile = (int)(t - o->tile), .first = at, .next = -1, .before = before,
                                         .mb = instr->mb, .layer = instr->layer, .staging = -1,
                                         .bytes = tri__range_count(t->part) * (int64_t)tri__dtype_bytes(root->dtype)};
        if (before >= 0) o->span[before].next = index;
        else t->span = index;
        t->last = index;
        t->n_spans++;
    }
    o->span[t->last].last = at;
    o->span[t->last].gates |= instr->gates;
    o->span[t->last].always |= !instr->gates;
    if (o->span[t->last].layer != instr->layer) o->span[t->last].layer = 0;
    if (!tri__access_writes(tri__instr_row(instr)->arg[k].access)) return;
    o->span[t->last].writes = 1;
    /* what a closed layer writes, the open one writes in the same span */
    if (!tri__mem_lasts(class_of(o, t)) && instr->layer >= 0) know(o, t, range_of(o, instr->slot[k]));
}

static void find_spans(offload *o) {
    const tri_program *p = o->to.program;
    for (int i = 0; i < p->n_instrs; i++)
        for (int k = 0; k < TRI_MAX_ARGS; k++) {
            tile *t = tile_of(o, p->instr[i].slot[k]);
            if (!t) continue;
            use(o, t, i, &p->instr[i], k);
            t->flights += tri__begins(p->instr[i].op) - tri__ends(p->instr[i].op);
        }
}

/* Tiles that are never stored are in staging memory, with their views. */
static void keep_staged(offload *o) {
    tri_program *p = o->to.program;
    for (int i = 0; i < o->n_tiles; i++)
        if (o->tile[i].n_spans == 1 && !tri__mem_lasts(class_of(o, &o->tile[i]))) o->first_tile[o->tile[i].root] = -1;
    for (int s = 0; s < p->n_slots; s++) {
        int root = tri__slot_root(p, s);
        if (o->pass->in->offload >> p->slot[s].mem & 1 && o->first_tile[root] < 0) p->slot[s].mem = TRI_MEM_STAGING;
    }
}

typedef struct order {
    int post, span;
} order;

static int by_post(const void *a, const void *b) {
    const order *x = a, *y = b;
    return x->post != y->post ? x->post - y->post : x->span - y->span;
}

/* Each fetch is posted once enough earlier spans have begun that fetches ahead of their use are at most o->ahead bytes,
 * or one fetch; and not before the store of the tile's previous span is posted. */
static void order_fetches(offload *o) {
    order *posts = tri__arena_alloc(o->pass->arena, (size_t)o->n_spans * sizeof *posts);
    int *all = o->fetch = tri__arena_alloc(o->pass->arena, (size_t)o->n_spans * sizeof *all), begun = -1;
    int64_t ahead = 0;
    for (int i = 0; i < o->n_spans; i++) {
        span *s = &o->span[i];
        const tile *t = &o->tile[s->tile];
        if (o->first_tile[t->root] < 0) continue;
        int outlives = tri__mem_lasts(class_of(o, t));
        s->fetches = outlives || s->before >= 0;
        s->stores = s->writes && (outlives || s->next >= 0);
        if (!s->fetches) continue;
        int n = o->n_fetches++;
        all[n] = i;
        ahead += s->bytes;
        while (ahead > o->ahead && begun < n - 1) ahead -= o->span[all[++begun]].bytes;
        s->post = begun < 0 ? 0 : o->span[all[begun]].first;
        if (s->before >= 0 && s->post <= o->span[s->before].last) s->post = o->span[s->before].last + 1;
        posts[n] = (order){s->post, i};
    }
    qsort(posts, (size_t)o->n_fetches, sizeof *posts, by_post);
    for (int n = 0; n < o->n_fetches; n++) all[n] = posts[n].span;
}

/* Makes both ends of a span's copies. */
static void make_ends(offload *o, span *s, int index) {
    tile *t = &o->tile[s->tile];
    const tri_slot root = o->to.program->slot[t->root];
    int64_t count = tri__range_count(t->part);
    int is_whole = count == tri__range_count(range_of(o, t->root));
    o->to.unit = root.unit;
    if (s->staging < 0)
        s->staging = tri__build_slot(&o->to, TRI_MEM_STAGING, root.dtype, is_whole ? root.rows : (tri_rows){.add = 1},
                                  is_whole ? root.cols : count, "staging.%s.%d", root.name, index);
    if (t->host >= 0 || (!s->fetches && !s->stores)) return;
    t->host = is_whole ? t->root
                       : tri__build_view(&o->to, t->root, t->part.begin, 1, count, "%s.%lld", root.name,
                                         (long long)(t->part.begin / o->each));
}

static void copy(offload *o, tri_op op, const span *s, int out) {
    int host = o->tile[s->tile].host;
    o->to.unit = o->to.program->slot[host].unit, o->to.mb = s->mb, o->to.gates = s->always ? 0 : s->gates;
    o->to.layer = s->layer;
    tri__build(&o->to, op, (const int[TRI_MAX_ARGS]){out ? host : s->staging, out ? s->staging : host}, (tri_attr){0});
}

/* Waits for the store of the n-th span in `away`. */
static void await(offload *o, int n) {
    span *s = &o->span[o->away[n]];
    copy(o, TRI_OP_copy_wait, s, 1);
    s->is_away = 0;
    o->away_bytes -= s->bytes;
    o->n_away--;
    for (; n < o->n_away; n++) o->away[n] = o->away[n + 1];
}

static void store(offload *o, int index) {
    span *s = &o->span[index];
    while (o->n_away && o->away_bytes + s->bytes > o->ahead) await(o, 0);
    copy(o, TRI_OP_copy_post, s, 1);
    s->is_stored = s->is_away = 1;
    o->away_bytes += s->bytes;
    o->away[o->n_away++] = index;
}

static void fetch(offload *o, int index) {
    span *s = &o->span[index];
    for (int n = 0; s->before >= 0 && o->span[s->before].is_away; n++)
        if (o->away[n] == s->before) await(o, n);
    make_ends(o, s, index);
    copy(o, TRI_OP_copy_post, s, 0);
}

/* Makes the span in which instruction `at` uses a tile the current one, with its values in the staging slot. */
static void enter(offload *o, tile *t, int at) {
    if (at > o->span[t->span].last) t->span = o->span[t->span].next;
    span *s = &o->span[t->span];
    if (s->is_there) return;
    if (s->fetches) copy(o, TRI_OP_copy_wait, s, 0);
    else make_ends(o, s, t->span);
    s->is_there = 1;
}

/* The slot that an instruction uses instead of one in offload memory. */
static int stand_in(offload *o, int slot, const tile *t) {
    int staging = o->span[t->span].staging;
    if (slot == t->root) return staging;
    if (o->stand[slot].span != t->span) {
        const tri_slot view = o->to.program->slot[slot];
        o->stand[slot].slot = tri__build_view(&o->to, staging, range_of(o, slot).begin - t->part.begin, view.rows.add,
                                              view.cols, "staging.%s.%d", view.name, t->span);
        o->stand[slot].span = t->span;
    }
    return o->stand[slot].slot;
}

static void rewrite_one(offload *o, const tri_instr *instr, int at) {
    tri_instr changed = *instr;
    for (; o->fetched < o->n_fetches && o->span[o->fetch[o->fetched]].post <= at; o->fetched++)
        fetch(o, o->fetch[o->fetched]);
    for (int k = 0; k < TRI_MAX_ARGS; k++) {
        tile *t = tile_of(o, instr->slot[k]);
        if (!t) continue;
        enter(o, t, at);
        changed.slot[k] = stand_in(o, instr->slot[k], t);
    }
    tri__build_copy(&o->to, &changed);
    for (int k = 0; k < TRI_MAX_ARGS; k++) {
        const tile *t = tile_of(o, instr->slot[k]);
        if (t && o->span[t->span].last == at && o->span[t->span].stores && !o->span[t->span].is_stored)
            store(o, t->span);
    }
}

static void rewrite(offload *o) {
    size_t n_slots = (size_t)o->to.program->n_slots;
    int n, update = o->pass->out.update;
    const tri_instr *instr = tri__take_instrs(o->to.program, &n);
    o->away = tri__arena_alloc(o->pass->arena, (size_t)o->n_spans * sizeof *o->away);
    o->stand = tri__arena_alloc(o->pass->arena, n_slots * sizeof *o->stand);
    for (size_t s = 0; s < n_slots; s++) o->stand[s].span = -1;
    for (int i = 0; i < n; i++) {
        if (i == update) o->pass->out.update = o->to.program->n_instrs;
        rewrite_one(o, &instr[i], i);
    }
    while (o->n_away) await(o, 0);
}

static int64_t offloaded_bytes(const offload *o) {
    const tri_program *p = o->to.program;
    int64_t bytes = 0;
    for (int s = 0; s < p->n_slots; s++)
        if (p->slot[s].parent < 0 && o->pass->in->offload >> p->slot[s].mem & 1)
            bytes += tri__slot_bytes(&p->slot[s], o->max);
    return bytes;
}

tri_status tri__pass_offload(tri_pass *pass) {
    const tri_plan_in *in = pass->in;
    offload o = {.pass = pass, .max = &pass->program->max,
                 .to = {.arena = pass->arena, .program = pass->program, .unit = -1, .mb = -1}};
    o.ahead = offloaded_bytes(&o) / SHARE < in->target->ahead ? offloaded_bytes(&o) / SHARE : in->target->ahead;
    o.each = o.ahead / PIECES / (int64_t)sizeof(float) / GRAIN * GRAIN;
    if (o.each < GRAIN) o.each = GRAIN;
    find_uncut(&o);
    if (in->offload >> TRI_MEM_STATE & 1) cut_updates(&o);
    if (in->offload >> TRI_MEM_GRAD & 1) advance_sums(&o);
    make_tiles(&o);
    find_spans(&o);
    keep_staged(&o);
    order_fetches(&o);
    rewrite(&o);
    return TRI_OK;
}

void tri__least_offload(const tri_plan_in *in, tri_least *least) {
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
        if (in->offload >> mem & 1) least->bytes[mem] = 0;
}
