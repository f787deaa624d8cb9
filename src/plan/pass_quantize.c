/* pass_quantize.c - pass: products of 8-bit factors in the place of the encoders' dense layers, which `forward` has
 * marked by the names of their weights (attr.bits).
 *
 *   linear        y <- x w b     quantize_int8 q s <- x; linear_int8 y <- q s wq ws b
 *   linear_gelu   likewise, fused, and so with each activation
 *   linear_din    dx <- dy w     linear_int8_din dx <- dy wq ws
 *   linear_dw     dw <- dy x     linear_int8_dw dw <- dy q s
 *   embed         y <- ...       embed_int8 (not with fp8)
 *
 * Gradients are with respect to scale * q and pass through the rounding unchanged, so q takes the place of x from
 * forward to backward. A repeated operation (pass_recompute.c) quantises again; so does linear_dw where only its
 * operand was rebuilt.
 *
 * Weights are quantised at their first use in a step, after each gather. A plan that only serves keeps them in 8 bits:
 * each gets a slot of its own, which the start program fills, and the unit's flat slot shrinks. Sharded weights stay
 * as they are and are quantised after they were gathered. Either way integers come from the numbers of the computing
 * type, or from a folder's own integers: those are numbers of fp32, so shards, and tables, keep fp32 where the
 * computing type has fewer bits.
 *
 * Ranks of the tp axis that have columns of a factor each agree on the largest number of each row. */
#include "plan/pass.h"

static int32_t factors_of(tri_dtype dtype) { return dtype == TRI_I8 ? TRI_FACTORS_INT8 : TRI_FACTORS_FP8; }

/* Whether weights are kept in 8 bits, instead of being quantised at their first use. */
static int keeps_quantized(const tri_pass *pass) { return pass->serving && pass->sharding.kind < TRI_SHARD_ZERO3; }

/* ---- Which operations ---- */

void tri__mark_quantized(tri_pass *pass) {
    tri_program *program = pass->program;
    for (int i = 0; i < program->n_instrs; i++) {
        tri_instr *instr = &program->instr[i];
        int marked = tri__unit_encoder(program, instr->unit) >= 0;
        if (instr->op == TRI_OP_linear && !instr->attr.experts) {
            marked = marked && tri__is_quantized(pass, TRI_SLOT(instr, linear, w));
        } else if (instr->op == TRI_OP_embed && pass->in->quantize == TRI_I8) {
            for (int k = TRI_ARG(embed, word); k <= TRI_ARG(embed, type); k++)
                marked = marked && (instr->slot[k] < 0 || tri__is_quantized(pass, instr->slot[k]));
        } else {
            continue;
        }
        if (marked) instr->attr.bits = 8;
    }
}

/* ---- Instructions ---- */

typedef struct quantizer {
    tri_pass *pass;
    tri_builder to;
    tri_factor *of; /* [n_slots] the latest 8-bit form of a weight, or of an activation */
    int *times;        /* [n_slots] how often it was quantised */
    int *narrow;       /* [n_slots] the computing type of a gathered weight that is fp32; -1: not made */
    int n_slots;       /* of the program before this pass */
} quantizer;

void tri__build_quantize(tri_builder *to, tri_dtype dtype, int x, uint32_t axes, tri_factor into) {
    const tri_slot s = to->program->slot[x];
    int m = -1;
    if (axes) {
        m = tri__build_slot(to, TRI_MEM_ACT, TRI_F32, s.rows, 1, "%s.max", to->program->slot[into.q].name);
        TRI_BUILD(to, row_max, (tri_attr){0}, m, x);
        tri_attr group = {.most = 1, .axes = axes, .id = tri__random_id(to->program->slot[m].name)};
        TRI_BUILD(to, all_reduce_post, group, m);
        TRI_BUILD(to, wait, (tri_attr){0}, m, -1);
    }
    TRI_BUILD(to, quantize, ((tri_attr){.factors = factors_of(dtype)}), into.q, into.s, x, m);
}

