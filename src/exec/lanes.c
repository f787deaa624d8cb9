/* lanes.c - finds the waits between two lanes: the last earlier instruction of the other lane that shares bytes with
 * this one, at least one of both writing. A transfer's slots are its own from its post to its wait: both count as
 * writing all of them. Scratch space does not count: each lane has its own.
 *
 * All classes lie one behind the other on a line, which the borders of slots cut into pieces. For each lane two trees
 * over the pieces remember who touched them last, and who wrote them. Instructions come in order, so that what is set
 * is always the largest yet: setting and asking take a step for each level of a tree. */
#include "exec/lanes.h"
#include "program/transfer.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(TRI_LANES == 2, "an instruction waits for one other lane");

/* The last to set any of a range of pieces; -1: nobody. Node k has the nodes 2k and 2k + 1 below it; pieces are nodes
 * n, n + 1... */
typedef struct tree {
    int n;           /* a power of two */
    int32_t *whole;  /* [2n] the last that set all of a node */
    int32_t *any;    /* [2n] the last that set all of it, or something below */
} tree;

/* Pieces [begin, end) of the line. */
typedef struct pieces {
    int begin, end;
} pieces;

typedef struct finder {
    const tri_program *program;
    int64_t *border;         /* [n_borders] bytes, rising */
    int n_borders;
    pieces *of;              /* [n_slots] */
    tree touched[TRI_LANES], written[TRI_LANES];
    int32_t *memory;         /* of all trees */
} finder;

static void set(tree *t, pieces at, int32_t value) {
    for (int l = at.begin + t->n, r = at.end + t->n; l < r; l /= 2, r /= 2) {
        if (l % 2) t->whole[l] = t->any[l] = value, l++;
        if (r % 2) r--, t->whole[r] = t->any[r] = value;
    }
    for (int l = (at.begin + t->n) / 2, r = (at.end - 1 + t->n) / 2; l > 0; l /= 2, r /= 2)
        t->any[l] = t->any[r] = value;
}

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

/* What lies within nodes of the range, and what reaches into it over one of its ends. */
static int32_t last_of(const tree *t, pieces at) {
    int32_t last = -1;
    for (int l = at.begin + t->n, r = at.end + t->n; l < r; l /= 2, r /= 2) {
        if (l % 2) last = larger(last, t->any[l++]);
        if (r % 2) last = larger(last, t->any[--r]);
    }
    for (int l = at.begin + t->n, r = at.end - 1 + t->n; l > 0; l /= 2, r /= 2)
        last = larger(last, larger(t->whole[l], t->whole[r]));
    return last;
}

