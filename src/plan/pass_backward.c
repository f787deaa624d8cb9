/* pass_backward.c - pass: adds the adjoint of each operation, in reverse order, from the operation's row.
 *
 * An adjoint is text, "op outputs <- inputs; ...": a name with d in front is the gradient of the operand of that name,
 * any other the operand itself. A gradient's first contribution writes its slot, later ones add to it. Gradients that
 * nothing needs (of inputs) are not computed. */
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

typedef struct backward {
    tri_pass *pass;
    tri_builder build;
    int n_forward;         /* slots of the forward program, which may have gradients */
    int *grad;             /* [n_forward] the gradient slot of each slot; -1 */
    uint8_t *written;      /* [slots] 1: the gradient slot has its first contribution */
    uint8_t *is_input;     /* [n_forward] */
} backward;

/* The flat gradient of a unit's parameters. */
static int unit_grad(backward *b, int unit) {
    int *slot = &b->pass->unit_grad[unit];
    if (*slot < 0) {
        const tri_unit *u = &b->pass->model->unit[unit];
        tri_builder at = b->build;
        at.unit = b->pass->program->slot[b->pass->forward.unit_slot[unit]].unit;
        *slot = tri__build_slot(&at, TRI_MEM_GRAD, TRI_F32, (tri_rows){.add = 1}, u->count, "g.%s", u->name);
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

/* The forward operand that a name in an adjoint means; *gradient: whether it means the operand's gradient. */
static int operand_of(const tri_instr *of, const char *name, int *gradient) {
    int k = tri__op_arg(of->op, name);
    *gradient = k < 0;
    if (k < 0 && name[0] == 'd') k = tri__op_arg(of->op, name + 1);
    TRI_ASSERT(k >= 0);
    return k;
}

/* Appends one operation of an adjoint: `text` is "op outputs <- inputs". */
static void emit(backward *b, const tri_instr *of, char *text) {
    int slots[TRI_MAX_ARGS], n = 0, outputs = 1, wanted = 0;
    unsigned acc = 0;
    char *save = NULL, *word = strtok_r(text, " ", &save);
    int op = tri__op_find(word);
    TRI_ASSERT(op >= 0);
    while ((word = strtok_r(NULL, " ", &save))) {
        if (strcmp(word, "<-") == 0) {
            outputs = 0;
            continue;
        }
        int gradient, forward = of->slot[operand_of(of, word, &gradient)];
        TRI_ASSERT(n < TRI_MAX_ARGS);
        slots[n] = forward;
        if (forward >= 0 && outputs && b->is_input[forward]) slots[n] = -1;
        else if (forward >= 0 && gradient) slots[n] = grad_of(b, forward);
        if (outputs && slots[n] >= 0) {
            wanted = 1;
            acc |= (unsigned)b->written[slots[n]] << n;
            b->written[slots[n]] = 1;
        }
        n++;
    }
    const tri_op_row *row = tri__op_row((tri_op)op);
    for (; n < row->n_args && row->arg[n].optional; n++) slots[n] = -1;
    TRI_ASSERT(n == row->n_args);
    if (!wanted) return;
    b->build.unit = of->unit;
    tri__build(&b->build, (tri_op)op, slots, of->attr)->acc = (uint16_t)acc;
}

tri_status tri__pass_backward(tri_pass *pass) {
    tri_program *program = pass->program;
    int n_forward = program->n_slots, n_instrs = program->n_instrs, room = 2 * n_forward + pass->model->n_units;
    backward b = {.pass = pass, .build = pass->forward.build, .n_forward = n_forward};
    b.written = tri__arena_alloc(pass->arena, (size_t)room);
    b.is_input = tri__arena_alloc(pass->arena, (size_t)n_forward);
    b.grad = tri__arena_alloc(pass->arena, (size_t)n_forward * sizeof *b.grad);
    pass->unit_grad = tri__arena_alloc(pass->arena, (size_t)pass->model->n_units * sizeof *pass->unit_grad);
    for (int i = 0; i < n_forward; i++) b.grad[i] = -1;
    for (int u = 0; u < pass->model->n_units; u++) pass->unit_grad[u] = -1;
    for (int i = 0; i < n_instrs; i++)
        if (program->instr[i].op == TRI_OP_input) b.is_input[TRI_SLOT(&program->instr[i], input, y)] = 1;

    for (int i = n_instrs - 1; i >= 0; i--) {
        const tri_instr of = program->instr[i]; /* a copy: appending may move the array */
        char *adjoint = tri__arena_copy(pass->arena, tri__op_row(of.op)->adjoint), *save = NULL;
        for (char *part = strtok_r(adjoint, ";", &save); part; part = strtok_r(NULL, ";", &save)) emit(&b, &of, part);
    }
    return TRI_OK;
}
