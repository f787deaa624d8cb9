/* start.c - the start program: turns the weights that the host filled in into those used for computing. It runs once
 * after each filling, before the first step or evaluation.
 *
 *   cast          a rank's part of the masters is rounded into the weights, where these have fewer bits
 *   all_gather    zero1, zero2: each rank rounded its own part, and all compute with all of them
 *
 * Where evaluations show other weights than are trained (averages, average.c; the anchor of local steps, pass_local.c)
 * a second program, the exchange, lets the two change places, and then prepares the weights in the same way.
 *
 * Prediction has no masters. In fp32 its weights are filled in directly, whole or as shards: the program is empty,
 * without slots. With fewer bits the host fills one unit at a time, in fp32, into a slot whose memory the next unit
 * reuses; the unit's instructions then round what it holds into the weights. So the peak is that of the small weights
 * and the largest unit. Every plan has a start program, so that callers need no special case. */
#include "plan/pass.h"

typedef struct start {
    const tri_pass *from; /* of the step, fully planned */
    tri_pass pass;        /* of this program */
    tri_builder build;
    int *map;             /* [slots of the step] the slot here; -1: none yet */
} start;

/* The slot here that corresponds to one of the step. */
static int map_slot(start *s, int slot) {
    const tri_slot *old = &s->from->program->slot[slot];
    if (s->map[slot] >= 0) return s->map[slot];
    s->build.unit = old->unit;
    if (old->parent < 0)
        return s->map[slot] = TRI_BUILD_SAME(&s->build, *old, "%s", old->name);
    int parent = map_slot(s, old->parent);
    return s->map[slot] = tri__build_view(&s->build, parent, old->parent_at, old->rows.add, old->cols, "%s", old->name);
}

/* All slots that outlive a step, in its order, so that the memory pass gives them the same offsets. */
static void copy_slots(start *s) {
    const tri_program *from = s->from->program;
    s->map = tri__none_yet(s->pass.arena, from->n_slots);
    for (int u = 0; u < from->n_units; u++) tri__build_unit(&s->build, from->unit[u]);
    for (int i = 0; i < from->n_slots; i++)
        if (from->slot[i].parent < 0 && tri__mem_lasts(from->slot[i].mem)) map_slot(s, i);
    int n_units = s->pass.model->n_units;
    s->pass.out.param = tri__arena_alloc(s->pass.arena, (size_t)n_units * sizeof *s->pass.out.param);
    for (int u = 0; u < n_units; u++) s->pass.out.param[u] = map_slot(s, s->from->out.param[u]);
}

/* A view of a unit's flat slot; the slot itself where it is all of it. */
static int part_of(start *s, int slot, int64_t at, int64_t rows, int64_t cols) {
    const tri_slot *of = &s->pass.program->slot[slot];
    if (at == 0 && rows == of->rows.add && cols == of->cols) return slot;
    return tri__build_view(&s->build, slot, at, rows, cols, "%s.+%lld", of->name, (long long)at);
}

/* Rounds this rank's masters of a unit into their part of its weights. */
static void cast_unit(start *s, int unit) {
    const tri_planned *from = &s->from->out;
    tri_range own = from->state_part[unit], held = from->param_part[unit];
    int weights = s->pass.out.param[unit], master = map_slot(s, from->master[unit]);
    if (!tri__range_count(own)) return;
    s->build.unit = s->pass.program->slot[weights].unit;
    weights = part_of(s, weights, own.begin - held.begin, 1, tri__range_count(own));
    TRI_BUILD(&s->build, cast, (tri_attr){0}, weights, master);
}

/* Rounds all masters, if there are any, into the weights, and gathers what other ranks have rounded. */
static void prepare_weights(start *s, int frozen_too) {
    for (int u = 0; u < s->pass.model->n_units && s->from->out.master; u++) cast_unit(s, u);
    tri__gather_parts(&s->pass, frozen_too);
}

/* Rounds elements [from, to) of a unit, none of which has a slot of its own, into their place `at` in its weights. */
static void fill_stretch(start *s, int weights, int64_t at, int filled, tri_range part) {
    int64_t n = tri__range_count(part);
    if (!n) return;
    int y = part_of(s, weights, at, 1, n), x = part_of(s, filled, part.begin, 1, n);
    TRI_BUILD(&s->build, cast, (tri_attr){0}, y, x);
}

static void fill_stored(start *s, const tri_stored *stored, int filled) {
    int x = part_of(s, filled, stored->begin, stored->rows, stored->cols), q = map_slot(s, stored->slot);
    s->build.unit = s->pass.program->slot[filled].unit;
    if (stored->scale < 0) TRI_BUILD(&s->build, cast, (tri_attr){0}, q, x);
    else
        tri__build_quantize(&s->build, s->from->in->quantize, x, stored->axes,
                            (tri_factor){q, map_slot(s, stored->scale)});
    s->build.unit = s->pass.program->slot[filled].unit;
}

