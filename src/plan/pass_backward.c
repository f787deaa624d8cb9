/* pass_backward.c - pass: adds the adjoint of each operation, in reverse order, from the operation's row.
 *
 * An adjoint is text, "op outputs <- inputs; ...": a name with d in front is the gradient of the operand of that name,
 * any other the operand itself. A gradient's first contribution writes its slot, later ones add to it. Gradients that
 * nothing needs (of inputs, of frozen units, of values that depend on nothing else) or that do not exist (of integers)
 * are not computed: backward ends above what is frozen. An operation of a layer that steps
 * leave out has its adjoint in the same steps; so first contributions are counted for both cases, the open and the
 * closed layer. */
#include "plan/pass.h"

/* Steps in which a contribution is made: those in which its layer's gate is open, closed; both where it has none. */
enum { OPEN = 1, CLOSED = 2, ALWAYS = OPEN | CLOSED };

typedef struct backward {
    tri_pass *pass;
    tri_builder build;
    int n_forward;         /* slots of the forward program, which may have gradients */
    int *grad;             /* [n_forward] the gradient slot of each slot; -1 */
    uint8_t *written;      /* [slots] whether the gradient slot has its first contribution, OPEN and CLOSED or-ed */
    int *layer;            /* [slots] the gate of the layer of the last contribution that had one, as in tri_instr */
    uint8_t *is_fixed;     /* [n_forward] has no gradient: integers, and what no trained weight changes */
} backward;

/* The flat gradient of a unit's parameters. */
static int unit_grad(backward *b, int unit) {
    int *slot = &b->pass->unit_grad[unit];
    if (*slot < 0) {
        const tri_unit *u = &b->pass->model->unit[unit];
        tri_builder at = b->build;
        at.unit = b->pass->program->slot[b->pass->forward.unit_slot[unit]].unit;
        *slot = TRI_BUILD_FLAT(&at, TRI_MEM_GRAD, TRI_F32, u->count, "g.%s", u->name);
    }
    return *slot;
}

static int unit_of(const backward *b, int flat) {
    for (int u = 0; u < b->pass->model->n_units; u++)
        if (b->pass->forward.unit_slot[u] == flat) return u;
    TRI_ASSERT(!"a parameter of no unit");
    return -1;
}

/* The slot of a forward slot's gradient; created on first use. */
static int grad_of(backward *b, int slot) {
    tri_pass *pass = b->pass;
    if (b->grad[slot] >= 0) return b->grad[slot];
    const tri_slot s = pass->program->slot[slot];
    if (s.parent >= 0) { /* a view of parameters: the same view of their gradients */
        int flat = unit_grad(b, unit_of(b, s.parent));
        const char *label = s.name + strlen(pass->program->slot[s.parent].name) + 1;
        return b->grad[slot] = tri__build_view(&b->build, flat, s.parent_at, s.rows.add, s.cols, "%s.%s",
                                                  pass->program->slot[flat].name, label);
    }
    return b->grad[slot] = tri__build_slot(&b->build, TRI_MEM_ACT, s.dtype, s.rows, s.cols, "d.%s", s.name);
}

/* The forward operand that an operand of a gradient's operation is, by its name; *gradient: whether it is that
 * operand's gradient. -1: neither. */
static int operand_of(const tri_instr *of, const char *name, int *gradient) {
    const tri_op_row *row = tri__instr_row(of);
    int k = tri__row_arg(row, name);
    *gradient = k < 0;
    return k < 0 && name[0] == 'd' ? tri__row_arg(row, name + 1) : k;
}

/* Appends an operation whose first n_out operands are its outputs; layer: its gate. */
static void append(backward *b, const tri_instr *of, tri_op op, tri_attr attr, const int *slots, int n_out,
                   int layer) {
    int when = layer > 0 ? OPEN : layer < 0 ? CLOSED : ALWAYS;
    unsigned acc = 0;
    for (int k = 0; k < n_out; k++) {
        if (slots[k] < 0) continue;
        acc |= (unsigned)((b->written[slots[k]] & when) != 0) << k;
        b->written[slots[k]] |= (uint8_t)when;
        if (layer) b->layer[slots[k]] = abs(layer);
    }
    b->build.unit = of->unit, b->build.layer = layer;
    tri__build(&b->build, op, slots, attr)->acc = (uint16_t)acc;
}

/* The gate on which it depends whether an operation that always runs is the first contribution to an output; 0: none.
 * (First tokens of an encoder's last layer: their gradient is added to those of the layer, where it is open.) */
