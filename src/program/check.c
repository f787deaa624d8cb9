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
 * Where steps are of several kinds (gates), each kind has its dry run: what only another kind writes holds no value.
 * Where steps leave layers out, the dry runs are those with all layers open, with all closed, and with each closed
 * alone: a layer hands on its output and the gradient of its input only, which it writes whether open or closed, so
 * layers that close together leave behind what each leaves alone (check_layers.c).
 *
 * Replicated state (the class kept): a rank overwrites the older of its two copies only after all ranks have completed
 * the newer one. The control of a step tells it: no copy is in flight when it is posted, and none is posted before its
 * wait.
 *
 * How the programs of several ranks fit together: check_ranks.c. */
#include "program/check_parts.h"

#include "program/lane_order.h"

/* The rank of a member (0: the first) of one of the runs. */
int tri__check_rank(const tri_checker *c, int member, int copy) {
    const tri_program *p = c->program;
    if (!c->of.period) return p->rank;
    tri_coords at = tri__mesh_coords(&p->mesh, p->rank);
    at.dp += c->of.first + member + (c->of.copy + copy) * c->of.period;
    return tri__mesh_rank(&p->mesh, at);
}

/* The kind of the step that runs dry and its closed layers, for messages; nothing where all steps are the same. */
static void describe_step(const tri_checker *c, char *text, size_t size) {
    const tri_program *p = c->program;
    int closed = 0, last = 0;
    size_t used = 0;
    for (int gate = 0; gate < TRI_GATE_COUNT; gate++)
        if (c->now.kind >> gate & 1)
            used = (size_t)snprintf(text, size, ", in a step of kind %s", tri__gate_name((tri_gate)gate));
    for (int k = 0; k < p->n_layers; k++)
        if (!tri__layer_is_open(&c->now, k)) closed++, last = k;
    if (closed && used < size)
        snprintf(text + used, size - used, ", with %s closed", closed == 1 ? p->layer[last].name : "all layers");
}

tri_status tri__defect(const tri_checker *c, const char *format, ...) {
    char what[256];
    const tri_program *p = c->program;
    size_t used = (size_t)TRI_FORMAT(what, sizeof what, format);
    if (used < sizeof what) describe_step(c, what + used, sizeof what - used);
    if (c->origin) {
        char at[TRI_ORIGIN_TEXT];
        int ended = c->line >= p->n_instrs;
        c->origin->at(c->origin->data, tri__check_rank(c, 0, 0), ended ? -1 : c->line, ended ? c->slot : -1, at);
        return tri__fail(TRI_DATA, "%s: %s%s%s", at, ended ? "" : tri__instr_row(&p->instr[c->line])->name,
                         ended ? "" : ": ", what);
    }
    return tri__fail(TRI_INTERNAL, "the plan of rank %d is broken at instruction %d (%s): %s", tri__check_rank(c, 0, 0),
                     c->line, c->line < p->n_instrs ? tri__instr_row(&p->instr[c->line])->name : "end", what);
}

static int sign_of(int64_t value) { return (value > 0) - (value < 0); }

/* -1, 0, 1: a < b, a = b, a > b. */
int tri__check_compare(tri_checker *c, tri_linear a, tri_linear b) {
    int64_t first = a.at - b.at, sign = sign_of(first);
    if (a.each == b.each && a.run == b.run) return (int)sign;
    int64_t last = (a.each - b.each) * (c->of.n - 1), last_run = (a.run - b.run) * (c->of.copies - 1);
    if (sign != sign_of(first + last) || sign != sign_of(first + last_run) || sign != sign_of(first + last + last_run))
        c->varies = 1;
    return (int)sign;
}

/* Adds a range to those that hold a value, merging ranges that touch. */
static void know(tri_checker *c, tri_check_root *r, tri_linear_range add) {
    int i = 0, n = 0;
    tri_linear_range *merged = tri__arena_alloc(c->arena, (size_t)(r->n + 1) * sizeof *merged);
    for (; i < r->n && tri__check_compare(c, r->known[i].end, add.begin) < 0; i++) merged[n++] = r->known[i];
    for (; i < r->n && tri__check_compare(c, r->known[i].begin, add.end) <= 0; i++) {
        if (tri__check_compare(c, r->known[i].begin, add.begin) < 0) add.begin = r->known[i].begin;
        if (tri__check_compare(c, r->known[i].end, add.end) > 0) add.end = r->known[i].end;
    }
    merged[n++] = add;
    for (; i < r->n; i++) merged[n++] = r->known[i];
    r->known = merged;
    r->n = n;
}

