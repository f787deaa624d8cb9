/* optimizer.c - the table of optimizers, and what their files share: states, runs of a unit's elements, sums. */
#include "plan/optimizer.h"
#include "plan/step_kinds.h"

static const tri_optimizer rows[] = {
#define EACH(op_, ...) .emit = tri__emit_each, .mnemonic = #op_, .state = {__VA_ARGS__}
#define OWN(name_) .emit = tri__emit_##name_
#define TRI_OPTIMIZER(id, word, takes_, ...) [TRI_##id] = {.name = word, .takes = takes_, __VA_ARGS__},
#include "plan/optimizer/optimizers.def"
#undef OWN
#undef EACH
};

const tri_optimizer *tri__optimizer_row(tri_optimizer_kind kind) { return &rows[kind]; }

unsigned tri__optimizer_takes(tri_optimizer_kind kind) { return rows[kind].takes; }

static int states_of(const tri_optimizer *row) {
    int n = 0;
    while (n < TRI_OWN_STATES && row->state[n].name) n++;
    return n;
}

/* Without momentum SGD keeps nothing; optimizers with files of their own keep both means. */
int tri__optimizer_moments(tri_optimizer_kind kind) {
    if (rows[kind].takes & TRI_TAKES_MOMENTUM) return 0;
    return rows[kind].emit == tri__emit_each ? states_of(&rows[kind]) : 2;
}

int tri__add_state(tri_pass *pass, const char *name, const char *prefix) {
    int index = pass->out.n_states++;
    TRI_ASSERT(index < TRI_MAX_STATES);
    pass->out.state[index] = (tri_state){.name = name, .prefix = prefix, .scope = TRI_STATE_SHARED,
                                         .slot = tri__none_yet(pass->arena, pass->model->n_units),
                                         .held = tri__trained_parts(pass, pass->out.state_part),
                                         .save = tri__trained_parts(pass, pass->out.save_part)};
    return index;
}

/* The first rank of each unit's elements saves them. */
int tri__add_numbers(tri_pass *pass, tri_builder *build, const char *name, const char *prefix, int *slot) {
    const tri_network *model = pass->model;
    int index = tri__add_state(pass, name, prefix), at = 0;
    int tp = tri__mesh_group_place(&pass->in->mesh, pass->in->rank, TRI_AXIS_SET(TRI_AXIS_TP));
    tri_state *s = &pass->out.state[index];
    s->each = (tri_shape){.n = 1, .dim = {1}};
    uint8_t *has = tri__arena_alloc(pass->arena, (size_t)model->n_params);
    s->has = has;
    s->held = tri__arena_alloc(pass->arena, (size_t)model->n_units * sizeof *s->held);
    s->save = tri__arena_alloc(pass->arena, (size_t)model->n_units * sizeof *s->save);
    for (int i = 0; i < model->n_params; i++) {
        has[i] = model->param[i].decays != 0;
        s->held[model->param[i].unit].end += has[i];
    }
    for (int u = 0; u < model->n_units; u++) at += (int)s->held[u].end;
    *slot = TRI_BUILD_FLAT(build, TRI_MEM_STATE, TRI_F32, at, "%s", name);
    at = 0;
    for (int u = 0; u < model->n_units; at += (int)s->held[u++].end) {
        tri_range first = pass->out.save_part[u];
        if (model->unit[u].frozen) continue;
        s->slot[u] = tri__build_view(build, *slot, at, 1, s->held[u].end, "%s.%s", name, model->unit[u].name);
        if (first.begin == 0 && first.end > 0 && tp == 0) s->save[u] = s->held[u];
    }
    return index;
}

void tri__state_of_copies(tri_pass *pass, int state, tri_state_scope scope, int copy, int copies, tri_range *held) {
    tri_state *s = &pass->out.state[state];
    int n = pass->model->n_units;
    s->scope = scope, s->copy = copy, s->copies = copies, s->held = held;
    s->save = tri__arena_alloc(pass->arena, (size_t)n * sizeof *s->save);
    for (int u = 0; u < n; u++) s->save[u] = tri__tensor_once(pass, u, held[u]);
}

