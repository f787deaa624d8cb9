/* check.c - proves that a program can run: operands fit their operation's row, nothing is read before it is written or
 * after its memory was reused by another slot, no sum is read before it is complete, no output overlaps another operand
 * of the same instruction, all slots are inside their class's allocation, values that outlive the step are not
 * overwritten, nothing else touches a transfer's slots between its post and its wait, and accesses of two lanes to the
 * same bytes keep the program's order.
 *
 * The proof is a dry run that tracks, for each slot that owns memory (a root), which of its elements hold a value.
 * Writing a root invalidates every root that shares bytes with it. Sizes are those of the largest microbatch.
 *
 * All members of a class (classes.h) are proven in one dry run, that of the first. Members differ only in the elements
 * at which views begin and in their places in groups. These numbers, and sums of them, are linear in the member's
 * index and in the number of its run of replicas, and the dry run depends on them only through `compare`. Where a
 * comparison has the same result for the first and the last members of the first and the last run, it has it for all
 * between, since the difference is linear; so all members have the same dry run. Otherwise the members are split in two
 * and each half is proven separately.
 *
 * How the programs of several ranks fit together: check_ranks.c. */
#include "program/check.h"
#include "program/lane_order.h"
#include "program/transfer.h"

#include <stdio.h>
#include <string.h>

/* A number that is linear in the member's index and in its run: its value for the first, and the increments. */
typedef struct number {
    int64_t at, each, run;
} number;

typedef struct range {
    number begin, end; /* of a root's elements */
} range;

typedef struct root {
    range *known;      /* elements that hold a value; sorted, disjoint */
    int n;
    int taken_by;      /* the slot that overwrote this root's memory; -1 */
    int is_read;       /* read since it was written: its sum is complete */
    int is_live;       /* it is in `live` */
    tri_mem mem;
    int64_t begin, end; /* bytes of its class */
} root;

/* A transfer, or a copy between memories, that was posted and not yet waited for. */
typedef struct flight {
    tri_ends ends;
    int line, copies; /* copies 1: between memories */
} flight;

/* Members of a class: n of them from index `first` on, in each of `copies` runs of replicas from run `copy` on. */
typedef struct members {
    int first, n, copy, copies;
    int period;        /* replicas of a run */
} members;

typedef struct checker {
    const tri_program *program;
    const tri_class *class; /* NULL: the program's rank alone */
    members of;
    int varies;        /* a comparison is not the same for all members */
    tri_arena *arena;
    int *root_of;      /* [n_slots] */
    range *range;      /* [n_slots] a slot's elements of its root */
    root *root;        /* [n_slots], used for roots */
    int *live[TRI_MEM_COUNT]; /* non-empty roots of each class that hold a value, by offset; no two overlap */
    int n_live[TRI_MEM_COUNT];
    flight *flight;
    int n_flights, cap_flights;
    int *post;         /* [n_instrs] of each wait: the post that it ends */
    int line;          /* instruction; n_instrs: before the first, or at the end */
    int slot;          /* the slot being checked */
    const tri_origin *origin; /* NULL: planned */
} checker;

enum { MOST_RANKS = 1 << 20 }; /* of a mesh: larger ones are refused */

/* The rank of a member (0: the first) of one of the runs. */
static int rank_of(const checker *c, int member, int copy) {
    const tri_program *p = c->program;
    if (!c->class) return p->rank;
    tri_coords at = tri__mesh_coords(&p->mesh, p->rank);
    at.dp += c->of.first + member + (c->of.copy + copy) * c->of.period;
    return tri__mesh_rank(&p->mesh, at);
}

static tri_status defect(const checker *c, const char *format, const char *a, const char *b) {
    char what[256];
    snprintf(what, sizeof what, format, a, b);
    const tri_program *p = c->program;
    if (c->origin) {
        char at[TRI_ORIGIN_TEXT];
        int ended = c->line >= p->n_instrs;
        c->origin->at(c->origin->data, rank_of(c, 0, 0), ended ? -1 : c->line, ended ? c->slot : -1, at);
        return tri__fail(TRI_DATA, "%s: %s%s%s", at, ended ? "" : tri__op_row(p->instr[c->line].op)->name,
                         ended ? "" : ": ", what);
    }
    return tri__fail(TRI_INTERNAL, "the plan of rank %d is broken at instruction %d (%s): %s", rank_of(c, 0, 0),
                     c->line, c->line < p->n_instrs ? tri__op_row(p->instr[c->line].op)->name : "end", what);
}

