/* pass_fuse.c - pass: replaces runs of operations by fused ones that the target has.
 *
 *   linear; gelu                              -> linear_gelu
 *   [dropout;] add; norm                      -> dropout_add_norm
 *   norm_din; norm_dw; [add_din; [dropout_din]] [linear_din; linear_dw; bias_dw]
 *                                             -> dropout_add_norm_din [linear_din; linear_dw]
 *   gelu_din; linear_din; linear_dw; bias_dw  -> gelu_din_db; linear_din; linear_dw
 *   linear_din; linear_dw; gelu_din_db        -> linear_dw; linear_gelu_din
 *   attention_din; linear_din; linear_dw; bias_dw -> attention_din_db; linear_din; linear_dw
 *
 * A value inside a run disappears only when nothing else reads it. Runs are consecutive: that is how the model and the
 * backward pass write them. In the last four, sums over tokens are formed where the values are made. Where the schedule
 * wants gradients of weights apart from those of inputs, they stay so: norm_dw and bias_dw are kept, and give the same
 * bits (but for those of attention and of linear_gelu_din on a GPU, docs/cuda.md). */
#include "plan/pipeline/stage.h"

typedef struct fuser {
    const tri_pass *pass;
    tri_program *program;
    int *reads;         /* [n_slots] how many operands read each slot */
    int at, n;          /* next instruction to read; instructions kept */
    int apart;          /* gradients of weights stay apart from those of inputs */
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
    keep(f,
         made(TRI_OP_linear_gelu, linear, (tri_attr){0}, 0,
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
                 (int[TRI_MAX_ARGS]){norm->slot[0], norm->slot[1], norm->slot[2], x, add->slot[2], norm->slot[4],
                                     norm->slot[5], key}));
    return first + 2;
}

/* The gradient of the bias of a dense layer whose gradients stand `ahead`, where dy is that of its output; NULL
 * none. */
static const tri_instr *bias_after(const fuser *f, int ahead, int dy) {
    const tri_instr *din = peek(f, ahead, TRI_OP_linear_din), *dw = peek(f, ahead + 1, TRI_OP_linear_dw);
    const tri_instr *bias = peek(f, ahead + 2, TRI_OP_bias_dw);
    return !f->apart && din && dw && bias && din->slot[1] == dy && dw->slot[1] == dy && bias->slot[1] == dy ? bias
                                                                                                            : NULL;
}

/* Keeps the other gradients of that layer; returns how many instructions all of its are. */
static int keep_linear(fuser *f, const tri_instr *bias) {
    keep(f, bias[-2]), keep(f, bias[-1]);
    return 3;
}

static int try_dropout_add_norm_din(fuser *f) {
    const tri_instr *din = peek(f, 0, TRI_OP_norm_din), *dw = peek(f, 1, TRI_OP_norm_dw),
                    *add = peek(f, 2, TRI_OP_add_din);
    if (!din || !dw || dw->slot[2] != din->slot[1] || !has(f, TRI_OP_dropout_add_norm_din)) return 0;
    if (add && (add->slot[2] != din->slot[0] || f->reads[din->slot[0]] != 1 || din->acc)) add = NULL;
    if (!add && f->apart) return 0;
    const tri_instr *dropout = add ? peek(f, 3, TRI_OP_dropout_din) : NULL;
    if (dropout && (dropout->slot[1] != add->slot[0] || f->reads[add->slot[0]] != 1)) dropout = NULL;
    const tri_instr *last = dropout ? dropout : add ? add : din; /* it writes dx */
    int taken = 2 + (add != NULL) + (dropout != NULL), dx = last->slot[0];
    const tri_instr *bias = bias_after(f, taken, dx);
    unsigned acc = (last->acc & 1) | (add ? add->acc & 2 : 0);
    if (!f->apart) acc |= (unsigned)(dw->acc & 3) << 2 | (bias ? (unsigned)(bias->acc & 1) << 4 : 0);
    tri_attr attr = din->attr;
    if (dropout) attr.p = dropout->attr.p, attr.id = dropout->attr.id;
    keep(f, made(TRI_OP_dropout_add_norm_din, din, attr, acc,
                 (int[TRI_MAX_ARGS]){dx, add ? add->slot[1] : -1, f->apart ? -1 : dw->slot[0],
                                     f->apart ? -1 : dw->slot[1], bias ? bias->slot[0] : -1, din->slot[1], din->slot[2],
                                     din->slot[3], din->slot[4], dropout ? dropout->slot[2] : -1}));
    if (f->apart) keep(f, *dw);
    return taken + (bias ? keep_linear(f, bias) : 0);
}

