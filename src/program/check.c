/* check.c - proves that a program can run: operands fit their operation's row, nothing is read before it is written or
 * after its memory went to another slot, no sum is read before it is complete, no instruction's output lies on another of
 * its operands, all slots lie inside their class's allocation, what outlives the step is not overwritten, and from a
 * transfer's post to its wait nothing else touches its slots.
 *
 * The proof is a dry run that tracks, for each slot that owns memory (a root), which of its elements hold a value.
 * Writing a root takes the value from every root that shares bytes with it. Sizes are those of the largest microbatch.
 * How the programs of several ranks fit together: check_ranks.c. */
#include "program/check.h"
#include "program/transfer.h"

#include <stdio.h>
#include <string.h>

typedef tri_range range; /* of a root's elements */

typedef struct root {
    range *known;      /* hold a value; sorted, apart */
    int n;
    int taken_by;      /* the slot whose writing took this root's memory; -1 */
    int is_read;       /* since it was written: its sum is complete */
    int is_live;       /* it is among the live ones */
    int64_t begin, end; /* bytes of its class */
} root;

/* A transfer, or a copy between memories, that was posted and not yet waited for. */
typedef struct flight {
    tri_ends ends;
    int line, copies; /* copies 1: between memories */
} flight;

typedef struct checker {
    const tri_program *program;
    tri_arena *arena;
    root *root;        /* [n_slots], used for roots */
    int *live[TRI_MEM_COUNT]; /* roots of each class that hold a value and have any bytes, by offset: no two share bytes */
    int n_live[TRI_MEM_COUNT];
    flight *flight;
    int n_flights, cap_flights;
    int line;
} checker;

enum { MOST_RANKS = 1 << 20 }; /* of a mesh: groups of that many are counted, not listed, here */

static tri_status defect(const checker *c, const char *format, const char *a, const char *b) {
    char what[256];
    snprintf(what, sizeof what, format, a, b);
    const tri_program *p = c->program;
    return tri__fail(TRI_INTERNAL, "the plan of rank %d is broken at instruction %d (%s): %s", p->rank, c->line,
                     c->line < p->n_instrs ? tri__op_row(p->instr[c->line].op)->name : "end", what);
}

static range slot_range(const tri_program *program, int slot) {
    int64_t begin = tri__slot_begin(program, slot), count = tri__slot_rows(&program->slot[slot], &program->max) * program->slot[slot].cols;
    return (range){begin, begin + count};
}

/* Adds a range to what a root is known to hold, merging what it touches. */
static void know(checker *c, root *r, range add) {
    int i = 0, n = 0;
    range *merged = tri__arena_alloc(c->arena, (size_t)(r->n + 1) * sizeof *merged);
    for (; i < r->n && r->known[i].end < add.begin; i++) merged[n++] = r->known[i];
    for (; i < r->n && r->known[i].begin <= add.end; i++) {
        if (r->known[i].begin < add.begin) add.begin = r->known[i].begin;
        if (r->known[i].end > add.end) add.end = r->known[i].end;
    }
    merged[n++] = add;
    for (; i < r->n; i++) merged[n++] = r->known[i];
    r->known = merged;
    r->n = n;
}

static int knows(const root *r, range want) {
    if (want.begin == want.end) return r->n > 0;
    for (int i = 0; i < r->n; i++)
        if (r->known[i].begin <= want.begin && want.end <= r->known[i].end) return 1;
    return 0;
}

static int share_bytes(const tri_program *program, int a, int b) {
    const tri_slot *x = &program->slot[a], *y = &program->slot[b];
    if (x->mem != y->mem) return 0;
    int64_t x_end = x->offset + tri__slot_bytes(x, &program->max), y_end = y->offset + tri__slot_bytes(y, &program->max);
    return x->offset < y_end && y->offset < x_end;
}

static int overlap(const tri_program *program, int a, int b) {
    int x = tri__slot_root(program, a), y = tri__slot_root(program, b);
    if (x != y) return share_bytes(program, x, y);
    range p = slot_range(program, a), q = slot_range(program, b);
    return p.begin < q.end && q.begin < p.end;
}

/* A transfer under way has its slots to itself. */
static tri_status check_idle(checker *c, int slot) {
    const tri_program *p = c->program;
    for (int i = 0; i < c->n_flights; i++) {
        const int ends[2] = {c->flight[i].ends.y, c->flight[i].ends.x};
        for (int k = 0; k < 2; k++) {
            if (ends[k] < 0 || !overlap(p, slot, ends[k])) continue;
            char line[32];
            snprintf(line, sizeof line, "instruction %d", c->flight[i].line);
            return defect(c, "%s is used before the transfer posted at %s has ended", p->slot[slot].name, line);
        }
    }
    return TRI_OK;
}