static number fixed(int64_t value) { return (number){.at = value}; }

static number sum_of(number a, number b) { return (number){a.at + b.at, a.each + b.each, a.run + b.run}; }

static int sign_of(int64_t value) { return (value > 0) - (value < 0); }

/* -1, 0, 1: a < b, a = b, a > b. */
static int compare(checker *c, number a, number b) {
    int64_t first = a.at - b.at, sign = sign_of(first);
    if (a.each == b.each && a.run == b.run) return (int)sign;
    int64_t last = (a.each - b.each) * (c->of.n - 1), last_run = (a.run - b.run) * (c->of.copies - 1);
    if (sign != sign_of(first + last) || sign != sign_of(first + last_run) || sign != sign_of(first + last + last_run))
        c->varies = 1;
    return (int)sign;
}

/* Adds a range to those that hold a value, merging ranges that touch. */
static void know(checker *c, root *r, range add) {
    int i = 0, n = 0;
    range *merged = tri__arena_alloc(c->arena, (size_t)(r->n + 1) * sizeof *merged);
    for (; i < r->n && compare(c, r->known[i].end, add.begin) < 0; i++) merged[n++] = r->known[i];
    for (; i < r->n && compare(c, r->known[i].begin, add.end) <= 0; i++) {
        if (compare(c, r->known[i].begin, add.begin) < 0) add.begin = r->known[i].begin;
        if (compare(c, r->known[i].end, add.end) > 0) add.end = r->known[i].end;
    }
    merged[n++] = add;
    for (; i < r->n; i++) merged[n++] = r->known[i];
    r->known = merged;
    r->n = n;
}

static int knows(checker *c, const root *r, range want) {
    if (compare(c, want.begin, want.end) == 0) return r->n > 0;
    for (int i = 0; i < r->n; i++)
        if (compare(c, r->known[i].begin, want.begin) <= 0 && compare(c, want.end, r->known[i].end) <= 0) return 1;
    return 0;
}

static int overlap(checker *c, int a, int b) {
    const root *p = &c->root[c->root_of[a]], *q = &c->root[c->root_of[b]];
    if (p != q) return p->mem == q->mem && p->begin < q->end && q->begin < p->end;
    return compare(c, c->range[a].begin, c->range[b].end) < 0 && compare(c, c->range[b].begin, c->range[a].end) < 0;
}

/* Nothing else may touch the slots of a transfer in flight. */
static tri_status check_idle(checker *c, int slot) {
    const tri_program *p = c->program;
    for (int i = 0; i < c->n_flights; i++) {
        const int ends[2] = {c->flight[i].ends.y, c->flight[i].ends.x};
        for (int k = 0; k < 2; k++) {
            if (ends[k] < 0 || !overlap(c, slot, ends[k])) continue;
            char line[32];
            snprintf(line, sizeof line, "instruction %d", c->flight[i].line);
            return defect(c, "%s is used before the transfer posted at %s has ended", p->slot[slot].name, line);
        }
    }
    return TRI_OK;
}

static tri_status check_read(checker *c, int slot) {
    const tri_program *p = c->program;
    int at = c->root_of[slot];
    if (knows(c, &c->root[at], c->range[slot])) return TRI_OK;
    if (c->root[at].taken_by >= 0)
        return defect(c, "%s is read after its memory went to %s", p->slot[slot].name,
                      p->slot[c->root[at].taken_by].name);
    return defect(c, "%s is read before it is written%s", p->slot[slot].name, "");
}

