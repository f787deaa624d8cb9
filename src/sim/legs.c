/* legs.c - a rank's timeline as it is usually drawn: forwards and backwards of microbatches, then the update.
 *
 * Consecutive instructions of one microbatch form a stretch. Forward operations of a unit that already had its forward
 * in an earlier stretch are recomputation, and belong to the backward. Gradients of weights that come after those of
 * inputs are a separate leg; where a unit alternates between the two, they are one leg. A leg ends where the rank
 * waits. */
#include "sim/timeline.h"

typedef struct stretch {
    int first, last;       /* instructions */
    int mixed;             /* 1: some unit has gradients of inputs after those of weights */
} stretch;

typedef struct legs {
    const tri_rank_timeline *rank;
    uint8_t *seen;         /* [units * microbatches] 1: forward was computed in an earlier stretch */
    int *weight;           /* [units] 1 + the first instruction of the last stretch with gradients of its weights */
    tri_arena *arena;
    tri_leg *leg;
    int n, cap;
} legs;

static tri_op_phase phase_of(const tri_program *p, int i) { return tri__instr_row(&p->instr[i])->phase; }

static int computes(const tri_program *p, int i) { return tri__op_queue(p->instr[i].op) == TRI_QUEUE_COMPUTE; }

static stretch find_stretch(const legs *l, int first) {
    const tri_program *p = l->rank->program;
    stretch s = {.first = first, .last = first};
    for (int i = first; i < p->n_instrs; i++) {
        if (!computes(p, i)) continue;
        if (p->instr[i].mb != p->instr[first].mb ||
            (phase_of(p, i) == TRI_PHASE_U) != (phase_of(p, first) == TRI_PHASE_U))
            break;
        int unit = p->instr[i].unit;
        if (phase_of(p, i) == TRI_PHASE_W && unit >= 0) l->weight[unit] = first + 1;
        if (phase_of(p, i) == TRI_PHASE_B && unit >= 0) s.mixed |= l->weight[unit] == first + 1;
        s.last = i;
    }
    return s;
}

static uint8_t *seen_at(const legs *l, int i) {
    const tri_instr *instr = &l->rank->program->instr[i];
    return instr->unit < 0 || instr->mb < 0 ? NULL : &l->seen[instr->unit * l->rank->program->n_mb + instr->mb];
}

/* The kind of an instruction; `before` is the kind of the one before it in the stretch, 0 for the first. */
static char kind_of(const legs *l, const stretch *s, int i, char before) {
    switch (phase_of(l->rank->program, i)) {
    case TRI_PHASE_U: return 'U';
    case TRI_PHASE_B: return 'B';
    case TRI_PHASE_W: return s->mixed ? 'B' : 'W';
    default: return before == 'B' || before == 'W' || (seen_at(l, i) && *seen_at(l, i)) ? 'B' : 'F';
    }
}

static void take(legs *l, const stretch *s) {
    const tri_program *p = l->rank->program;
    char before = 0;
    for (int i = s->first; i <= s->last; i++) {
        if (!computes(p, i)) continue;
        char kind = kind_of(l, s, i, before);
        double begin = l->rank->begin[i], end = l->rank->end[i];
        if (kind != before || begin > l->leg[l->n - 1].end)
            *TRI_PUSH(l->arena, l->leg, l->n, l->cap) = (tri_leg){.begin = begin, .kind = kind, .mb = p->instr[i].mb};
        l->leg[l->n - 1].end = kind == before ? fmax(end, l->leg[l->n - 1].end) : end; /* lanes end in any order */
        before = kind;
    }
    for (int i = s->first; i <= s->last; i++)
        if (computes(p, i) && phase_of(p, i) == TRI_PHASE_F && seen_at(l, i)) *seen_at(l, i) = 1;
}

int tri__timeline_legs(tri_arena *arena, const tri_rank_timeline *rank, tri_leg **out) {
    const tri_program *p = rank->program;
    legs l = {.rank = rank, .arena = arena, .seen = tri__arena_alloc(arena, (size_t)(p->n_units * p->n_mb))};
    l.weight = tri__arena_alloc(arena, (size_t)p->n_units * sizeof *l.weight);
    for (int i = 0; i < p->n_instrs; i++) {
        if (!computes(p, i)) continue;
        stretch s = find_stretch(&l, i);
        take(&l, &s);
        i = s.last;
    }
    *out = l.leg;
    return l.n;
}

tri_json *tri__legs_json(const tri_leg *leg, int n) {
    tri_json *all = tri__json_array();
    for (int i = 0; i < n; i++) {
        const char kind[] = {leg[i].kind, 0};
        tri__json_append_new(all, tri__json_pack("[s, i, f, f]", kind, leg[i].mb, leg[i].begin, leg[i].end));
    }
    return all;
}

static int by_begin(const void *a, const void *b) {
    double x = ((const tri_leg *)a)->begin, y = ((const tri_leg *)b)->begin;
    return x < y ? -1 : x > y;
}

int tri__timeline_transfers(tri_arena *arena, const tri_rank_timeline *rank, tri_leg **out) {
    const tri_program *p = rank->program;
    tri_leg *span = NULL;
    int n = 0, cap = 0, joined = 0;
    for (int i = 0; i < p->n_instrs; i++)
        if (tri__is_post(p->instr[i].op) && rank->end[i] > rank->begin[i])
            *TRI_PUSH(arena, span, n, cap) = (tri_leg){.begin = rank->begin[i], .end = rank->end[i]};
    if (n) qsort(span, (size_t)n, sizeof *span, by_begin);
    for (int i = 0; i < n; i++) {
        if (joined && span[i].begin <= span[joined - 1].end) {
            if (span[i].end > span[joined - 1].end) span[joined - 1].end = span[i].end;
        } else span[joined++] = span[i];
    }
    *out = span;
    return joined;
}