/* A slot without elements, of a rank that has no part of a unit, touches nothing, wherever in its root it is. */
static int is_empty(tri_checker *c, int slot) {
    return tri__check_compare(c, c->range[slot].begin, c->range[slot].end) == 0;
}

static int knows(tri_checker *c, const tri_check_root *r, tri_linear_range want) {
    for (int i = 0; i < r->n; i++)
        if (tri__check_compare(c, r->known[i].begin, want.begin) <= 0 &&
            tri__check_compare(c, want.end, r->known[i].end) <= 0)
            return 1;
    return 0;
}

static int overlap(tri_checker *c, int a, int b) {
    const tri_check_root *p = &c->root[c->root_of[a]], *q = &c->root[c->root_of[b]];
    if (is_empty(c, a) || is_empty(c, b)) return 0;
    if (p != q) return p->mem == q->mem && p->begin < q->end && q->begin < p->end;
    return tri__check_compare(c, c->range[a].begin, c->range[b].end) < 0 &&
           tri__check_compare(c, c->range[b].begin, c->range[a].end) < 0;
}

/* Nothing else may touch the slots of a transfer in flight; but what is being sent or copied may be read. */
static tri_status check_idle(tri_checker *c, int slot, int reads) {
    const tri_program *p = c->program;
    for (int i = 0; i < c->n_flights; i++) {
        const int ends[2] = {c->flight[i].ends.y, c->flight[i].ends.x};
        for (int k = 0; k < 2; k++) {
            if (ends[k] < 0 || !overlap(c, slot, ends[k])) continue;
            int leaves = c->flight[i].copies || p->instr[c->flight[i].line].op == TRI_OP_send_post;
            if (reads && leaves && k == 1) continue;
            char line[32];
            snprintf(line, sizeof line, "instruction %d", c->flight[i].line);
            return tri__defect(c, "%s is used before the transfer posted at %s has ended", p->slot[slot].name, line);
        }
    }
    return TRI_OK;
}

static tri_status check_read(tri_checker *c, int slot) {
    const tri_program *p = c->program;
    int at = c->root_of[slot];
    if (is_empty(c, slot) || knows(c, &c->root[at], c->range[slot])) return TRI_OK;
    if (c->root[at].taken_by >= 0)
        return tri__defect(c, "%s is read after its memory went to %s", p->slot[slot].name,
                      p->slot[c->root[at].taken_by].name);
    return tri__defect(c, "%s is read before it is written", p->slot[slot].name);
}

/* Writing `slot` makes its root live: live roots that overlap it lose their values. */
static void take_memory(tri_checker *c, int at, int slot) {
    tri_mem mem = c->program->slot[at].mem;
    tri_check_root *own = &c->root[at];
    int first = 0, last, n = c->n_live[mem], *live = c->live[mem];
    own->is_live = 1, own->taken_by = -1;
    if (own->begin == own->end) return;
    for (int step = n; step > 0;) { /* the first that ends after its begin */
        int half = step / 2;
        if (c->root[live[first + half]].end > own->begin) step = half;
        else first += half + 1, step -= half + 1;
    }
    for (last = first; last < n && c->root[live[last]].begin < own->end; last++) {
        tri_check_root *other = &c->root[live[last]];
        other->n = other->is_live = 0;
        other->taken_by = slot;
    }
    memmove(live + first + 1, live + last, (size_t)(n - last) * sizeof *live);
    live[first] = at;
    c->n_live[mem] = n + 1 - (last - first);
}

static void write_slot(tri_checker *c, int slot) {
    int at = c->root_of[slot];
    if (is_empty(c, slot)) return;
    if (!c->root[at].is_live) take_memory(c, at, slot);
    if (!knows(c, &c->root[at], c->range[slot])) know(c, &c->root[at], c->range[slot]);
}

/* An output must not overlap another operand; disjoint ranges of one root are allowed. */
static tri_status check_apart(tri_checker *c, const tri_instr *instr, int output) {
    const tri_program *p = c->program;
    const tri_op_row *row = tri__instr_row(instr);
    for (int k = 0; k < row->n_args; k++)
        if (k != output && instr->slot[k] >= 0 && overlap(c, instr->slot[output], instr->slot[k]) &&
            !tri__check_own_part(c, instr))
            return tri__defect(c, "%s overlaps %s", p->slot[instr->slot[output]].name, p->slot[instr->slot[k]].name);
    return TRI_OK;
}

