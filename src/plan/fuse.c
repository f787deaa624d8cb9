/* fuse.c - pass: replaces runs of operations by fused ones that the target has.
 *
 *   linear; gelu                              -> linear_gelu
 *   [dropout;] add; norm                      -> dropout_add_norm
 *   norm_din; norm_dw; add_din; [dropout_din] -> dropout_add_norm_din; norm_dw
 *
 * A value inside a run disappears only when nothing else reads it. Runs are consecutive: that is how the model and the
 * backward pass write them. */
#include "plan/plan.h"

typedef struct fuser {
    const tri_pass *pass;
    tri_program *program;
    int *reads;         /* [n_slots] how many operands read each slot */
    int at, n;          /* next instruction to read; instructions kept */
} fuser;

static int has(const fuser *f, tri_op op) { return f->pass->in->target->has[op][f->pass->in->precision]; }

/* The instruction `ahead` places on, when it is of that operation. */
static const tri_instr *peek(const fuser *f, int ahead, tri_op op) {
    int i = f->at + ahead;
    return i < f->program->n_instrs && f->program->instr[i].op == op ? &f->program->instr[i] : NULL;
}

static void keep(fuser *f, tri_instr instr) { f->program->instr[f->n++] = instr; }

static tri_instr made(tri_op op, const tri_instr *like, tri_attr attr, unsigned acc, const int slots[TRI_MAX_ARGS]) {
    tri_instr instr = {.op = (uint16_t)op, .acc = (uint16_t)acc, .unit = like->unit, .mb = like->mb, .attr = attr};
    for (int k = 0; k < TRI_MAX_ARGS; k++) instr.slot[k] = k < tri__op_row(op)->n_args ? slots[k] : -1;
    return instr;
}

/* Each try_ returns how many instructions it replaced; 0 when it does not apply. */

static int try_linear_gelu(fuser *f) {
    const tri_instr *linear = peek(f, 0, TRI_OP_linear), *gelu = peek(f, 1, TRI_OP_gelu);
    if (!linear || !gelu || gelu->slot[1] != linear->slot[0] || !has(f, TRI_OP_linear_gelu)) return 0;
    keep(f, made(TRI_OP_linear_gelu, linear, (tri_attr){0}, 0,
                 (int[TRI_MAX_ARGS]){gelu->slot[0], linear->slot[0], linear->slot[1], linear->slot[2], linear->slot[3]}));
    return 2;
}

static int try_dropout_add_norm(fuser *f) {
    const tri_instr *dropout = peek(f, 0, TRI_OP_dropout);
    int first = dropout ? 1 : 0;
    const tri_instr *add = peek(f, first, TRI_OP_add), *norm = peek(f, first + 1, TRI_OP_norm);
    if (!add || !norm || norm->slot[3] != add->slot[0] || f->reads[add->slot[0]] != 1) return 0;
    if (dropout && (add->slot[1] != dropout->slot[0] || f->reads[dropout->slot[0]] != 1)) return 0;
    if (!has(f, TRI_OP_dropout_add_norm)) return 0;
    tri_attr attr = norm->attr;
    if (dropout) attr.p = dropout->attr.p, attr.id = dropout->attr.id;
    int x = dropout ? dropout->slot[1] : add->slot[1], key = dropout ? dropout->slot[2] : -1;
    keep(f, made(TRI_OP_dropout_add_norm, norm, attr, 0,
                 (int[TRI_MAX_ARGS]){norm->slot[0], norm->slot[1], norm->slot[2], x, add->slot[2], norm->slot[4], norm->slot[5], key}));
    return first + 2;
}

static int try_dropout_add_norm_din(fuser *f) {
    const tri_instr *din = peek(f, 0, TRI_OP_norm_din), *dw = peek(f, 1, TRI_OP_norm_dw), *add = peek(f, 2, TRI_OP_add_din);
    if (!din || !dw || !add || add->slot[2] != din->slot[0] || f->reads[din->slot[0]] != 1 || din->acc) return 0;
    const tri_instr *dropout = peek(f, 3, TRI_OP_dropout_din);
    if (dropout && (dropout->slot[1] != add->slot[0] || f->reads[add->slot[0]] != 1)) dropout = NULL;
    if (!has(f, TRI_OP_dropout_add_norm_din)) return 0;
    tri_attr attr = din->attr;
    if (dropout) attr.p = dropout->attr.p, attr.id = dropout->attr.id;
    int dx = dropout ? dropout->slot[0] : add->slot[0];
    unsigned dx_acc = dropout ? dropout->acc & 1 : add->acc & 1;
    tri_instr kept = *dw;
    keep(f, made(TRI_OP_dropout_add_norm_din, din, attr, dx_acc | (add->acc & 2),
                 (int[TRI_MAX_ARGS]){dx, add->slot[1], din->slot[1], din->slot[2], din->slot[3], din->slot[4],
                                     dropout ? dropout->slot[2] : -1}));
    keep(f, kept);
    return dropout ? 4 : 3;
}

void tri__pass_fuse(tri_pass *pass) {
    static int (*const patterns[])(fuser *) = {try_linear_gelu, try_dropout_add_norm, try_dropout_add_norm_din};
    tri_program *program = pass->program;
    fuser f = {.pass = pass, .program = program};
    f.reads = tri__arena_alloc(pass->arena, (size_t)program->n_slots * sizeof *f.reads);
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_op_row *row = tri__op_row(program->instr[i].op);
        for (int k = 0; k < row->n_args; k++)
            if (program->instr[i].slot[k] >= 0 && tri__access_reads(row->arg[k].access)) f.reads[program->instr[i].slot[k]]++;
    }
    while (f.at < program->n_instrs) {
        int taken = 0;
        for (size_t p = 0; p < sizeof patterns / sizeof patterns[0] && !taken; p++) taken = patterns[p](&f);
        if (!taken) {
            keep(&f, program->instr[f.at]);
            taken = 1;
        }
        f.at += taken;
    }
    program->n_instrs = f.n;
}