/* Writing `slot` makes its root live: live roots that overlap it lose their values. */
static void take_memory(checker *c, int at, int slot) {
    tri_mem mem = c->program->slot[at].mem;
    root *own = &c->root[at];
    int first = 0, last, n = c->n_live[mem], *live = c->live[mem];
    own->is_live = 1, own->taken_by = -1;
    if (own->begin == own->end) return;
    for (int step = n; step > 0;) { /* the first that ends after its begin */
        int half = step / 2;
        if (c->root[live[first + half]].end > own->begin) step = half;
        else first += half + 1, step -= half + 1;
    }
    for (last = first; last < n && c->root[live[last]].begin < own->end; last++) {
        root *other = &c->root[live[last]];
        other->n = other->is_live = 0;
        other->taken_by = slot;
    }
    memmove(live + first + 1, live + last, (size_t)(n - last) * sizeof *live);
    live[first] = at;
    c->n_live[mem] = n + 1 - (last - first);
}

static void write_slot(checker *c, int slot) {
    int at = c->root_of[slot];
    if (!c->root[at].is_live) take_memory(c, at, slot);
    if (!c->root[at].n || !knows(c, &c->root[at], c->range[slot])) know(c, &c->root[at], c->range[slot]);
}

/* The place of each member in its group. Along the axes alone it is linear in the member and in its run. `within` takes
 * it modulo a number, `across` divides it by one: it is then the same in all runs, or else it varies. */
static number place_of(checker *c, const tri_attr *attr) {
    const tri_mesh *mesh = &c->program->mesh;
    const members *of = &c->of;
    int rank = rank_of(c, 0, 0), last = rank_of(c, of->n - 1, 0), within = attr->within, across = attr->across;
    int at = tri__mesh_group_place(mesh, rank, attr->axes), at_last = tri__mesh_group_place(mesh, last, attr->axes);
    int more = tri__mesh_group_place(mesh, rank_of(c, 0, of->copies - 1), attr->axes) - at; /* in the last run */
    int each_run = of->copies > 1 ? more / (of->copies - 1) : 0;
    if (within && (at / within != at_last / within || each_run % within)) c->varies = 1;
    if (across && at / across != (at_last + more) / across) c->varies = 1;
    int place = tri__transfer_place(mesh, rank, attr), place_last = tri__transfer_place(mesh, last, attr);
    return (number){place, of->n > 1 ? (place_last - place) / (of->n - 1) : 0, within || across ? 0 : each_run};
}

/* Each member's shard of `count` elements among n. All shards are of equal size except the last ones: where those of
 * the first and the last members are equal, so are those between, and they are consecutive. */
static range shard_of(checker *c, int64_t count, int n, number place) {
    int64_t last_member = c->of.n - 1, last_run = c->of.copies - 1;
    tri_range first = tri__shard(count, n, (int)place.at),
              last = tri__shard(count, n, (int)(place.at + place.each * last_member)),
              next = tri__shard(count, n, (int)(place.at + place.run * last_run)),
              end = tri__shard(count, n, (int)(place.at + place.each * last_member + place.run * last_run));
    int64_t size = tri__range_count(first);
    if (size != tri__range_count(last) || size != tri__range_count(next) || size != tri__range_count(end))
        c->varies = 1;
    number begin = {first.begin, last_member ? (last.begin - first.begin) / last_member : 0,
                    last_run ? (next.begin - first.begin) / last_run : 0};
    return (range){begin, sum_of(begin, fixed(size))};
}

/* Whether a transfer's smaller end is this rank's own part of the larger one, as in in-place gathers and scatters. */
static int is_own_part(checker *c, const tri_instr *instr) {
    const tri_program *p = c->program;
    if (!tri__is_post(instr->op)) return 0;
    tri_ends ends = tri__transfer_ends(instr);
    int whole = tri__transfer_whole(instr), part = whole == ends.y ? ends.x : ends.y;
    range outer = c->range[whole], inner = c->range[part];
    int64_t count = outer.end.at - outer.begin.at;
    range shard = {fixed(0), fixed(count)};
    if (c->root_of[whole] != c->root_of[part]) return 0;
    if (p->slot[whole].rows.sym != TRI_SYM_NONE && instr->op != TRI_OP_broadcast_post) return 0;
    if (instr->op != TRI_OP_broadcast_post)
        shard = shard_of(c, count, tri__transfer_size(&p->mesh, &instr->attr), place_of(c, &instr->attr));
    return compare(c, inner.begin, sum_of(outer.begin, shard.begin)) == 0 &&
           compare(c, inner.end, sum_of(outer.begin, shard.end)) == 0;
}