static int split_of(const backward *b, const int *slots, int n_out) {
    for (int k = 0; k < n_out; k++)
        if (slots[k] >= 0 && b->written[slots[k]] && b->written[slots[k]] != ALWAYS) return b->layer[slots[k]];
    return 0;
}

/* A slot for a gradient that an operation computes with others, and that nothing reads. */
static int unread(backward *b, const tri_instr *of, int forward) {
    const tri_slot s = b->pass->program->slot[forward];
    const char *unit = b->pass->program->unit[of->unit];
    return tri__build_slot(&b->build, TRI_MEM_ACT, TRI_F32, s.rows, s.cols, "d.%s.%s.unread", unit, s.name);
}

/* Appends one operation of an adjoint; its outputs are its first operands. */
static void emit(backward *b, const tri_instr *of, const char *name) {
    int slots[TRI_MAX_ARGS], fixed[TRI_MAX_ARGS] = {0}, n_out = 0, wanted = 0, op = tri__op_find(name);
    TRI_ASSERT(op >= 0);
    tri_attr attr = of->attr;
    attr.back = (tri_op)op == of->op; /* its own adjoint */
    const tri_op_row *row = tri__op_row((tri_op)op, &attr);
    for (int k = 0; k < row->n_args; k++) {
        int gradient, is_output = tri__access_writes(row->arg[k].access);
        slots[k] = -1;
        if (!row->arg[k].access) continue;
        if (!is_output && !wanted) return;
        int from = operand_of(of, row->arg[k].name, &gradient), forward = from < 0 ? -1 : of->slot[from];
        TRI_ASSERT(from >= 0 || row->arg[k].optional);
        if (is_output) n_out = k + 1;
        if (forward < 0) continue;
        if (is_output && b->is_fixed[forward]) fixed[k] = forward + 1;
        else slots[k] = gradient ? grad_of(b, forward) : forward;
        wanted |= is_output && slots[k] >= 0;
    }
    for (int k = 0; k < n_out; k++)
        if (fixed[k] && !row->arg[k].optional) slots[k] = unread(b, of, fixed[k] - 1);
    int split = of->layer ? 0 : split_of(b, slots, n_out);
    append(b, of, (tri_op)op, attr, slots, n_out, split ? split : of->layer);
    if (split) append(b, of, (tri_op)op, attr, slots, n_out, -split);
}

/* What no trained weight changes has no gradient: operations only on such values write such values. */
static void find_fixed(backward *b) {
    const tri_program *program = b->pass->program;
    const tri_network *model = b->pass->model;
    for (int u = 0; u < model->n_units; u++)
        for (int s = 0; s < b->n_forward && model->unit[u].frozen; s++)
            if (tri__slot_root(program, s) == b->pass->forward.unit_slot[u]) b->is_fixed[s] = 1;
    for (int s = 0; s < b->n_forward; s++)
        if (program->slot[s].mem == TRI_MEM_ACT) b->is_fixed[s] = 1;
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_instr *instr = &program->instr[i];
        int depends = 0;
        for (int k = 0; k < TRI_MAX_ARGS; k++) depends |= tri__reads(instr, k) && !b->is_fixed[instr->slot[k]];
        for (int k = 0; k < TRI_MAX_ARGS && depends; k++)
            if (tri__writes(instr, k) && program->slot[instr->slot[k]].dtype != TRI_I32)
                b->is_fixed[instr->slot[k]] = 0;
    }
}

tri_status tri__pass_backward(tri_pass *pass) {
    tri_program *program = pass->program;
    int n_forward = program->n_slots, n_instrs = program->n_instrs;
    int room = 2 * (n_forward + n_instrs) + pass->model->n_units;
    backward b = {.pass = pass, .build = pass->forward.build, .n_forward = n_forward};
    b.written = tri__arena_alloc(pass->arena, (size_t)room);
    b.layer = tri__arena_alloc(pass->arena, (size_t)room * sizeof *b.layer);
    b.is_fixed = tri__arena_alloc(pass->arena, (size_t)n_forward);
    b.grad = tri__none_yet(pass->arena, n_forward);
    pass->unit_grad = tri__none_yet(pass->arena, pass->model->n_units);
    for (int i = 0; i < n_forward; i++) b.is_fixed[i] = program->slot[i].dtype == TRI_I32;
    find_fixed(&b);
    for (int i = n_instrs - 1; i >= 0; i--) {
        const tri_instr of = program->instr[i]; /* a copy: appending may move the array */
        char *adjoint = tri__arena_copy(pass->arena, tri__instr_row(&of)->adjoint), *save = NULL;
        for (char *op = strtok_r(adjoint, "; ", &save); op; op = strtok_r(NULL, "; ", &save)) emit(&b, &of, op);
    }
    return TRI_OK;
}
