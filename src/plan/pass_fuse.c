/* pass_fuse.c - pass: replaces runs of operations by fused ones that the target has.
 *
 *   linear; gelu                              -> linear_gelu, and so for each activation, and experts
 *   [scale;] [dropout;] add; norm             -> dropout_add_norm
 *   norm_din; norm_dw; [add_din; [dropout_din;] [scale_din]] [linear_din; linear_dw; bias_dw]
 *                                             -> dropout_add_norm_din [linear_din; linear_dw]
 *   gelu_din; linear_din; linear_dw; bias_dw  -> gelu_din_db; linear_din; linear_dw, and so for each activation
 *   linear_din; linear_dw; gelu_din_db        -> linear_dw; linear_gelu_din
 *   attention_din; linear_din; linear_dw; bias_dw -> attention_din_db; linear_din; linear_dw
 *
 * A value inside a run disappears only when nothing else reads it. Runs are consecutive, as the model and the backward
 * pass write them. The last four compute sums over tokens where the values are written. Where the schedule separates
 * gradients of weights from those of inputs, norm_dw and bias_dw are kept and give the same bits (except those of
 * attention and of linear_gelu_din on a GPU, docs/internals/cuda.md). linear_gelu_din has no form of quantised factors
 * (pass_quantize.c): such a layer keeps its linear_din. */
#include "plan/pass.h"

typedef struct fuser {
    const tri_pass *pass;
    tri_program *program;
    int *reads;         /* [n_slots] how many operands read each slot */
    int at, n;          /* next instruction to read; instructions kept */
    int apart;          /* 1: gradients of weights stay separate from those of inputs */
} fuser;

static int has(const fuser *f, tri_op op, const tri_attr *attr) {
    return tri__target_has(f->pass->in->target, op, attr, f->pass->in->precision);
}

/* The instruction `ahead` places further, if it is of that operation, of the same unit, which stages have whole, and
 * runs in the same steps. */
static const tri_instr *peek(const fuser *f, int ahead, tri_op op) {
    int i = f->at + ahead;
    const tri_instr *first = &f->program->instr[f->at], *instr = first + ahead;
    if (i >= f->program->n_instrs || instr->op != op) return NULL;
    return instr->unit == first->unit && instr->layer == first->layer ? instr : NULL;
}

/* The same of a gradient, of an operation that is its own adjoint. */
static const tri_instr *peek_back(const fuser *f, int ahead, tri_op op) {
    const tri_instr *instr = peek(f, ahead, op);
    return instr && instr->attr.back ? instr : NULL;
}

static void keep(fuser *f, tri_instr instr) { f->program->instr[f->n++] = instr; }

/* Operand `to` of the fused instruction becomes operand `from` of one it replaces, with its acc bit. */
static void take(tri_instr *fused, int to, const tri_instr *instr, int from) {
    fused->slot[to] = instr->slot[from];
    fused->acc |= (uint16_t)((instr->acc >> from & 1) << to);
}

/* TAKE(&fused, act_din, db, bias, bias_dw, db): db of fused, an act_din, becomes db of `bias`, a bias_dw. */
#define TAKE(fused, fused_op, to, instr, op, from) take(fused, TRI_ARG(fused_op, to), instr, TRI_ARG(op, from))

/* Each try_ returns how many instructions it replaced; 0 when it does not apply. */

static int try_linear_act(fuser *f) {
    const tri_instr *linear = peek(f, 0, TRI_OP_linear), *act = peek(f, 1, TRI_OP_act);
    if (!linear || !act || TRI_SLOT(act, act, x) != TRI_SLOT(linear, linear, y)) return 0;
    tri_instr fused = *linear;
    fused.attr.activation = act->attr.activation;
    if (TRI_SLOT(linear, linear, b) < 0 || !has(f, TRI_OP_linear, &fused.attr)) return 0;
    TAKE(&fused, linear, h, linear, linear, y);
    TAKE(&fused, linear, y, act, act, y);
    keep(f, fused);
    return 2;
}