/* Whether an element type suits an operand. `computes`: that of an operation that kernels run. */
static int suits(const tri_operand *operand, tri_dtype dtype, int computes) {
    if (operand->dtype >= 0) return dtype == (tri_dtype)operand->dtype;
    if (operand->dtype == TRI_DTYPE_F8) return dtype == TRI_F8_E4M3 || dtype == TRI_F8_E5M2;
    return (operand->dtype == TRI_DTYPE_ANY && !computes) || dtype == TRI_F32 || dtype == TRI_BF16 || dtype == TRI_F16;
}

static tri_status check_operand(tri_checker *c, const tri_operand *operand, int slot) {
    const tri_program *p = c->program;
    if (slot >= p->n_slots) return tri__defect(c, "operand %s is not a slot", operand->name);
    if (slot >= 0 && !operand->access)
        return tri__defect(c, "%s is given for operand %s, which the operation does not have", p->slot[slot].name,
                           operand->name);
    if (slot < 0) return operand->optional ? TRI_OK : tri__defect(c, "operand %s is missing", operand->name);
    tri_op op = p->instr[c->line].op;
    if (p->slot[slot].mem == TRI_MEM_HOST && op != TRI_OP_control_post && op != TRI_OP_wait)
        return tri__defect(c, "%s is in host memory, which %s cannot access", p->slot[slot].name,
                      tri__instr_row(&p->instr[c->line])->name);
    if (p->slot[slot].mem == TRI_MEM_KEPT && op != TRI_OP_copy_post && op != TRI_OP_copy_wait)
        return tri__defect(c, "%s is replicated state, which only copies may access", p->slot[slot].name);
    if (!suits(operand, p->slot[slot].dtype, tri__op_queue(op) == TRI_QUEUE_COMPUTE))
        return tri__defect(c, "%s has the wrong element type for operand %s", p->slot[slot].name, operand->name);
    return TRI_OK;
}

/* All operands of the computing type have one type. */
static tri_status check_computing_type(const tri_checker *c, const tri_instr *instr) {
    const tri_op_row *row = tri__instr_row(instr);
    const tri_slot *first = NULL;
    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0 || row->arg[k].dtype != TRI_DTYPE_COMPUTE) continue;
        const tri_slot *slot = &c->program->slot[instr->slot[k]];
        if (!first) first = slot;
        if (slot->dtype != first->dtype)
            return tri__defect(c, "%s and %s have different element types", first->name, slot->name);
    }
    return TRI_OK;
}

/* The run of rows exists: of a field by the ranks that split it, of another operand by its rows. */
static tri_status check_part(const tri_checker *c, const tri_instr *instr) {
    const tri_slot *slot = &c->program->slot[instr->slot[tri__row_run(tri__instr_row(instr))]];
    if (instr->attr.part >= 0 && instr->attr.part < (slot->rows.div ? slot->rows.div : 1)) return TRI_OK;
    return tri__defect(c, "%s is a run of rows that does not exist", slot->name);
}

/* Runs of a ring are among those of its ranks. */
static tri_status check_ring(const tri_checker *c, const tri_attr *attr) {
    if (attr->members > 0 && attr->part >= 0 && attr->part < attr->members && attr->run >= 0 &&
        attr->run < attr->members)
        return TRI_OK;
    return tri__defect(c, "its attributes name no run of a ring");
}