static tri_status check_read(checker *c, int slot) {
    const tri_program *p = c->program;
    int at = tri__slot_root(p, slot);
    if (knows(&c->root[at], slot_range(p, slot))) return TRI_OK;
    if (c->root[at].taken_by >= 0)
        return defect(c, "%s is read after its memory went to %s", p->slot[slot].name, p->slot[c->root[at].taken_by].name);
    return defect(c, "%s is read before it is written%s", p->slot[slot].name, "");
}

/* A root comes to life by the writing of `slot`: those that it shares bytes with lose their values. */
static void take_memory(checker *c, int at, int slot) {
    tri_mem mem = c->program->slot[at].mem;
    root *own = &c->root[at];
    int first = 0, last, n = c->n_live[mem], *live = c->live[mem];
    own->is_live = 1, own->taken_by = -1;
    if (own->begin == own->end) return;
    for (int step = n; step > 0;) { /* the first that ends behind the beginning */
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
    const tri_program *p = c->program;
    int at = tri__slot_root(p, slot);
    if (!c->root[at].is_live) take_memory(c, at, slot);
    know(c, &c->root[at], slot_range(p, slot));
}

/* Whether a transfer's smaller end is this rank's own part of the larger one, as gathers and scatters in place have it. */
static int is_own_part(const tri_program *p, const tri_instr *instr) {
    if (!tri__is_post(instr->op)) return 0;
    tri_ends ends = tri__transfer_ends(instr);
    int whole = tri__transfer_whole(instr), part = whole == ends.y ? ends.x : ends.y;
    range outer = slot_range(p, whole), inner = slot_range(p, part), shard = {0, outer.end - outer.begin};
    if (tri__slot_root(p, whole) != tri__slot_root(p, part)) return 0;
    if (p->slot[whole].rows.sym != TRI_SYM_NONE) return 0;
    if (instr->op != TRI_OP_broadcast_post)
        shard = tri__shard(shard.end, tri__transfer_size(&p->mesh, &instr->attr), tri__transfer_place(&p->mesh, p->rank, &instr->attr));
    return inner.begin == outer.begin + shard.begin && inner.end == outer.begin + shard.end;
}

/* Whether a slot has the size of place `place`'s share of another, among n: a shard of one row, or an equal run of counted rows. */
static int is_share(const tri_slot *whole, const tri_slot *part, int n, int place) {
    range shard = tri__shard(whole->cols, n, place);
    if (whole->rows.sym == TRI_SYM_NONE)
        return whole->rows.add == 1 && part->rows.add == 1 && part->rows.sym == TRI_SYM_NONE && part->cols == shard.end - shard.begin;
    return part->rows.sym == whole->rows.sym && part->rows.div == n && !whole->rows.div && !part->rows.add && !whole->rows.add &&
           part->cols == whole->cols;
}

/* The group is there, and each end has the size that this rank's place in it gives. */
static tri_status check_post(checker *c, const tri_instr *instr) {
    const tri_program *p = c->program;
    const tri_attr *attr = &instr->attr;
    const tri_mesh *m = &p->mesh;
    if (m->pp < 1 || m->tp < 1 || m->dp < 1 || (double)m->pp * m->tp * m->dp > MOST_RANKS || p->rank >= tri__mesh_world(m))
        return defect(c, "the mesh has no such rank%s%s", "", "");
    int n = tri__transfer_size(m, attr);
    if (n == 0) return defect(c, "the attributes name no group of ranks%s%s", "", "");
    if (attr->root < 0 || attr->root >= n) return defect(c, "the group has no such place as root%s%s", "", "");
    int place = tri__transfer_place(m, p->rank, attr);
    tri_ends ends = tri__transfer_ends(instr);
    if ((instr->op == TRI_OP_send_post || instr->op == TRI_OP_recv_post) && place == attr->root)
        return defect(c, "a rank sends %s to itself%s", p->slot[tri__transfer_whole(instr)].name, "");
    if (instr->op == TRI_OP_broadcast_post && (ends.x >= 0) != (place == attr->root))
        return defect(c, "%s is given on another rank than the root%s", "x", "");
    if (ends.x >= 0 && ends.y >= 0 && p->slot[ends.x].dtype != p->slot[ends.y].dtype)
        return defect(c, "%s and %s differ in element type", p->slot[ends.y].name, p->slot[ends.x].name);
    if (instr->op != TRI_OP_all_gather_post && instr->op != TRI_OP_reduce_scatter_post) return TRI_OK;
    int whole = tri__transfer_whole(instr), part = whole == ends.y ? ends.x : ends.y;
    if (!is_share(&p->slot[whole], &p->slot[part], n, place))
        return defect(c, "%s is not this rank's shard of %s in size", p->slot[part].name, p->slot[whole].name);
    return TRI_OK;
}

/* From one memory to the other, of the same type. */
static tri_status check_copy(checker *c, const tri_instr *instr) {
    tri_ends ends = tri__transfer_ends(instr);
    const tri_slot *y = &c->program->slot[ends.y], *x = &c->program->slot[ends.x];
    if ((c->program->second >> y->mem & 1) == (c->program->second >> x->mem & 1))
        return defect(c, "%s and %s lie in the same memory", y->name, x->name);
    return y->dtype == x->dtype ? TRI_OK : defect(c, "%s and %s differ in element type", y->name, x->name);
}

static tri_status check_wait(checker *c, const tri_instr *instr) {
    tri_ends ends = tri__transfer_ends(instr);
    for (int i = 0; i < c->n_flights; i++) {
        if (c->flight[i].ends.y != ends.y || c->flight[i].ends.x != ends.x || c->flight[i].copies != (instr->op == TRI_OP_copy_wait)) continue;
        c->flight[i] = c->flight[--c->n_flights];
        return TRI_OK;
    }
    return defect(c, "no transfer of these slots is under way%s%s", "", "");
}

/* An output must share no bytes with another operand, unless both are apart inside one root. */
static tri_status check_apart(checker *c, const tri_instr *instr, int output) {
    const tri_program *p = c->program;
    const tri_op_row *row = tri__op_row(instr->op);
    for (int k = 0; k < row->n_args; k++)
        if (k != output && instr->slot[k] >= 0 && overlap(p, instr->slot[output], instr->slot[k]) && !is_own_part(p, instr))
            return defect(c, "%s lies on %s", p->slot[instr->slot[output]].name, p->slot[instr->slot[k]].name);
    return TRI_OK;
}

static tri_status check_operand(checker *c, const tri_operand *operand, int slot) {
    const tri_program *p = c->program;
    if (slot >= p->n_slots) return defect(c, "operand %s names no slot%s", operand->name, "");
    if (slot < 0) return operand->optional ? TRI_OK : defect(c, "operand %s is left out%s", operand->name, "");
    tri_dtype dtype = p->slot[slot].dtype;
    int computes = operand->dtype == TRI_DTYPE_COMPUTE ||
                   (operand->dtype == TRI_DTYPE_ANY && tri__op_queue(p->instr[c->line].op) == TRI_QUEUE_COMPUTE);
    if (computes ? dtype != TRI_F32 && dtype != TRI_BF16 && dtype != TRI_F16 : operand->dtype >= 0 && dtype != (tri_dtype)operand->dtype)
        return defect(c, "%s has the wrong element type for operand %s", p->slot[slot].name, operand->name);
    return TRI_OK;
}

/* Operands of the computing type are all of one. */
static tri_status check_computing_type(const checker *c, const tri_instr *instr) {
    const tri_op_row *row = tri__op_row(instr->op);
    const tri_slot *first = NULL;
    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0 || row->arg[k].dtype != TRI_DTYPE_COMPUTE) continue;
        const tri_slot *slot = &c->program->slot[instr->slot[k]];
        if (!first) first = slot;
        if (slot->dtype != first->dtype) return defect(c, "%s and %s have different element types", first->name, slot->name);
    }
    return TRI_OK;
}