int tri__state_slot(tri_pass *pass, tri_builder *build, int state, int unit) {
    const tri_state *s = &pass->out.state[state];
    if (s->slot[unit] < 0)
        s->slot[unit] = TRI_BUILD_FLAT(build, TRI_MEM_STATE, TRI_F32, tri__range_count(s->held[unit]), "%s.%s",
                                       s->name, pass->model->unit[unit].name);
    return s->slot[unit];
}

void tri__each_run(tri_updating *up, void (*emit)(tri_updating *up, const tri_run *run)) {
    tri_pass *pass = up->pass;
    for (int unit = 0; unit < pass->model->n_units; unit++) {
        const tri_unit *u = &pass->model->unit[unit];
        const tri_param *param = &pass->model->param[u->first];
        if (u->frozen) continue;
        up->build.unit = pass->program->slot[pass->out.param[unit]].unit;
        for (int s = up->first; s < pass->out.n_states; s++) tri__state_slot(pass, &up->build, s, unit);
        for (int first = 0, next; first < u->n; first = next) {
            next = first + 1;
            while (next < u->n && tri__same_run(&param[next], &param[first])) next++;
            tri_range all = {param[first].at, next < u->n ? param[next].at : u->count};
            tri_run run = {unit, tri__range_both(pass->out.state_part[unit], all), param[first].decays,
                           param[first].rate};
            if (tri__range_count(run.part)) emit(up, &run);
        }
    }
}

/* The view of elements [at, at + count) of a slot that instructions of another kind of step have; -1: none. */
static int known_view(const tri_updating *up, int slot, int64_t at, int64_t count) {
    const tri_program *p = up->pass->program;
    for (int s = p->gates ? p->n_slots - 1 : -1; s > slot; s--)
        if (p->slot[s].parent == slot && p->slot[s].parent_at == at && p->slot[s].rows.add == 1 &&
            p->slot[s].rows.sym == TRI_SYM_NONE && p->slot[s].cols == count)
            return s;
    return -1;
}

int tri__run_part(tri_updating *up, int slot, tri_range held, const tri_run *run) {
    int64_t at = run->part.begin - held.begin, count = tri__range_count(run->part);
    int known = known_view(up, slot, at, count);
    if (known >= 0) return known;
    return tri__build_view(&up->build, slot, at, 1, count, "%s.+%lld", up->pass->program->slot[slot].name,
                           (long long)run->part.begin);
}

int tri__run_weights(tri_updating *up, const tri_run *run) {
    const tri_planned *out = &up->pass->out;
    return tri__run_part(up, out->param[run->unit], out->param_part[run->unit], run);
}

int tri__run_gradient(tri_updating *up, const tri_run *run) {
    return tri__run_part(up, up->pass->unit_grad[run->unit], up->pass->grad_part[run->unit], run);
}

int tri__run_state(tri_updating *up, int state, const tri_run *run) {
    const tri_state *s = &up->pass->out.state[up->first + state];
    return tri__run_part(up, s->slot[run->unit], s->held[run->unit], run);
}

/* The attribute is 0 where the factor is 1: a rate that is too small for a float is the smallest one. */
tri_attr tri__run_step(const tri_updating *up, const tri_run *run) {
    const tri_optimizing *how = &up->pass->in->optimizer;
    return (tri_attr){.eps = (float)how->eps, .decay = run->decays ? (float)how->weight_decay : 0,
                      .rate = run->rate == 1 ? 0 : fmaxf((float)run->rate, FLT_MIN)};
}

tri_attr tri__run_attr(const tri_updating *up, const tri_run *run) {
    const tri_optimizing *how = &up->pass->in->optimizer;
    tri_attr attr = tri__run_step(up, run);
    attr.beta1 = (float)how->beta1, attr.beta2 = (float)how->beta2;
    return attr;
}