static tri_status check_instr(tri_checker *c, const tri_instr *instr) {
    const tri_program *p = c->program;
    if (instr->op >= TRI_OP_COUNT) return tri__defect(c, "no such operation");
    if (instr->mb >= p->n_mb) return tri__defect(c, "no such microbatch");
    if (tri__op_is_lowered(instr->op))
        return tri__defect(c, "the operation must be lowered before it can run");
    const tri_op_row *row = tri__instr_row(instr);
    for (int k = 0; k < row->n_args; k++) TRI_TRY(check_operand(c, &row->arg[k], instr->slot[k]));
    TRI_TRY(check_computing_type(c, instr));

    /* Distinct counts, so that no two dims are equal by accident. */
    const tri_counts probe = {.of = {0, 100003, 200017, 301}};
    tri_dims dims;
    if (tri__instr_dims(p, instr, &probe, &dims) != TRI_OK) return tri__defect(c, "%s", tri_error());

    if (tri__row_run(tri__instr_row(instr)) >= 0) TRI_TRY(check_part(c, instr));
    if (row->part == TRI_PART_KEYS || row->part == TRI_PART_ALL) TRI_TRY(check_ring(c, &instr->attr));
    if (tri__ends(instr->op)) return tri__check_wait(c, instr);
    if (tri__is_post(instr->op)) TRI_TRY(tri__check_post(c, instr));
    if (instr->op == TRI_OP_copy_post) TRI_TRY(tri__check_copy(c, instr));

    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0) continue;
        int adds = instr->acc >> k & 1, reads = !adds && !tri__access_writes(row->arg[k].access);
        TRI_TRY(check_idle(c, instr->slot[k], reads));
        if (adds && row->arg[k].access != TRI_ACCESS_A)
            return tri__defect(c, "operand %s cannot be added to", row->arg[k].name);
        if (adds && c->root[c->root_of[instr->slot[k]]].is_read)
            return tri__defect(c, "%s is added to after it was read", p->slot[instr->slot[k]].name);
        if (adds || tri__access_reads(row->arg[k].access)) TRI_TRY(check_read(c, instr->slot[k]));
        if (tri__access_writes(row->arg[k].access)) TRI_TRY(check_apart(c, instr, k));
    }
    for (int k = 0; k < row->n_args; k++) {
        if (instr->slot[k] < 0) continue;
        int writes = tri__access_writes(row->arg[k].access);
        if (writes || !tri__is_keeping(p, instr)) /* what a step adds to may be copied before as the last one left it */
            c->root[c->root_of[instr->slot[k]]].is_read = !writes;
        if (writes) write_slot(c, instr->slot[k]);
    }
    if (tri__begins(instr->op))
        *TRI_PUSH(c->arena, c->flight, c->n_flights, c->cap_flights) =
            (tri_flight){tri__transfer_ends(instr), c->line, instr->op == TRI_OP_copy_post};
    return TRI_OK;
}

/* The bytes that a slot has in any of the members: the union. */
static tri_slot_bytes bytes_of(const tri_checker *c, int slot) {
    const tri_check_root *r = &c->root[c->root_of[slot]];
    const tri_linear_range *at = &c->range[slot];
    int64_t each = (int64_t)tri__dtype_bytes(c->program->slot[slot].dtype), last = c->of.n - 1,
            moved = at->begin.each * last;
    return (tri_slot_bytes){r->mem, r->begin + (at->begin.at + (moved < 0 ? moved : 0)) * each,
                            r->begin + (at->end.at + (moved > 0 ? moved : 0)) * each};
}

/* Accesses of two lanes to the same bytes are ordered. Members whose bytes differ are first checked by the union of
 * their bytes; where that fails, they are proven in parts. */
static tri_status check_order(tri_checker *c) {
    const tri_program *p = c->program;
    tri_slot_bytes *of = tri__arena_alloc(c->arena, (size_t)p->n_slots * sizeof *of);
    char line[32] = "";
    int other = -1;
    for (int s = 0; s < p->n_slots; s++) of[s] = bytes_of(c, s);
    const char *fault = tri__lane_order_fault(c->arena, p, of, c->post, &c->line, &other);
    if (!fault) return TRI_OK;
    if (other >= 0 && c->of.n > 1 && c->class->n_shifts) c->varies = 1;
    if (other >= 0) snprintf(line, sizeof line, "instruction %d", other);
    return tri__defect(c, fault, line);
}

static int outlives_step(tri_mem mem) { return tri__mem_lasts(mem) || mem == TRI_MEM_RESULT || mem == TRI_MEM_HOST; }

static tri_status check_end(tri_checker *c) {
    const tri_program *p = c->program;
    for (int s = c->slot = 0; s < p->n_slots; c->slot = ++s)
        if (p->slot[s].parent < 0 && outlives_step(p->slot[s].mem) && c->root[s].taken_by >= 0)
            return tri__defect(c, "%s outlives the step, but its memory went to %s", p->slot[s].name,
                          p->slot[c->root[s].taken_by].name);
    if (!c->n_flights) return TRI_OK;
    c->line = c->flight[0].line;
    return tri__defect(c, "the transfer is never waited for");
}