/* A run of rows that is there: of a field by the ranks that share it out, of another operand by its rows. */
static tri_status check_part(const checker *c, const tri_instr *instr) {
    const tri_rows *rows = &c->program->slot[instr->slot[0]].rows;
    if (instr->attr.part >= 0 && instr->attr.part < (rows->div ? rows->div : 1)) return TRI_OK;
    return defect(c, "%s is a part of rows that are not there%s", c->program->slot[instr->slot[0]].name, "");
}

static tri_status check_instr(checker *c, const tri_instr *instr) {
    const tri_program *p = c->program;
    if (instr->op >= TRI_OP_COUNT) return defect(c, "no such operation%s%s", "", "");
    if (instr->mb >= p->n_mb) return defect(c, "no such microbatch%s%s", "", "");
    if (tri__op_is_lowered(instr->op)) return defect(c, "the operation stands in plans only%s%s", "", "");
    const tri_op_row *row = tri__op_row(instr->op);
    for (int k = 0; k < row->n_args; k++) TRI_TRY(check_operand(c, &row->arg[k], instr->slot[k]));
    TRI_TRY(check_computing_type(c, instr));

    /* Counts that no two dims share by accident. */
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
        if (adds && row->arg[k].access != TRI_ACCESS_A) return defect(c, "operand %s cannot be added to%s", row->arg[k].name, "");
        if (adds && c->root[tri__slot_root(p, instr->slot[k])].is_read)
            return defect(c, "%s is added to after it was read%s", p->slot[instr->slot[k]].name, "");
        if (adds || tri__access_reads(row->arg[k].access)) TRI_TRY(check_read(c, instr->slot[k]));
        if (tri__access_writes(row->arg[k].access)) TRI_TRY(check_apart(c, instr, k));
    }
    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0) continue;
        c->root[tri__slot_root(p, instr->slot[k])].is_read = !tri__access_writes(row->arg[k].access);
        if (tri__access_writes(row->arg[k].access)) write_slot(c, instr->slot[k]);
    }
    if (tri__begins(instr->op))
        *TRI_PUSH(c->arena, c->flight, c->n_flights, c->cap_flights) =
            (flight){tri__transfer_ends(instr), c->line, instr->op == TRI_OP_copy_post};
    return TRI_OK;
}