/* Rounds, or quantises, what the host filled in of a unit into its weights. */
static void fill_unit(start *s, tri_filling *filling, int unit) {
    int weights = s->pass.out.param[unit];
    int64_t count = tri__range_count(s->from->out.param_part[unit]), next = 0, at = 0;
    if (!count) return;
    s->build.unit = s->pass.program->slot[weights].unit;
    int filled = filling->slot[unit] = TRI_BUILD_FLAT(&s->build, TRI_MEM_STAGING, TRI_F32, count, "fill.%s",
                                                      s->pass.model->unit[unit].name);
    TRI_BUILD(&s->build, input, ((tri_attr){.field = TRI_FIELD_weights}), filled);
    for (int i = 0; i < s->from->n_stored; i++) {
        const tri_stored *stored = &s->from->stored[i];
        if (stored->unit != unit) continue;
        fill_stretch(s, weights, at, filled, (tri_range){next, stored->begin});
        fill_stored(s, stored, filled);
        at += stored->begin - next;
        next = stored->begin + stored->rows * stored->cols;
    }
    fill_stretch(s, weights, at, filled, (tri_range){next, count});
}

static void fill_units(start *s, tri_filling *filling) {
    int n = s->pass.model->n_units;
    filling->slot = tri__none_yet(s->pass.arena, n);
    filling->end = tri__arena_alloc(s->pass.arena, (size_t)n * sizeof *filling->end);
    for (int u = 0; u < n; u++) fill_unit(s, filling, u);
}

/* Where each unit's instructions end, in the finished program: where the next unit is filled. */
static void find_ends(const start *s, tri_filling *filling) {
    const tri_program *program = s->pass.program;
    int at = program->n_instrs;
    for (int u = s->pass.model->n_units - 1; u >= 0; u--) {
        filling->end[u] = at;
        if (filling->slot[u] < 0) continue;
        while (program->instr[--at].op != TRI_OP_input) continue;
        TRI_ASSERT(TRI_SLOT(&program->instr[at], input, y) == filling->slot[u]);
    }
}

/* Finds the offsets as for every program, by the passes after `feed`; what runs in parts runs on one lane. Programs of
 * one plan share memory by class and offset (exec/exec.h): slots of the step have those that they have there. */
static tri_status finish(start *s, int in_parts) {
    const tri_program *from = s->from->program;
    TRI_TRY(tri__check_kernels(&s->pass));
    for (const tri_pass_row *row = tri__pass_find("feed") + 1; row->name; row++) {
        int lanes = row->run == tri__pass_lanes || row->run == tri__pass_waits;
        if (row->when(&s->pass) && !(in_parts && lanes)) TRI_TRY(row->run(&s->pass));
    }
    for (int i = 0; i < from->n_slots; i++)
        TRI_ASSERT(s->map[i] < 0 || tri__slot_offset(s->pass.program, s->map[i]) == tri__slot_offset(from, i));
    return TRI_OK;
}

static start open_start(const tri_pass *from, const char *title) {
    start s = {.from = from, .pass = *from};
    tri_program *to = s.pass.program = tri__program_new(from->arena, title);
    to->mesh = from->program->mesh, to->rank = from->program->rank, to->max = from->program->max;
    s.pass.places = NULL; /* they are for the step's slots */
    s.pass.behind = NULL; /* and this for its instructions */
    s.pass.out.update = -1;
    s.build = (tri_builder){.arena = from->arena, .program = to, .unit = -1, .mb = -1};
    return s;
}

/* Weights that each rank fills in whole, in fp32, need no preparing; of averaged ones it fills in its part. */
tri_status tri__plan_start(const tri_pass *from, tri_program **out, tri_filling *filling) {
    start s = open_start(from, "trimodal start");
    *out = s.pass.program;
    *filling = (tri_filling){0};
    int fills = !from->training && (from->n_stored || tri__weights_dtype(from) != TRI_F32);
    if (!from->out.master && !from->out.shown && !fills) return tri__pass_memory(&s.pass);
    copy_slots(&s);
    if (fills) fill_units(&s, filling);
    else prepare_weights(&s, 1);
    TRI_TRY(finish(&s, fills));
    if (fills) find_ends(&s, filling);
    return TRI_OK;
}

tri_status tri__plan_exchange(const tri_pass *from, tri_program **out) {
    start s = open_start(from, "trimodal exchange");
    const tri_planned *of = &from->out;
    *out = s.pass.program;
    if (!of->shown) return tri__pass_memory(&s.pass);
    copy_slots(&s);
    for (int u = 0; u < s.pass.model->n_units; u++) {
        if (of->shown[u] < 0 || !tri__range_count(of->state_part[u])) continue;
        int live = map_slot(&s, of->live[u]), shown = map_slot(&s, of->shown[u]);
        s.build.unit = s.pass.program->slot[shown].unit;
        TRI_BUILD(&s.build, swap, (tri_attr){0}, live, shown);
    }
    prepare_weights(&s, 0);
    return finish(&s, 0);
}