/* Whether a slot has the size of place `place`'s share of another, among n: a shard of one row, or an equal run of
 * counted rows. */
static int is_share(checker *c, const tri_slot *whole, const tri_slot *part, int n, number place) {
    if (whole->rows.sym == TRI_SYM_NONE) {
        range shard = shard_of(c, whole->cols, n, place);
        return whole->rows.add == 1 && part->rows.add == 1 && part->rows.sym == TRI_SYM_NONE &&
               part->cols == shard.end.at - shard.begin.at;
    }
    return part->rows.sym == whole->rows.sym && part->rows.div == n && !whole->rows.div && !part->rows.add &&
           !whole->rows.add && part->cols == whole->cols;
}

/* The control: a small record that the hosts of all ranks sum. */
static tri_status check_control(checker *c, const tri_instr *instr) {
    const tri_program *p = c->program;
    const tri_slot *record = &p->slot[instr->slot[TRI_ARG(control_post, y)]];
    if (tri__transfer_size(&p->mesh, &instr->attr) != tri__mesh_world(&p->mesh))
        return defect(c, "%s is not exchanged among all ranks%s", record->name, "");
    int ordered = TRI_ORDERED_PARTS + TRI_SYM_COUNT * p->n_mb; /* columns of a server's order */
    if (record->mem != TRI_MEM_HOST || (record->cols != TRI_TOLD_COUNT && record->cols != ordered))
        return defect(c, "%s is not a record in the host's memory%s", record->name, "");
    return TRI_OK;
}

/* The group exists, and both ends have the sizes of this rank's place in it. */
static tri_status check_post(checker *c, const tri_instr *instr) {
    const tri_program *p = c->program;
    const tri_attr *attr = &instr->attr;
    const tri_mesh *m = &p->mesh;
    if (m->pp < 1 || m->tp < 1 || m->dp < 1 || (double)m->pp * m->tp * m->dp > MOST_RANKS ||
        p->rank >= tri__mesh_world(m))
        return defect(c, "the mesh has no such rank%s%s", "", "");
    int n = tri__transfer_size(m, attr);
    if (n == 0) return defect(c, "the attributes do not name a group of ranks%s%s", "", "");
    if (attr->root < 0 || attr->root >= n) return defect(c, "the group has no such place as root%s%s", "", "");
    tri_ends ends = tri__transfer_ends(instr);
    if (instr->op == TRI_OP_control_post) TRI_TRY(check_control(c, instr));
    int sums = tri__post_kind(instr->op) == TRI_ALL_REDUCE; /* all places have the same size */
    number place = sums ? fixed(-1) : place_of(c, attr);
    int at_root = compare(c, place, fixed(attr->root)) == 0;
    if ((instr->op == TRI_OP_send_post || instr->op == TRI_OP_recv_post) && at_root)
        return defect(c, "a rank sends %s to itself%s", p->slot[tri__transfer_whole(instr)].name, "");
    if (instr->op == TRI_OP_broadcast_post && (ends.x >= 0) != at_root)
        return defect(c, "%s is given on another rank than the root%s", "x", "");
    if (ends.x >= 0 && ends.y >= 0 && p->slot[ends.x].dtype != p->slot[ends.y].dtype)
        return defect(c, "%s and %s differ in element type", p->slot[ends.y].name, p->slot[ends.x].name);
    if (instr->op != TRI_OP_all_gather_post && instr->op != TRI_OP_reduce_scatter_post) return TRI_OK;
    int whole = tri__transfer_whole(instr), part = whole == ends.y ? ends.x : ends.y;
    if (!is_share(c, &p->slot[whole], &p->slot[part], n, place))
        return defect(c, "%s is not this rank's shard of %s in size", p->slot[part].name, p->slot[whole].name);
    return TRI_OK;
}