static int outlives_step(tri_mem mem) { return mem == TRI_MEM_PARAM || mem == TRI_MEM_STATE || mem == TRI_MEM_RESULT; }

static tri_status check_end(checker *c) {
    const tri_program *p = c->program;
    for (int s = 0; s < p->n_slots; s++)
        if (p->slot[s].parent < 0 && outlives_step(p->slot[s].mem) && c->root[s].taken_by >= 0)
            return defect(c, "%s outlives the step, but its memory went to %s", p->slot[s].name, p->slot[c->root[s].taken_by].name);
    if (!c->n_flights) return TRI_OK;
    c->line = c->flight[0].line;
    return defect(c, "the transfer is never waited for%s%s", "", "");
}

static tri_status check_slots(checker *c) {
    const tri_program *p = c->program;
    for (int s = 0; s < p->n_slots; s++) {
        const tri_slot *slot = &p->slot[s];
        if (slot->rows.div && p->max.of[slot->rows.sym] % slot->rows.div)
            return defect(c, "the rows of %s are not shared out evenly%s", slot->name, "");
        if (slot->parent >= s) return defect(c, "view %s names a later slot%s", slot->name, "");
        if (slot->parent >= 0) {
            const tri_slot *parent = &p->slot[slot->parent];
            int64_t room = tri__slot_rows(parent, &p->max) * parent->cols, need = slot->parent_at + slot->rows.add * slot->cols;
            if (slot->parent_at < 0 || need > room || slot->mem != parent->mem || slot->dtype != parent->dtype)
                return defect(c, "view %s leaves %s", slot->name, parent->name);
            continue;
        }
        if (slot->offset < 0 || slot->offset + tri__slot_bytes(slot, &p->max) > p->bytes[slot->mem])
            return defect(c, "%s leaves the memory of class %s", slot->name, tri__mem_name(slot->mem));
        c->root[s] = (root){.taken_by = -1, .begin = slot->offset, .end = slot->offset + tri__slot_bytes(slot, &p->max)};
    }
    return TRI_OK;
}

static tri_status check_program(checker *c) {
    const tri_program *p = c->program;
    c->root = tri__arena_alloc(c->arena, (size_t)p->n_slots * sizeof *c->root);
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) c->live[mem] = tri__arena_alloc(c->arena, (size_t)p->n_slots * sizeof(int));
    c->line = p->n_instrs;
    TRI_TRY(check_slots(c));
    for (int s = 0; s < p->n_slots; s++) /* weights and optimizer state outlive steps */
        if (p->slot[s].parent < 0 && (p->slot[s].mem == TRI_MEM_PARAM || p->slot[s].mem == TRI_MEM_STATE)) write_slot(c, s);
    for (c->line = 0; c->line < p->n_instrs; c->line++) TRI_TRY(check_instr(c, &p->instr[c->line]));
    return check_end(c);
}

typedef struct all_ranks {
    const tri_program *const *program; /* [n] */
    int n;
} all_ranks;

/* Each program by itself. */
static tri_status check_each(tri_arena *arena, void *data) {
    const tri_program *const *programs = ((const all_ranks *)data)->program;
    for (int i = 0; i < ((const all_ranks *)data)->n; i++) {
        if (programs[i]->n_mb != programs[0]->n_mb)
            return tri__fail(TRI_INTERNAL, "ranks %d and %d plan %d and %d microbatches", programs[0]->rank, programs[i]->rank,
                             programs[0]->n_mb, programs[i]->n_mb);
        checker c = {.program = programs[i], .arena = arena};
        TRI_TRY(check_program(&c));
        tri__arena_rewind(arena, 0);
    }
    return TRI_OK;
}

tri_status tri__check(const tri_program *const *programs, int n) {
    all_ranks all = {programs, n};
    TRI_TRY(tri__arena_scratch(check_each, &all));
    return n > 1 ? tri__check_ranks(programs, n) : TRI_OK;
}
