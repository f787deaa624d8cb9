/* schedule.c - pass: unrolls the template of one microbatch into all microbatches of a step, one after the other.
 *
 * Activations get a copy for each microbatch, "name#k". Everything else is shared: gradients of weights and the loss are
 * written by microbatch 0 and added to by the rest. Slots that no instruction uses are dropped. */
#include "plan/plan.h"

typedef struct unroll {
    tri_pass *pass;
    const tri_program *from;
    tri_builder to;
    int *shared;   /* [slots of from] new index of a slot that microbatches share; -1 */
    int *own;      /* [slots of from] new index in the current microbatch; -1 */
} unroll;

static int is_own(const tri_slot *slot) { return slot->mem == TRI_MEM_ACT; }

static int map_slot(unroll *u, int slot) {
    if (slot < 0) return -1;
    const tri_slot *s = &u->from->slot[slot];
    int *index = is_own(s) ? &u->own[slot] : &u->shared[slot];
    if (*index >= 0) return *index;
    tri_builder at = u->to;
    at.unit = s->unit;
    if (s->parent >= 0) {
        int parent = map_slot(u, s->parent);
        return *index = tri__build_view(&at, parent, s->parent_at, s->rows.add, s->cols, "%s", s->name);
    }
    if (is_own(s)) return *index = tri__build_slot(&at, s->mem, s->dtype, s->rows, s->cols, "%s#%d", s->name, u->to.mb);
    return *index = tri__build_slot(&at, s->mem, s->dtype, s->rows, s->cols, "%s", s->name);
}

static void unroll_one(unroll *u, int mb) {
    u->to.mb = mb;
    for (int s = 0; s < u->from->n_slots; s++) u->own[s] = -1;
    for (int i = 0; i < u->from->n_instrs; i++) {
        const tri_instr *instr = &u->from->instr[i];
        const tri_op_row *row = tri__op_row(instr->op);
        int slots[TRI_MAX_ARGS];
        unsigned acc = instr->acc;
        for (int k = 0; k < row->n_args; k++) {
            slots[k] = map_slot(u, instr->slot[k]);
            if (mb > 0 && slots[k] >= 0 && row->arg[k].access == TRI_ACCESS_A && !is_own(&u->from->slot[instr->slot[k]])) acc |= 1u << k;
        }
        u->to.unit = instr->unit;
        tri__build(&u->to, instr->op, slots, instr->attr)->acc = (uint16_t)acc;
    }
}

void tri__pass_schedule(tri_pass *pass, int n_mb) {
    const tri_program *from = pass->program;
    tri_program *to = tri__program_new(pass->arena, from->title);
    to->mesh = from->mesh;
    to->rank = from->rank;
    to->n_mb = n_mb;
    unroll u = {.pass = pass, .from = from, .to = {.arena = pass->arena, .program = to}};
    u.shared = tri__arena_alloc(pass->arena, (size_t)from->n_slots * sizeof *u.shared);
    u.own = tri__arena_alloc(pass->arena, (size_t)from->n_slots * sizeof *u.own);
    for (int s = 0; s < from->n_slots; s++) u.shared[s] = u.own[s] = -1;
    for (int i = 0; i < from->n_units; i++) tri__build_unit(&u.to, from->unit[i]);

    int n_units = pass->model->n_units;
    for (int i = 0; i < n_units; i++) pass->out.param[i] = map_slot(&u, pass->forward.unit_slot[i]);
    for (int mb = 0; mb < n_mb; mb++) unroll_one(&u, mb);
    for (int i = 0; i < n_units && pass->unit_grad; i++) pass->unit_grad[i] = map_slot(&u, pass->unit_grad[i]);
    pass->out.loss = u.shared[pass->forward.loss];
    pass->out.probs = map_slot(&u, pass->forward.probs);
    pass->out.program = pass->program = to;
}