static int try_dropout_add_norm(fuser *f) {
    const tri_instr *scale = peek(f, 0, TRI_OP_scale), *dropout = peek(f, scale ? 1 : 0, TRI_OP_dropout);
    int first = (scale != NULL) + (dropout != NULL);
    const tri_instr *add = peek(f, first, TRI_OP_add), *norm = peek(f, first + 1, TRI_OP_norm);
    if (!add || !norm || TRI_SLOT(norm, norm, x) != TRI_SLOT(add, add, y) || f->reads[TRI_SLOT(add, add, y)] != 1)
        return 0;
    if (dropout && (TRI_SLOT(add, add, a) != TRI_SLOT(dropout, dropout, y) ||
                    f->reads[TRI_SLOT(dropout, dropout, y)] != 1))
        return 0;
    int x = dropout ? TRI_SLOT(dropout, dropout, x) : TRI_SLOT(add, add, a);
    if (scale && (TRI_SLOT(scale, scale, y) != x || f->reads[x] != 1)) return 0;
    tri_instr fused = *norm;
    fused.attr.residual = 1;
    if (!has(f, TRI_OP_norm, &fused.attr)) return 0;
    if (dropout) fused.attr.p = dropout->attr.p, fused.attr.id = dropout->attr.id;
    if (scale) TAKE(&fused, norm, x, scale, scale, x);
    else if (dropout) TAKE(&fused, norm, x, dropout, dropout, x);
    else TAKE(&fused, norm, x, add, add, a);
    TAKE(&fused, norm, res, add, add, b);
    if (dropout) TAKE(&fused, norm, key, dropout, dropout, key);
    if (scale) TAKE(&fused, norm, s, scale, scale, s);
    keep(f, fused);
    return first + 2;
}

/* The bias gradient of a dense layer whose gradients begin `ahead` instructions further and read `dy`; NULL: none. */
static const tri_instr *bias_after(const fuser *f, int ahead, int dy) {
    const tri_instr *din = peek(f, ahead, TRI_OP_linear_din), *dw = peek(f, ahead + 1, TRI_OP_linear_dw);
    const tri_instr *bias = peek(f, ahead + 2, TRI_OP_bias_dw);
    if (f->apart || !din || !dw || !bias || bias->attr.experts) return NULL;
    int same = TRI_SLOT(din, linear_din, dy) == dy && TRI_SLOT(dw, linear_dw, dy) == dy &&
               TRI_SLOT(bias, bias_dw, dy) == dy;
    return same ? bias : NULL;
}

/* Keeps that layer's other gradients; returns how many instructions its gradients are. */
static int keep_linear(fuser *f, const tri_instr *bias) {
    keep(f, bias[-2]), keep(f, bias[-1]);
    return 3;
}

/* The operations that dropout_add_norm_din replaces; NULL where absent. */
typedef struct norm_run {
    const tri_instr *din, *dw, *add, *dropout, *scale, *bias; /* norm_din, norm_dw, add_din, ..._din, bias_dw */
} norm_run;

/* The gradients of the inputs: the last of the run writes dx, add_din writes dres. */
static void take_norm_din(tri_instr *fused, const norm_run *r) {
    if (r->scale) TAKE(fused, norm_din, dx, r->scale, scale, y);
    else if (r->dropout) TAKE(fused, norm_din, dx, r->dropout, dropout, y);
    else if (r->add) TAKE(fused, norm_din, dx, r->add, add_din, da);
    if (r->add) TAKE(fused, norm_din, dres, r->add, add_din, db);
    if (r->dropout) TAKE(fused, norm_din, key, r->dropout, dropout, key);
    if (r->scale) TAKE(fused, norm_din, s, r->scale, scale, s);
}

static void take_norm_dw(tri_instr *fused, const norm_run *r) {
    TAKE(fused, norm_din, dg, r->dw, norm_dw, dg);
    TAKE(fused, norm_din, db, r->dw, norm_dw, db);
    if (r->bias) TAKE(fused, norm_din, dbias, r->bias, bias_dw, db);
}

/* Drops operations from the run whose input something else reads, too. */
static void shorten(const fuser *f, norm_run *r) {
    int dx = TRI_SLOT(r->din, norm_din, dx);
    if (r->add && (TRI_SLOT(r->add, add_din, dy) != dx || f->reads[dx] != 1 || r->din->acc)) r->add = NULL;
    if (!r->add) return;
    int da = TRI_SLOT(r->add, add_din, da);
    r->dropout = peek_back(f, 3, TRI_OP_dropout);
    if (r->dropout && (TRI_SLOT(r->dropout, dropout, x) != da || f->reads[da] != 1)) r->dropout = NULL;
    if (r->dropout) da = TRI_SLOT(r->dropout, dropout, y);
    r->scale = peek_back(f, r->dropout ? 4 : 3, TRI_OP_scale);
    int overwrites = r->dropout ? !r->dropout->acc : !(r->add->acc >> TRI_ARG(add_din, da) & 1);
    if (r->scale && (TRI_SLOT(r->scale, scale, x) != da || f->reads[da] != 1 || !overwrites)) r->scale = NULL;
}