/* A view is inside its parent and in the parent's class. */
static tri_status check_view(tri_checker *c, int s) {
    const tri_program *p = c->program;
    const tri_slot *slot = &p->slot[s], *parent = &p->slot[slot->parent];
    tri_linear begin = c->range[s].begin; /* its shift, set by open_slots */
    int64_t count = tri__slot_rows(slot, &p->max) * slot->cols, room = tri__slot_rows(parent, &p->max) * parent->cols;
    begin.at += slot->parent_at;
    if (tri__check_compare(c, begin, tri__fixed(0)) < 0 ||
        tri__check_compare(c, tri__sum(begin, tri__fixed(count)), tri__fixed(room)) > 0 || slot->mem != parent->mem ||
        slot->dtype != parent->dtype)
        return tri__defect(c, "view %s is not inside %s", slot->name, parent->name);
    begin = tri__sum(begin, c->range[slot->parent].begin);
    c->range[s] = (tri_linear_range){begin, tri__sum(begin, tri__fixed(tri__slot_rows(slot, &p->max) * slot->cols))};
    c->root_of[s] = c->root_of[slot->parent];
    return TRI_OK;
}

static tri_status check_slots(tri_checker *c) {
    const tri_program *p = c->program;
    for (int s = c->slot = 0; s < p->n_slots; c->slot = ++s) {
        const tri_slot *slot = &p->slot[s];
        if (slot->rows.div && p->max.of[slot->rows.sym] % slot->rows.div)
            return tri__defect(c, "the rows of %s are not split evenly", slot->name);
        if (slot->parent >= s) return tri__defect(c, "view %s names a later slot", slot->name);
        if (slot->parent >= 0) {
            TRI_TRY(check_view(c, s));
            continue;
        }
        int64_t bytes = tri__slot_bytes(slot, &p->max);
        if (slot->offset < 0) return tri__defect(c, "%s has no offset yet", slot->name);
        if (slot->offset + bytes > p->bytes[slot->mem] / (slot->mem == TRI_MEM_KEPT ? 2 : 1))
            return tri__defect(c, "%s is outside the memory of class %s", slot->name, tri__mem_name(slot->mem));
        c->root_of[s] = s;
        c->range[s].end = tri__fixed(tri__slot_rows(slot, &p->max) * slot->cols);
        c->root[s] = (tri_check_root){
            .taken_by = -1, .mem = slot->mem, .begin = slot->offset, .end = slot->offset + bytes};
    }
    return TRI_OK;
}

/* Allocates the state of slots, and applies the shifts of the class. */
static tri_status open_slots(tri_checker *c) {
    const tri_program *p = c->program;
    size_t n = (size_t)p->n_slots;
    c->root = tri__arena_alloc(c->arena, n * sizeof *c->root);
    c->root_of = tri__arena_alloc(c->arena, n * sizeof *c->root_of);
    c->range = tri__arena_alloc(c->arena, n * sizeof *c->range);
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        c->live[mem] = tri__arena_alloc(c->arena, n * sizeof(int));
        c->n_live[mem] = 0;
    }
    for (int i = 0; i < c->class->n_shifts; i++) {
        const tri_shift *shift = &c->class->shift[i];
        if (shift->slot < 0 || shift->slot >= p->n_slots || p->slot[shift->slot].parent < 0)
            return tri__defect(c, "what moves from member to member of a class is not a view");
        c->range[shift->slot].begin = (tri_linear){shift->each * c->of.first, shift->each, 0};
    }
    return TRI_OK;
}

/* The dry run of one step: instructions of other kinds, and of closed layers, are left out. */
static tri_status check_step(tri_checker *c) {
    const tri_program *p = c->program;
    c->line = p->n_instrs;
    TRI_TRY(open_slots(c));
    TRI_TRY(check_slots(c));
    for (int s = 0; s < p->n_slots; s++) /* weights and optimizer state hold values from the step before */
        if (p->slot[s].parent < 0 && tri__mem_lasts(p->slot[s].mem)) write_slot(c, s);
    for (c->line = 0; c->line < p->n_instrs; c->line++)
        if (tri__is_open(&p->instr[c->line], &c->now)) TRI_TRY(check_instr(c, &p->instr[c->line]));
    return check_end(c);
}

/* Every instruction runs in some kind of step, and the kinds' shares are those of all steps. */
static tri_status check_gates(tri_checker *c) {
    const tri_program *p = c->program;
    double shares = 0;
    for (c->line = 0; c->line < p->n_instrs; c->line++)
        if (p->instr[c->line].gates & ~p->gates)
            return tri__defect(c, "it runs in a kind of step that the program does not have");
    for (c->line = 0; c->line < p->n_instrs; c->line++)
        if (p->instr[c->line].layer > p->n_layers || p->instr[c->line].layer < -p->n_layers)
            return tri__defect(c, "it belongs to a layer that the program has no gate of");
    for (int gate = 0; gate < TRI_GATE_COUNT; gate++) shares += p->gates >> gate & 1 ? p->share[gate] : 0;
    return p->gates && fabs(shares - 1) > 1e-6
               ? tri__defect(c, "the shares of its kinds of steps are not 1")
               : TRI_OK;
}