/* A copy is from one memory to the other, of one type. */
static tri_status check_copy(checker *c, const tri_instr *instr) {
    tri_ends ends = tri__transfer_ends(instr);
    const tri_slot *y = &c->program->slot[ends.y], *x = &c->program->slot[ends.x];
    if ((c->program->offload >> y->mem & 1) == (c->program->offload >> x->mem & 1))
        return defect(c, "%s and %s are in the same memory", y->name, x->name);
    return y->dtype == x->dtype ? TRI_OK : defect(c, "%s and %s differ in element type", y->name, x->name);
}

static tri_status check_wait(checker *c, const tri_instr *instr) {
    tri_ends ends = tri__transfer_ends(instr);
    for (int i = 0; i < c->n_flights; i++) {
        if (c->flight[i].ends.y != ends.y || c->flight[i].ends.x != ends.x ||
            c->flight[i].copies != (instr->op == TRI_OP_copy_wait))
            continue;
        c->post[c->line] = c->flight[i].line;
        c->flight[i] = c->flight[--c->n_flights];
        return TRI_OK;
    }
    return defect(c, "no transfer of these slots is in flight%s%s", "", "");
}

/* An output must not overlap another operand; disjoint ranges of one root are allowed. */
static tri_status check_apart(checker *c, const tri_instr *instr, int output) {
    const tri_program *p = c->program;
    const tri_op_row *row = tri__op_row(instr->op);
    for (int k = 0; k < row->n_args; k++)
        if (k != output && instr->slot[k] >= 0 && overlap(c, instr->slot[output], instr->slot[k]) &&
            !is_own_part(c, instr))
            return defect(c, "%s overlaps %s", p->slot[instr->slot[output]].name, p->slot[instr->slot[k]].name);
    return TRI_OK;
}

static tri_status check_operand(checker *c, const tri_operand *operand, int slot) {
    const tri_program *p = c->program;
    if (slot >= p->n_slots) return defect(c, "operand %s is not a slot%s", operand->name, "");
    if (slot < 0) return operand->optional ? TRI_OK : defect(c, "operand %s is missing%s", operand->name, "");
    tri_op op = p->instr[c->line].op;
    if (p->slot[slot].mem == TRI_MEM_HOST && op != TRI_OP_control_post && op != TRI_OP_wait)
        return defect(c, "%s is in host memory, which %s cannot access", p->slot[slot].name,
                      tri__op_row(op)->name);
    tri_dtype dtype = p->slot[slot].dtype;
    int computes = operand->dtype == TRI_DTYPE_COMPUTE ||
                   (operand->dtype == TRI_DTYPE_ANY && tri__op_queue(op) == TRI_QUEUE_COMPUTE);
    if (computes ? dtype != TRI_F32 && dtype != TRI_BF16 && dtype != TRI_F16
                 : operand->dtype >= 0 && dtype != (tri_dtype)operand->dtype)
        return defect(c, "%s has the wrong element type for operand %s", p->slot[slot].name, operand->name);
    return TRI_OK;
}

/* All operands of the computing type have one type. */
static tri_status check_computing_type(const checker *c, const tri_instr *instr) {
    const tri_op_row *row = tri__op_row(instr->op);
    const tri_slot *first = NULL;
    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0 || row->arg[k].dtype != TRI_DTYPE_COMPUTE) continue;
        const tri_slot *slot = &c->program->slot[instr->slot[k]];
        if (!first) first = slot;
        if (slot->dtype != first->dtype)
            return defect(c, "%s and %s have different element types", first->name, slot->name);
    }
    return TRI_OK;
}

/* The run of rows exists: of a field by the ranks that split it, of another operand by its rows. */
static tri_status check_part(const checker *c, const tri_instr *instr) {
    const tri_rows *rows = &c->program->slot[instr->slot[0]].rows;
    if (instr->attr.part >= 0 && instr->attr.part < (rows->div ? rows->div : 1)) return TRI_OK;
    return defect(c, "%s is a run of rows that does not exist%s", c->program->slot[instr->slot[0]].name, "");
}