/* p, the states (-1: SGD without momentum has none), g, hyper, coef, apply. */
static void run_op(tri_updating *up, const tri_run *run, tri_op op, int n_states, tri_attr attr) {
    int has[TRI_MAX_ARGS], slots[TRI_MAX_ARGS] = {0}, n = 0, named = up->pass->out.n_states - up->first;
    const tri_op_row *row = tri__op_row(op, &attr);
    has[n++] = tri__run_weights(up, run);
    for (int k = 0; k < n_states; k++) has[n++] = k < named ? tri__run_state(up, k, run) : -1;
    has[n++] = tri__run_gradient(up, run);
    has[n++] = up->hyper, has[n++] = up->coef, has[n++] = up->pass->out.apply;
    for (int k = row->n_args - 1; k >= 0; k--)
        if (row->arg[k].access) slots[k] = has[--n];
    tri__build(&up->build, op, slots, attr);
}

void tri__run_adamw(tri_updating *up, const tri_run *run) {
    run_op(up, run, TRI_OP_adamw, 2, tri__run_attr(up, run));
}

static void emit_run(tri_updating *up, const tri_run *run) {
    const tri_optimizing *how = &up->pass->in->optimizer;
    const tri_optimizer *row = tri__optimizer_row(how->kind);
    tri_attr attr = tri__run_attr(up, run);
    if (!(row->takes & TRI_TAKES_BETAS)) attr.beta2 = attr.eps = 0;
    if (row->takes & TRI_TAKES_MOMENTUM) attr.nesterov = how->nesterov;
    const int *variant = up->own;
    tri__variant_set(*variant, &attr);
    run_op(up, run, tri__variant_row(*variant)->op, states_of(row), attr);
}

void tri__emit_each(tri_updating *up) {
    const tri_optimizing *how = &up->pass->in->optimizer;
    const tri_optimizer *row = tri__optimizer_row(how->kind);
    int without = row->takes & TRI_TAKES_MOMENTUM && how->beta1 == 0; /* nothing is kept */
    int *variant = up->own = tri__arena_alloc(up->pass->arena, sizeof *variant);
    *variant = tri__variant_find(row->mnemonic);
    TRI_ASSERT(*variant >= 0);
    for (int k = 0; k < states_of(row) && !without; k++)
        tri__add_state(up->pass, row->state[k].name, row->state[k].prefix);
    tri__each_run(up, emit_run);
}

int tri__build_part(tri_builder *to, int slot, tri_range held, tri_range part, const char *label) {
    int64_t count = tri__range_count(part), at = count ? part.begin - held.begin : 0;
    if (held.begin == part.begin && held.end == part.end) return slot;
    return tri__build_view(to, slot, at, 1, count, "%s.%s", to->program->slot[slot].name, label);
}

int tri__update_part(tri_updating *up, int slot, tri_range held, tri_range part) {
    int64_t count = tri__range_count(part), at = count ? part.begin - held.begin : 0;
    if (held.begin == part.begin && held.end == part.end) return slot;
    int known = known_view(up, slot, at, count);
    if (known >= 0) return known;
    const tri_program *p = up->pass->program;
    const char *own = tri__arena_print(up->pass->arena, "%s.own", p->slot[slot].name);
    int taken = p->gates && tri__program_find(p, own) >= 0; /* another kind of step has another part */
    if (taken) own = tri__arena_print(up->pass->arena, "%s.%lld-%lld", own, (long long)part.begin, (long long)part.end);
    return tri__build_view(&up->build, slot, at, 1, count, "%s", own);
}

int tri__no_elements(tri_updating *up, const int *grad, const char *name) {
    int u = 0, n = up->pass->model->n_units;
    while (u < n && grad[u] < 0) u++;
    return tri__build_view(&up->build, u < n ? grad[u] : up->pass->out.param[0], 0, 1, 0, "%s", name);
}

void tri__update_reduce(tri_updating *up, tri_attr group, int slot) {
    tri__build_post(&up->build, TRI_OP_all_reduce_post, group, (tri_ends){slot, -1});
    tri__build_wait(&up->build, (tri_ends){slot, -1});
}