/* Quantises a slot into new ones. */
static tri_factor quantize(quantizer *z, int slot, tri_mem mem, uint32_t axes) {
    const tri_slot s = z->to.program->slot[slot];
    tri_dtype dtype = z->pass->in->quantize;
    tri_factor made;
    char again[16] = "";
    if (z->times[slot]++) snprintf(again, sizeof again, "/%d", z->times[slot]);
    made.q = tri__build_slot(&z->to, mem, dtype, s.rows, s.cols, "q.%s%s", s.name, again);
    made.s = tri__build_slot(&z->to, mem, TRI_F32, s.rows, 1, "s.%s%s", s.name, again);
    tri__build_quantize(&z->to, dtype, slot, axes, made);
    return z->of[slot] = made;
}

static tri_factor weight(quantizer *z, int slot, uint32_t axes) {
    return z->of[slot].q >= 0 ? z->of[slot] : quantize(z, slot, TRI_MEM_GATHER, axes);
}

/* A weight that others than 8-bit products read, in the computing type. */
static int narrowed(quantizer *z, int slot) {
    const tri_program *program = z->to.program;
    if (slot < 0 || slot >= z->n_slots || program->slot[slot].mem != TRI_MEM_GATHER) return slot;
    if (program->slot[slot].dtype == z->pass->in->precision) return slot;
    if (z->narrow[slot] >= 0) return z->narrow[slot];
    const tri_slot s = program->slot[slot];
    int made = tri__build_slot(&z->to, TRI_MEM_GATHER, z->pass->in->precision, s.rows, s.cols, "%s.%s", s.name,
                               tri__dtype_name(z->pass->in->precision));
    TRI_BUILD(&z->to, cast, (tri_attr){0}, made, slot);
    return z->narrow[slot] = made;
}

/* The same operation with 8-bit factors: operands have the same places. */
static void append_product(quantizer *z, const tri_instr *instr) {
    tri_attr attr = {.activation = instr->attr.activation, .factors = factors_of(z->pass->in->quantize)};
    tri__build(&z->to, instr->op, instr->slot, attr)->acc = instr->acc;
}

static void append_linear(quantizer *z, tri_instr instr) {
    int *at = instr.slot, w = TRI_ARG(linear, w), x = TRI_ARG(linear, x), b = TRI_ARG(linear, b);
    tri_factor weights = weight(z, at[w], instr.attr.axes), inputs = quantize(z, at[x], TRI_MEM_ACT, instr.attr.axes);
    at[x] = inputs.q, at[TRI_ARG(linear, s)] = inputs.s, at[w] = weights.q, at[TRI_ARG(linear, ws)] = weights.s;
    at[b] = narrowed(z, at[b]);
    append_product(z, &instr);
}

static void append_linear_din(quantizer *z, tri_instr instr) {
    int *at = instr.slot, w = TRI_ARG(linear_din, w);
    tri_factor weights = weight(z, at[w], instr.attr.axes);
    at[w] = weights.q, at[TRI_ARG(linear_din, ws)] = weights.s;
    append_product(z, &instr);
}

static void append_linear_dw(quantizer *z, tri_instr instr) {
    int *at = instr.slot, x = TRI_ARG(linear_dw, x);
    tri_factor inputs = z->of[at[x]].q >= 0 ? z->of[at[x]] : quantize(z, at[x], TRI_MEM_ACT, instr.attr.axes);
    at[x] = inputs.q, at[TRI_ARG(linear_dw, s)] = inputs.s;
    append_product(z, &instr);
}

/* Any other instruction, and embed. */
static void append_other(quantizer *z, const tri_instr *instr) {
    const tri_op_row *row = tri__instr_row(instr);
    int embeds = instr->op == TRI_OP_embed && instr->attr.bits, slots[TRI_MAX_ARGS];
    tri_attr attr = instr->attr;
    for (int k = 0; k < TRI_MAX_ARGS; k++) {
        int computes = k < row->n_args && row->arg[k].dtype == TRI_DTYPE_COMPUTE && !embeds;
        slots[k] = computes ? narrowed(z, instr->slot[k]) : instr->slot[k];
    }
    if (attr.bits) attr.bits = 0, attr.axes = 0, attr.int8 = embeds;
    tri__build(&z->to, instr->op, slots, attr)->acc = instr->acc;
}