/* The last of what was kept, when it is a dense layer's gradients and that of its input is only read by `gelu`: taken
 * back, and returned. */
static int take_linear_din(fuser *f, const tri_instr *gelu, tri_instr *din) {
    tri_instr *kept = f->program->instr + f->n;
    if (f->n < 2 || kept[-1].op != TRI_OP_linear_dw || kept[-2].op != TRI_OP_linear_din || kept[-2].acc || gelu->acc ||
        kept[-2].slot[0] != gelu->slot[1] || f->reads[gelu->slot[1]] != 1 || !has(f, TRI_OP_linear_gelu_din))
        return 0;
    *din = kept[-2];
    kept[-2] = kept[-1];
    f->n--;
    return 1;
}

static int try_gelu_din_db(fuser *f) {
    const tri_instr *gelu = peek(f, 0, TRI_OP_gelu_din), *bias = gelu ? bias_after(f, 1, gelu->slot[0]) : NULL;
    tri_instr din;
    if (!bias || !has(f, TRI_OP_gelu_din_db)) return 0;
    unsigned acc = (gelu->acc & 1) | (unsigned)(bias->acc & 1) << 1;
    if (take_linear_din(f, gelu, &din))
        keep(f, made(TRI_OP_linear_gelu_din, gelu, gelu->attr, acc,
                     (int[TRI_MAX_ARGS]){gelu->slot[0], bias->slot[0], din.slot[1], din.slot[2], gelu->slot[2]}));
    else
        keep(f, made(TRI_OP_gelu_din_db, gelu, gelu->attr, acc,
                     (int[TRI_MAX_ARGS]){gelu->slot[0], bias->slot[0], gelu->slot[1], gelu->slot[2]}));
    return 1 + keep_linear(f, bias);
}

static int try_attention_din_db(fuser *f) {
    const tri_instr *din = peek(f, 0, TRI_OP_attention_din), *bias = din ? bias_after(f, 1, din->slot[0]) : NULL;
    if (!bias || !has(f, TRI_OP_attention_din_db)) return 0;
    keep(f, made(TRI_OP_attention_din_db, din, din->attr, (din->acc & 1) | (unsigned)(bias->acc & 1) << 1,
                 (int[TRI_MAX_ARGS]){din->slot[0], bias->slot[0], din->slot[1], din->slot[2], din->slot[3],
                                     din->slot[4], din->slot[5], din->slot[6]}));
    return 1 + keep_linear(f, bias);
}

tri_status tri__pass_fuse(tri_pass *pass) {
    static int (*const patterns[])(fuser *) = {try_linear_gelu, try_dropout_add_norm, try_dropout_add_norm_din,
                                               try_gelu_din_db, try_attention_din_db};
    tri_program *program = pass->program;
    fuser f = {.pass = pass, .program = program};
    f.apart = pass->stages->pipeline.n_ranks > 1 && tri__schedule_row(pass->in->staging.schedule)->apart;
    f.reads = tri__arena_alloc(pass->arena, (size_t)program->n_slots * sizeof *f.reads);
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_op_row *row = tri__op_row(program->instr[i].op);
        for (int k = 0; k < row->n_args; k++)
            if (program->instr[i].slot[k] >= 0 && tri__access_reads(row->arg[k].access))
                f.reads[program->instr[i].slot[k]]++;
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
    return TRI_OK;
}