static tri_status check_instr(checker *c, const tri_instr *instr) {
    const tri_program *p = c->program;
    if (instr->op >= TRI_OP_COUNT) return defect(c, "no such operation%s%s", "", "");
    if (instr->mb >= p->n_mb) return defect(c, "no such microbatch%s%s", "", "");
    if (tri__op_is_lowered(instr->op)) return defect(c, "the operation must be lowered before it can run%s%s", "", "");
    const tri_op_row *row = tri__op_row(instr->op);
    for (int k = 0; k < row->n_args; k++) TRI_TRY(check_operand(c, &row->arg[k], instr->slot[k]));
    TRI_TRY(check_computing_type(c, instr));

    /* Distinct counts, so that no two dims are equal by accident. */
    const tri_counts probe = {.of = {0, 100003, 200017, 301}};
    tri_dims dims;
    if (tri__instr_dims(p, instr, &probe, &dims) != TRI_OK) return defect(c, "%s%s", tri_error(), "");

    if (instr->op == TRI_OP_input || instr->op == TRI_OP_tokens_whole_din) TRI_TRY(check_part(c, instr));
    if (tri__ends(instr->op)) return check_wait(c, instr);
    if (tri__is_post(instr->op)) TRI_TRY(check_post(c, instr));
    if (instr->op == TRI_OP_copy_post) TRI_TRY(check_copy(c, instr));

    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0) continue;
        TRI_TRY(check_idle(c, instr->slot[k]));
        int adds = instr->acc >> k & 1;
        if (adds && row->arg[k].access != TRI_ACCESS_A)
            return defect(c, "operand %s cannot be added to%s", row->arg[k].name, "");
        if (adds && c->root[c->root_of[instr->slot[k]]].is_read)
            return defect(c, "%s is added to after it was read%s", p->slot[instr->slot[k]].name, "");
        if (adds || tri__access_reads(row->arg[k].access)) TRI_TRY(check_read(c, instr->slot[k]));
        if (tri__access_writes(row->arg[k].access)) TRI_TRY(check_apart(c, instr, k));
    }
    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0) continue;
        c->root[c->root_of[instr->slot[k]]].is_read = !tri__access_writes(row->arg[k].access);
        if (tri__access_writes(row->arg[k].access)) write_slot(c, instr->slot[k]);
    }
    if (tri__begins(instr->op))
        *TRI_PUSH(c->arena, c->flight, c->n_flights, c->cap_flights) =
            (flight){tri__transfer_ends(instr), c->line, instr->op == TRI_OP_copy_post};
    return TRI_OK;
}

/* The bytes that a slot has in any of the members: the union. */
static tri_slot_bytes bytes_of(const checker *c, int slot) {
    const root *r = &c->root[c->root_of[slot]];
    const range *at = &c->range[slot];
    int64_t each = (int64_t)tri__dtype_bytes(c->program->slot[slot].dtype), last = c->of.n - 1,
            moved = at->begin.each * last;
    return (tri_slot_bytes){r->mem, r->begin + (at->begin.at + (moved < 0 ? moved : 0)) * each,
                            r->begin + (at->end.at + (moved > 0 ? moved : 0)) * each};
}

/* Accesses of two lanes to the same bytes are ordered. Members whose bytes differ are first checked by the union of
 * their bytes; where that fails, they are proven in parts. */
static tri_status check_order(checker *c) {
    const tri_program *p = c->program;
    tri_slot_bytes *of = tri__arena_alloc(c->arena, (size_t)p->n_slots * sizeof *of);
    char line[32] = "";
    int other = -1;
    for (int s = 0; s < p->n_slots; s++) of[s] = bytes_of(c, s);
    const char *fault = tri__lane_order_fault(c->arena, p, of, c->post, &c->line, &other);
    if (!fault) return TRI_OK;
    if (other >= 0 && c->of.n > 1 && c->class->n_shifts) c->varies = 1;
    if (other >= 0) snprintf(line, sizeof line, "instruction %d", other);
    return defect(c, fault, line, "");
}