static void append(quantizer *z, const tri_instr *instr) {
    tri__build_as(&z->to, instr);
    switch (instr->attr.bits ? instr->op : TRI_OP_COUNT) {
    case TRI_OP_linear: append_linear(z, *instr); break;
    case TRI_OP_linear_din: append_linear_din(z, *instr); break;
    case TRI_OP_linear_dw: append_linear_dw(z, *instr); break;
    default: append_other(z, instr);
    }
}

static void rewrite(quantizer *z) {
    tri_program *program = z->pass->program;
    int n, update = z->pass->out.update;
    const tri_instr *instr = tri__take_instrs(program, &n);
    for (int i = 0; i < n; i++) {
        if (i == update && z->pass->training) z->pass->out.update = program->n_instrs;
        append(z, &instr[i]);
    }
}

/* ---- Weights that are kept in 8 bits ---- */

static int unit_of(const tri_pass *pass, int view) {
    for (int u = 0; u < pass->model->n_units; u++) {
        int flat = pass->out.param[u];
        for (int s = view; s >= 0; s = pass->program->slot[s].parent)
            if (s == flat) return u;
    }
    TRI_ASSERT(!"a weight of no unit");
    return -1;
}

static int by_place(const void *a, const void *b) {
    const tri_stored *x = a, *y = b;
    if (x->unit != y->unit) return x->unit - y->unit;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Notes a view that gets a slot of its own, once. scale -1: it is not quantised; 0: its scales get one, too. */
static void store(tri_pass *pass, int *cap, int view, uint32_t axes, int scale) {
    const tri_slot s = pass->program->slot[view];
    for (int i = 0; i < pass->n_stored; i++)
        if (pass->stored[i].slot == view) return;
    int unit = unit_of(pass, view);
    int64_t begin = tri__slot_begin(pass->program, view) - tri__slot_begin(pass->program, pass->out.param[unit]);
    *TRI_PUSH(pass->arena, pass->stored, pass->n_stored, *cap) = (tri_stored){.unit = unit, .begin = begin,
                                                                              .rows = s.rows.add, .cols = s.cols,
                                                                              .slot = view, .scale = scale,
                                                                              .axes = axes};
}

static void find_stored(tri_pass *pass) {
    const tri_program *program = pass->program;
    int cap = 0;
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_instr *instr = &program->instr[i];
        if (!instr->attr.bits) continue;
        if (instr->op == TRI_OP_linear) store(pass, &cap, TRI_SLOT(instr, linear, w), instr->attr.axes, 0);
        for (int k = TRI_ARG(embed, word); k <= TRI_ARG(embed, type) && instr->op == TRI_OP_embed; k++)
            if (instr->slot[k] >= 0 && pass->in->precision != TRI_F32) store(pass, &cap, instr->slot[k], 0, -1);
    }
    if (pass->n_stored) qsort(pass->stored, (size_t)pass->n_stored, sizeof *pass->stored, by_place);
}

/* Elements of `root` before element `at` that have left it. */
static int64_t left_before(const tri_pass *pass, const int64_t *begin, int root, int64_t at) {
    int64_t left = 0;
    for (int i = 0; i < pass->n_stored; i++) {
        const tri_stored *s = &pass->stored[i];
        int64_t from = begin[s->slot];
        if (tri__slot_root(pass->program, pass->out.param[s->unit]) == root && from < at)
            left += s->rows * s->cols; /* `at` is never inside of one */
    }
    return left;
}