static int rising(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Bytes [begin, end) of a slot on the line. */
static void slot_bytes(const tri_program *p, int slot, int64_t *begin, int64_t *end) {
    *begin = tri__slot_offset(p, slot);
    for (int mem = 0; mem < (int)p->slot[slot].mem; mem++) *begin += p->bytes[mem];
    *end = *begin + tri__slot_bytes(&p->slot[slot], &p->max);
}

static int border_at(const finder *f, int64_t byte) {
    return (int)((int64_t *)bsearch(&byte, f->border, (size_t)f->n_borders, sizeof byte, rising) - f->border);
}

static void cut_line(finder *f) {
    const tri_program *p = f->program;
    int n = 0;
    for (int s = 0; s < p->n_slots; s++) slot_bytes(p, s, &f->border[2 * s], &f->border[2 * s + 1]);
    qsort(f->border, (size_t)p->n_slots * 2, sizeof *f->border, rising);
    for (int i = 0; i < 2 * p->n_slots; i++)
        if (i == 0 || f->border[i] != f->border[n - 1]) f->border[n++] = f->border[i];
    f->n_borders = n;
    for (int s = 0; s < p->n_slots; s++) {
        int64_t begin, end;
        slot_bytes(p, s, &begin, &end);
        f->of[s] = (pieces){border_at(f, begin), border_at(f, end)};
    }
}

/* 0: out of memory. */
static int open_finder(finder *f, const tri_program *program) {
    size_t slots = (size_t)program->n_slots + 1;
    *f = (finder){
        .program = program, .border = malloc(2 * slots * sizeof *f->border), .of = malloc(slots * sizeof *f->of)};
    if (!f->border || !f->of) return 0;
    cut_line(f);
    int n = 1;
    while (n < f->n_borders) n *= 2;
    size_t each = 2 * (size_t)n, all = each * 2 * 2 * TRI_LANES;
    f->memory = malloc(all * sizeof *f->memory);
    if (!f->memory) return 0;
    memset(f->memory, -1, all * sizeof *f->memory);
    int32_t *at = f->memory;
    for (int lane = 0; lane < TRI_LANES; lane++, at += 4 * each) {
        f->touched[lane] = (tree){n, at, at + each};
        f->written[lane] = (tree){n, at + 2 * each, at + 3 * each};
    }
    return 1;
}

static void close_finder(finder *f) {
    free(f->border);
    free(f->of);
    free(f->memory);
}

static int writes(const tri_instr *instr, int k) {
    return tri__begins(instr->op) || tri__ends(instr->op) || tri__access_writes(tri__op_row(instr->op)->arg[k].access);
}

/* The last instruction of lane `other` that this one depends on; -1. */
static int32_t depends_on(const finder *f, const tri_instr *instr, int other) {
    int32_t last = -1;
    for (int k = 0; k < TRI_MAX_ARGS; k++) {
        if (instr->slot[k] < 0) continue;
        pieces at = f->of[instr->slot[k]];
        if (at.begin < at.end)
            last = larger(last, last_of(writes(instr, k) ? &f->touched[other] : &f->written[other], at));
    }
    return last;
}

static void keep(finder *f, const tri_instr *instr, int lane, int32_t index) {
    for (int k = 0; k < TRI_MAX_ARGS; k++) {
        if (instr->slot[k] < 0) continue;
        pieces at = f->of[instr->slot[k]];
        if (at.begin == at.end) continue;
        set(&f->touched[lane], at, index);
        if (writes(instr, k)) set(&f->written[lane], at, index);
    }
}

tri_status tri__lanes_find(const tri_program *program, tri_lanes *out) {
    finder f;
    size_t n = (size_t)program->n_instrs + 1;
    *out = (tri_lanes){
        .lane = malloc(n), .wait = malloc(n * sizeof *out->wait), .number = calloc(n, sizeof *out->number)};
    int ok = open_finder(&f, program) && out->lane && out->wait && out->number;
    int32_t waited[TRI_LANES] = {-1, -1},
            signals = 0; /* for the last instruction of the other lane that a lane is known to be behind */
    for (int32_t i = 0; i < program->n_instrs && ok; i++) {
        const tri_instr *instr = &program->instr[i];
        int lane = tri__instr_lane(program, i);
        int32_t other = depends_on(&f, instr, !lane);
        out->lane[i] = (uint8_t)lane;
        out->wait[i] = other > waited[lane] ? other : -1;
        if (out->wait[i] >= 0) {
            waited[lane] = other;
            if (!out->number[other]) out->number[other] = ++signals;
        }
        keep(&f, instr, lane, i);
    }
    close_finder(&f);
    if (ok) return TRI_OK;
    tri__lanes_free(out);
    return tri__fail(TRI_RESOURCE, "out of memory for an executor's lanes");
}

void tri__lanes_free(tri_lanes *lanes) {
    free(lanes->lane);
    free(lanes->wait);
    free(lanes->number);
    *lanes = (tri_lanes){0};
}

void tri__lanes_begin(const tri_queues *queues, void *context) {
    queues->signal(context, 0);
    for (int lane = 1; lane < TRI_LANES; lane++) queues->use(context, lane), queues->await(context, 0);
}

void tri__lanes_before(const tri_lanes *lanes, int index, int begin, const tri_queues *queues, void *context) {
    queues->use(context, lanes->lane[index]);
    if (lanes->wait[index] >= begin) queues->await(context, lanes->number[lanes->wait[index]]);
}

void tri__lanes_after(const tri_lanes *lanes, int index, const tri_queues *queues, void *context) {
    if (lanes->number[index]) queues->signal(context, lanes->number[index]);
}

void tri__lanes_end(const tri_queues *queues, void *context) {
    for (int lane = 1; lane < TRI_LANES; lane++) {
        queues->use(context, lane);
        queues->signal(context, 0);
        queues->use(context, 0);
        queues->await(context, 0);
    }
}