static int outlives_step(tri_mem mem) {
    return mem == TRI_MEM_PARAM || mem == TRI_MEM_STATE || mem == TRI_MEM_RESULT || mem == TRI_MEM_HOST;
}

static tri_status check_end(checker *c) {
    const tri_program *p = c->program;
    for (int s = c->slot = 0; s < p->n_slots; c->slot = ++s)
        if (p->slot[s].parent < 0 && outlives_step(p->slot[s].mem) && c->root[s].taken_by >= 0)
            return defect(c, "%s outlives the step, but its memory went to %s", p->slot[s].name,
                          p->slot[c->root[s].taken_by].name);
    if (!c->n_flights) return TRI_OK;
    c->line = c->flight[0].line;
    return defect(c, "the transfer is never waited for%s%s", "", "");
}

/* A view is inside its parent and in the parent's class. */
static tri_status check_view(checker *c, int s) {
    const tri_program *p = c->program;
    const tri_slot *slot = &p->slot[s], *parent = &p->slot[slot->parent];
    number begin = c->range[s].begin; /* its shift, set by open_slots */
    int64_t count = tri__slot_rows(slot, &p->max) * slot->cols, room = tri__slot_rows(parent, &p->max) * parent->cols;
    begin.at += slot->parent_at;
    if (compare(c, begin, fixed(0)) < 0 || compare(c, sum_of(begin, fixed(count)), fixed(room)) > 0 ||
        slot->mem != parent->mem || slot->dtype != parent->dtype)
        return defect(c, "view %s is not inside %s", slot->name, parent->name);
    begin = sum_of(begin, c->range[slot->parent].begin);
    c->range[s] = (range){begin, sum_of(begin, fixed(tri__slot_rows(slot, &p->max) * slot->cols))};
    c->root_of[s] = c->root_of[slot->parent];
    return TRI_OK;
}

static tri_status check_slots(checker *c) {
    const tri_program *p = c->program;
    for (int s = c->slot = 0; s < p->n_slots; c->slot = ++s) {
        const tri_slot *slot = &p->slot[s];
        if (slot->rows.div && p->max.of[slot->rows.sym] % slot->rows.div)
            return defect(c, "the rows of %s are not split evenly%s", slot->name, "");
        if (slot->parent >= s) return defect(c, "view %s names a later slot%s", slot->name, "");
        if (slot->parent >= 0) {
            TRI_TRY(check_view(c, s));
            continue;
        }
        int64_t bytes = tri__slot_bytes(slot, &p->max);
        if (slot->offset < 0) return defect(c, "%s has no offset yet%s", slot->name, "");
        if (slot->offset + bytes > p->bytes[slot->mem])
            return defect(c, "%s is outside the memory of class %s", slot->name, tri__mem_name(slot->mem));
        c->root_of[s] = s;
        c->range[s].end = fixed(tri__slot_rows(slot, &p->max) * slot->cols);
        c->root[s] = (root){.taken_by = -1, .mem = slot->mem, .begin = slot->offset, .end = slot->offset + bytes};
    }
    return TRI_OK;
}

/* Allocates the state of slots, and applies the shifts of the class. */
static tri_status open_slots(checker *c) {
    const tri_program *p = c->program;
    size_t n = (size_t)p->n_slots;
    c->root = tri__arena_alloc(c->arena, n * sizeof *c->root);
    c->root_of = tri__arena_alloc(c->arena, n * sizeof *c->root_of);
    c->range = tri__arena_alloc(c->arena, n * sizeof *c->range);
    c->post = tri__arena_alloc(c->arena, (size_t)p->n_instrs * sizeof *c->post);
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) c->live[mem] = tri__arena_alloc(c->arena, n * sizeof(int));
    for (int i = 0; c->class && i < c->class->n_shifts; i++) {
        const tri_shift *shift = &c->class->shift[i];
        if (shift->slot < 0 || shift->slot >= p->n_slots || p->slot[shift->slot].parent < 0)
            return defect(c, "what moves from member to member of a class is not a view%s%s", "", "");
        c->range[shift->slot].begin = (number){shift->each * c->of.first, shift->each, 0};
    }
    return TRI_OK;
}