/* Closes the gaps that stored weights leave: their flat slots, and views of these, shrink and move. */
static void close_gaps(tri_pass *pass) {
    tri_program *program = pass->program;
    size_t n = (size_t)program->n_slots;
    int64_t *begin = tri__arena_alloc(pass->arena, n * sizeof *begin), /* in the root, as it was, and as it will be */
            *moved = tri__arena_alloc(pass->arena, n * sizeof *moved);
    uint8_t *leaves = tri__arena_alloc(pass->arena, n);
    for (int s = 0; s < program->n_slots; s++) begin[s] = tri__slot_begin(program, s);
    for (int i = 0; i < pass->n_stored; i++) leaves[pass->stored[i].slot] = 1;
    for (int s = 0; s < program->n_slots; s++) {
        tri_slot *slot = &program->slot[s];
        if (slot->mem != TRI_MEM_PARAM || leaves[s]) continue;
        int root = tri__slot_root(program, s);
        int64_t end = begin[s] + slot->rows.add * slot->cols, before = left_before(pass, begin, root, begin[s]),
                lost = left_before(pass, begin, root, end) - before;
        moved[s] = begin[s] - before;
        if (slot->parent >= 0) slot->parent_at = moved[s] - moved[slot->parent]; /* parents come first */
        if (lost) slot->cols -= lost; /* only flat slots lose elements */
    }
}

static void keep_quantized(quantizer *z) {
    tri_pass *pass = z->pass;
    find_stored(pass);
    close_gaps(pass);
    for (int i = 0; i < pass->n_stored; i++) {
        tri_stored *s = &pass->stored[i];
        tri_slot *slot = &pass->program->slot[s->slot];
        const char *name = slot->name;
        slot->parent = -1, slot->parent_at = 0;
        slot->dtype = s->scale < 0 ? TRI_F32 : pass->in->quantize;
        z->to.unit = slot->unit;
        if (s->scale < 0) continue;
        s->scale = tri__build_slot(&z->to, TRI_MEM_PARAM, TRI_F32, (tri_rows){.add = s->rows}, 1, "%s.scale", name);
        z->of[s->slot] = (tri_factor){s->slot, s->scale};
    }
}

/* Sums of int8 products have 32 bits: rows that are longer could overflow them. */
static tri_status check_widths(const tri_pass *pass) {
    enum { WIDEST = INT32_MAX / (127 * 127) };
    for (int i = 0; i < pass->program->n_instrs && pass->in->quantize == TRI_I8; i++) {
        const tri_instr *instr = &pass->program->instr[i];
        if (!instr->attr.bits || instr->op != TRI_OP_linear) continue;
        const tri_slot *s = &pass->program->slot[TRI_SLOT(instr, linear, w)];
        if (s->cols > WIDEST)
            return tri__fail(TRI_USAGE,
                             "int8: %s sums %lld products, and 32 bits hold %d for certain: share the layer "
                             "(--tp-size), or take a precision of 16 bits",
                             s->name, (long long)s->cols, WIDEST);
    }
    return TRI_OK;
}

tri_status tri__pass_quantize(tri_pass *pass) {
    tri_program *program = pass->program;
    size_t n = (size_t)program->n_slots;
    if (pass->training && pass->in->quantize != TRI_I8)
        return tri__fail(TRI_USAGE, "--quantize fp8: training is for int8 products only; eval and predict take fp8");
    TRI_TRY(check_widths(pass));
    quantizer z = {.pass = pass, .to = {.arena = pass->arena, .program = program}, .n_slots = program->n_slots};
    z.of = tri__arena_alloc(pass->arena, n * sizeof *z.of);
    z.times = tri__arena_alloc(pass->arena, n * sizeof *z.times);
    z.narrow = tri__arena_alloc(pass->arena, n * sizeof *z.narrow);
    for (size_t s = 0; s < n; s++) z.of[s] = (tri_factor){-1, -1}, z.narrow[s] = -1;
    if (keeps_quantized(pass)) keep_quantized(&z);
    rewrite(&z);
    return tri__check_kernels(pass);
}