/* Each kind of step by itself, with all layers open, all closed, and each closed alone. Lanes keep their order for all
 * instructions at once: those that are left out still hold their places in it. */
static tri_status check_program(tri_checker *c) {
    c->now = (tri_open_gates){0};
    TRI_TRY(check_gates(c));
    c->post = tri__arena_alloc(c->arena, (size_t)c->program->n_instrs * sizeof *c->post);
    for (int i = 0; tri__program_case(c->program, i, &c->now); i++) TRI_TRY(check_step(c));
    c->now = (tri_open_gates){0};
    TRI_TRY(tri__check_layers(c));
    return check_order(c);
}

/* The members of a class, each alone; in two parts where a comparison varies. */
static tri_status check_members(tri_arena *arena, const tri_class *class, tri_check_members of,
                                const tri_origin *origin) {
    tri_checker c = {.program = class->program, .class = class, .of = of, .arena = arena, .origin = origin};
    size_t mark = arena->used;
    tri_status status = check_program(&c);
    tri__arena_rewind(arena, mark);
    if (!c.varies) return status;
    tri_check_members half = of, rest = of;
    if (of.n > 1) half.n /= 2, rest.first += half.n, rest.n -= half.n;
    else half.copies /= 2, rest.copy += half.copies, rest.copies -= half.copies;
    TRI_TRY(check_members(arena, class, half, origin));
    return check_members(arena, class, rest, origin);
}

/* All ranks plan the same microbatches and kinds of steps. */
static tri_status check_alike(const tri_classes *r) {
    const tri_program *first = r->at[0].program;
    for (int i = 1; i < r->n; i++) {
        const tri_program *p = r->at[i].program;
        if (p->n_mb != first->n_mb)
            return tri__fail(TRI_INTERNAL, "ranks %d and %d plan %d and %d microbatches", first->rank, p->rank,
                             first->n_mb, p->n_mb);
        if (p->gates != first->gates)
            return tri__fail(TRI_INTERNAL, "ranks %d and %d plan different kinds of steps", first->rank, p->rank);
        if (!tri__same_layers(p, first))
            return tri__fail(TRI_INTERNAL, "ranks %d and %d plan gates of different layers", first->rank, p->rank);
    }
    return TRI_OK;
}

/* What is checked: classes, or some programs, [n]. */
typedef struct job {
    const tri_classes *ranks;
    const tri_origin *origin;
    const tri_program *const *programs;
    int n;
} job;

static tri_status check_ranks(tri_arena *arena, void *data) {
    const job *job = data;
    const tri_classes *r = job->ranks;
    TRI_TRY(tri__classes_check(r));
    TRI_TRY(check_alike(r));
    for (int i = 0; i < r->n; i++) {
        const tri_check_members all = {.n = r->at[i].n, .copies = r->mesh.dp / r->period, .period = r->period};
        TRI_TRY(check_members(arena, &r->at[i], all, job->origin));
    }
    return r->world > 1 ? tri__check_together(arena, r, job->origin) : TRI_OK;
}

tri_status tri__check_read(const tri_classes *ranks, const tri_origin *origin) {
    return tri__arena_scratch(check_ranks, &(job){.ranks = ranks, .origin = origin});
}

tri_status tri__check_all(const tri_classes *ranks) { return tri__check_read(ranks, NULL); }

static tri_status check_listed(tri_arena *arena, void *data) {
    const job *listed = data;
    tri_classes ranks;
    for (int i = 0; i < listed->n; i++)
        TRI_TRY(check_members(arena, &(tri_class){.program = listed->programs[i], .n = 1},
                              (tri_check_members){.n = 1, .copies = 1}, NULL));
    if (listed->n == 1) return TRI_OK;
    TRI_TRY(tri__classes_list(&ranks, arena, listed->programs, listed->n));
    TRI_TRY(check_alike(&ranks));
    return tri__check_together(arena, &ranks, NULL);
}

tri_status tri__check(const tri_program *const *programs, int n) {
    return tri__arena_scratch(check_listed, &(job){.programs = programs, .n = n});
}