static int try_dropout_add_norm_din(fuser *f) {
    norm_run r = {.din = peek(f, 0, TRI_OP_norm_din), .dw = peek(f, 1, TRI_OP_norm_dw),
                  .add = peek(f, 2, TRI_OP_add_din)};
    if (!r.din || !r.dw || TRI_SLOT(r.dw, norm_dw, dy) != TRI_SLOT(r.din, norm_din, dy)) return 0;
    tri_instr fused = *r.din;
    fused.attr.residual = 1;
    if (!has(f, TRI_OP_norm_din, &fused.attr)) return 0;
    shorten(f, &r);
    if (!r.add && f->apart) return 0;
    int taken = 2 + (r.add != NULL) + (r.dropout != NULL) + (r.scale != NULL);
    if (r.dropout) fused.attr.p = r.dropout->attr.p, fused.attr.id = r.dropout->attr.id;
    take_norm_din(&fused, &r);
    r.bias = bias_after(f, taken, TRI_SLOT(&fused, norm_din, dx));
    if (!f->apart) take_norm_dw(&fused, &r);
    keep(f, fused);
    if (f->apart) keep(f, *r.dw);
    return taken + (r.bias ? keep_linear(f, r.bias) : 0);
}

/* If the last instructions kept are a dense layer's gradients, and only `act` reads that of its input, makes the
 * linear_din one back through `act` and takes it from the list: *din. */
static int take_linear_din(fuser *f, const tri_instr *act, tri_instr *din) {
    tri_instr *kept = f->program->instr + f->n;
    int dy = TRI_SLOT(act, act_din, dy);
    if (f->n < 2 || kept[-1].op != TRI_OP_linear_dw || kept[-2].op != TRI_OP_linear_din || kept[-2].acc || act->acc ||
        (kept[-2].attr.bits && !f->pass->in->fp8) || TRI_SLOT(&kept[-2], linear_din, dx) != dy || f->reads[dy] != 1)
        return 0;
    *din = kept[-2];
    din->attr.activation = act->attr.activation;
    if (!has(f, TRI_OP_linear_din, &din->attr)) return 0;
    din->unit = act->unit, din->mb = act->mb, din->layer = act->layer;
    kept[-2] = kept[-1];
    f->n--;
    return 1;
}

/* What the slope is computed from: x or y. */
static int slope_slot(const tri_instr *act) {
    return TRI_SLOT(act, act_din, x) < 0 ? TRI_SLOT(act, act_din, y) : TRI_SLOT(act, act_din, x);
}

static int try_act_din_db(fuser *f) {
    const tri_instr *act = peek(f, 0, TRI_OP_act_din);
    const tri_instr *bias = act ? bias_after(f, 1, TRI_SLOT(act, act_din, dx)) : NULL;
    if (!bias) return 0;
    tri_instr fused = *act, din;
    fused.attr.sums = 1;
    if (!has(f, TRI_OP_act_din, &fused.attr)) return 0;
    if (take_linear_din(f, act, &din)) {
        TAKE(&din, linear_din, dx, act, act_din, dx);
        TAKE(&din, linear_din, db, bias, bias_dw, db);
        TRI_SLOT(&din, linear_din, h) = slope_slot(act);
        fused = din;
    } else {
        TAKE(&fused, act_din, db, bias, bias_dw, db);
    }
    keep(f, fused);
    return 1 + keep_linear(f, bias);
}

static int try_attention_din_db(fuser *f) {
    const tri_instr *din = peek(f, 0, TRI_OP_attention_din);
    const tri_instr *bias = din ? bias_after(f, 1, TRI_SLOT(din, attention_din, dqkv)) : NULL;
    if (!bias) return 0;
    tri_instr fused = *din;
    fused.attr.sums = 1;
    if (!has(f, TRI_OP_attention_din, &fused.attr)) return 0;
    TAKE(&fused, attention_din, db, bias, bias_dw, db);
    keep(f, fused);
    return 1 + keep_linear(f, bias);
}

tri_status tri__pass_fuse(tri_pass *pass) {
    static int (*const patterns[])(fuser *) = {try_linear_act, try_dropout_add_norm, try_dropout_add_norm_din,
                                               try_act_din_db, try_attention_din_db};
    tri_program *program = pass->program;
    fuser f = {.pass = pass, .program = program};
    f.apart = pass->stages->pipeline.n_ranks > 1 && tri__schedule_row(pass->in->staging.schedule)->apart;
    f.reads = tri__arena_alloc(pass->arena, (size_t)program->n_slots * sizeof *f.reads);
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_op_row *row = tri__instr_row(&program->instr[i]);
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