static tri_status check_program(checker *c) {
    const tri_program *p = c->program;
    c->line = p->n_instrs;
    TRI_TRY(open_slots(c));
    TRI_TRY(check_slots(c));
    for (int s = 0; s < p->n_slots; s++) /* weights and optimizer state hold values from the step before */
        if (p->slot[s].parent < 0 && (p->slot[s].mem == TRI_MEM_PARAM || p->slot[s].mem == TRI_MEM_STATE))
            write_slot(c, s);
    for (c->line = 0; c->line < p->n_instrs; c->line++) TRI_TRY(check_instr(c, &p->instr[c->line]));
    TRI_TRY(check_end(c));
    return check_order(c);
}

/* Each program alone; members in two parts where a comparison varies. */
static tri_status check_members(tri_arena *arena, const tri_class *class, members of, const tri_origin *origin) {
    checker c = {.program = class->program, .class = class, .of = of, .arena = arena, .origin = origin};
    tri_status status = check_program(&c);
    tri__arena_rewind(arena, 0);
    if (!c.varies) return status;
    members half = of, rest = of;
    if (of.n > 1) half.n /= 2, rest.first += half.n, rest.n -= half.n;
    else half.copies /= 2, rest.copy += half.copies, rest.copies -= half.copies;
    TRI_TRY(check_members(arena, class, half, origin));
    return check_members(arena, class, rest, origin);
}

static tri_status check_microbatches(const tri_classes *r) {
    const tri_program *first = r->at[0].program;
    for (int i = 1; i < r->n; i++)
        if (r->at[i].program->n_mb != first->n_mb)
            return tri__fail(TRI_INTERNAL, "ranks %d and %d plan %d and %d microbatches", first->rank,
                             r->at[i].program->rank, first->n_mb, r->at[i].program->n_mb);
    return TRI_OK;
}

typedef struct each_job {
    const tri_classes *ranks;
    const tri_origin *origin;
} each_job;

static tri_status check_each(tri_arena *arena, void *data) {
    const each_job *job = data;
    const tri_classes *r = job->ranks;
    TRI_TRY(tri__classes_check(r));
    TRI_TRY(check_microbatches(r));
    for (int i = 0; i < r->n; i++)
        TRI_TRY(check_members(arena, &r->at[i],
                              (members){.n = r->at[i].n, .copies = r->mesh.dp / r->period, .period = r->period},
                              job->origin));
    return TRI_OK;
}

tri_status tri__check_read(const tri_classes *ranks, const tri_origin *origin) {
    each_job job = {ranks, origin};
    TRI_TRY(tri__arena_scratch(check_each, &job));
    return ranks->world > 1 ? tri__check_together(ranks, origin) : TRI_OK;
}

tri_status tri__check_all(const tri_classes *ranks) { return tri__check_read(ranks, NULL); }

/* Checks each of some programs alone; fails at the first defect. */
static tri_status check_alone(tri_arena *arena, const tri_program *const *programs, int n) {
    for (int i = 0; i < n; i++) {
        checker one = {.program = programs[i], .of = {.n = 1, .copies = 1}, .arena = arena};
        TRI_TRY(check_program(&one));
        tri__arena_rewind(arena, 0);
    }
    return TRI_OK;
}

typedef struct listed {
    const tri_program *const *programs; /* [n] */
    int n;
} listed;

static tri_status check_listed(tri_arena *arena, void *data) {
    const listed *l = data;
    tri_classes ranks;
    TRI_TRY(check_alone(arena, l->programs, l->n));
    if (l->n == 1) return TRI_OK;
    TRI_TRY(tri__classes_list(&ranks, arena, l->programs, l->n));
    TRI_TRY(check_microbatches(&ranks));
    return tri__check_together(&ranks, NULL);
}

tri_status tri__check(const tri_program *const *programs, int n) {
    listed l = {programs, n};
    return tri__arena_scratch(check_listed, &l);
}
