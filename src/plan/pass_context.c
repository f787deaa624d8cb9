/* pass_context.c - pass: context parallelism: ranks share the tokens of each text.
 *
 * Runs of cp replicas take the same samples. Each has a run of their tokens, and computes everything of its tokens but
 * attention, which has two forms. In a ring (pass_ring.c) ranks have a chunk of each sequence each, and keys and values
 * travel. Else runs are equal cuts of the packed tokens, wherever sequences begin, and the ranks exchange tokens for
 * heads (Jacobs et al., 2023):
 *
 *   qkv [T/cp, 3H]   heads_part, rows_swap   -> [T, 3H/cp]: all tokens of this rank's heads
 *   attention                                -> [T, H/cp]
 *   ctx [T, H/cp]    rows_swap, heads_join   -> [T/cp, H]
 *
 * In both all ranks have equal work, whatever the lengths of sequences. A sample's pooled row is the sum of what ranks
 * have of it; from there on all of them compute the same, but the loss counts on the first only (its factor is 0 on the
 * others), so that gradients are plain sums over all replicas: nothing later knows of cp. So it is with the last layer,
 * where only first tokens are used: all ranks have these few rows.
 *
 * The template is the same for all ranks of a run. pass_context_place.c writes what differs. */
#include "plan/pass.h"
#include "model/family.h"

typedef struct context {
    tri_builder to;      /* the program itself: instructions are written anew, slots are added */
    int n;
    int ring;            /* keys and values travel, not heads */
    int whole[TRI_FIELD_COUNT]; /* slots of whole fields, where attention reads them; -1: none yet */
    int *field;          /* [slots] the field that fills it; -1 */
} context;

static tri_attr group_of(const context *c) { return (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP), .within = c->n}; }

static int is_tokens(tri_rows rows) { return rows.sym == TRI_SYM_T0 || rows.sym == TRI_SYM_T1; }

static tri_rows all_of(tri_rows rows) {
    rows.div = 0;
    return rows;
}

/* A slot of all tokens of this rank's heads, like `like`. */
static int heads_slot(context *c, int like, const char *suffix) {
    const tri_slot s = c->to.program->slot[like];
    return tri__build_slot(&c->to, s.mem, s.dtype, all_of(s.rows), s.cols / c->n, "%s.%s", s.name, suffix);
}

/* The whole of a field of which other operations read this rank's run. */
static int whole_field(context *c, int own) {
    if (own < 0) return -1;
    int *slot = &c->whole[c->field[own]];
    if (*slot >= 0) return *slot;
    const tri_slot s = c->to.program->slot[own];
    *slot = tri__build_slot(&c->to, s.mem, s.dtype, all_of(s.rows), s.cols, "%s.all", s.name);
    TRI_BUILD(&c->to, input, ((tri_attr){.field = c->field[own]}), *slot)->layer = 0; /* others may read it */
    return *slot;
}

/* All tokens of this rank's heads. */
static int qkv_of_heads(context *c, int qkv) {
    int parts = heads_slot(c, qkv, "parts"), heads = heads_slot(c, qkv, "heads");
    TRI_BUILD(&c->to, heads, ((tri_attr){.members = c->n, .groups = 3}), parts, qkv);
    TRI_BUILD(&c->to, rows_swap, group_of(c), heads, parts);
    return heads;
}

/* The ranks' addends `own`, summed into y. All compute the same from the sum, but only the first rank's loss counts:
 * its gradient is the sum of all ranks'. */
static void sum_up(context *c, int y, int own) {
    const tri_slot s = c->to.program->slot[y];
    int sum = TRI_BUILD_SAME(&c->to, s, "%s.sum", s.name);
    TRI_BUILD(&c->to, ranks_sum, group_of(c), sum, own);
    TRI_BUILD(&c->to, ranks_copy, group_of(c), y, sum);
}

static int *operand(tri_instr *instr, const char *name) {
    return &instr->slot[tri__row_arg(tri__instr_row(instr), name)];
}

/* All attention is alike: dense or sparse; of first tokens, whose results all ranks have, or of all. */
static void attention(context *c, const tri_instr *from) {
    tri_instr instr = *from;
    int ctx = *operand(&instr, "ctx"), *key = operand(&instr, "key"), *qkv = operand(&instr, "qkv");
    tri_slot *sums = &c->to.program->slot[*operand(&instr, "lse")];
    sums->rows = all_of(sums->rows), sums->cols /= c->n;
    instr.attr.heads /= c->n;
    *key = whole_field(c, *key), *qkv = qkv_of_heads(c, *qkv);
    int out = *operand(&instr, "ctx") = heads_slot(c, ctx, "heads");
    tri__build(&c->to, instr.op, instr.slot, instr.attr);
    if (instr.attr.first) {
        const tri_slot s = c->to.program->slot[ctx];
        int own = TRI_BUILD_SAME(&c->to, s, "%s.own", s.name);
        TRI_BUILD(&c->to, heads_own, (tri_attr){0}, own, out);
        sum_up(c, ctx, own);
        return;
    }
    int back = heads_slot(c, ctx, "parts");
    TRI_BUILD(&c->to, rows_swap, group_of(c), back, out);
    TRI_BUILD(&c->to, heads, ((tri_attr){.members = c->n, .groups = 1, .join = 1}), ctx, back);
}

/* Attention whose keys come round the ring, to all of them or to present blocks. Of first tokens all ranks have the
 * results. */
static void ring(context *c, const tri_instr *instr) {
    int ctx = TRI_SLOT(instr, attention, ctx), lse = TRI_SLOT(instr, attention, lse);
    int qkv = TRI_SLOT(instr, attention, qkv), seq = TRI_SLOT(instr, attention, seq);
    int blocks = TRI_SLOT(instr, attention, blocks), key = whole_field(c, TRI_SLOT(instr, attention, key));
    const tri_slot s = c->to.program->slot[ctx], wide = c->to.program->slot[qkv];
    int out = ctx, q = -1;
    tri_attr attr = instr->attr;
    attr.members = c->n;
    if (attr.first) {
        out = TRI_BUILD_SAME(&c->to, s, "%s.sum", s.name);
        q = tri__build_slot(&c->to, s.mem, s.dtype, s.rows, wide.cols, "%s.first", wide.name);
    }
    TRI_BUILD(&c->to, ring_attention, attr, out, lse, q, qkv, seq, blocks, key);
    if (attr.first) TRI_BUILD(&c->to, ranks_copy, group_of(c), ctx, out);
}

/* Each rank's rows of a sequence, summed. */
static void pool(context *c, const tri_instr *instr) {
    int y = TRI_SLOT(instr, pool, y), slots[TRI_MAX_ARGS] = TRI_NO_SLOTS;
    const tri_slot s = c->to.program->slot[y];
    int own = TRI_BUILD_SAME(&c->to, s, "%s.own", s.name);
    tri_attr attr = instr->attr;
    attr.members = c->ring ? c->n : 0;
    slots[0] = own, slots[1] = instr->slot[1], slots[2] = instr->slot[2];
    tri__build(&c->to, instr->op, slots, attr);
    sum_up(c, y, own);
}

static void rewrite(context *c, const tri_instr *instr) {
    const tri_op_row *row = tri__instr_row(instr);
    int pools = row->part == TRI_PART_TOKENS && row->phase == TRI_PHASE_F; /* or windows, which all ranks have */
    tri__build_as(&c->to, instr);
    if (row->family == TRI_OPS_ATTENTION && tri__unit_encoder(c->to.program, instr->unit) >= 0)
        (c->ring ? ring : attention)(c, instr);
    else if (pools && is_tokens(c->to.program->slot[instr->slot[tri__row_run(tri__instr_row(instr))]].rows))
        pool(c, instr);
    else tri__build_copy(&c->to, instr);
}

static tri_status check_sizes(const tri_plan_in *in) {
    int cp = tri__mesh_cp(&in->mesh), all = cp * in->mesh.tp;
    for (int b = 0; b < in->model->n_encoders; b++)
        if (in->model->distances[b].rows)
            return tri__fail(TRI_USAGE,
                             "--cp-size %d: the %s encoder is a %s model, whose attention depends on the distances of "
                             "tokens, which ranks of the cp axis cannot share; leave it out: longer texts fit with "
                             "--recompute full or --tp-size",
                             cp, tri__branch_name(b), tri__family(&in->model->encoder[b])->type);
    for (int b = 0; b < in->model->n_encoders && !in->ring; b++) {
        long long heads = in->model->encoder[b].num_attention_heads;
        if (heads % all)
            return tri__fail(
                TRI_USAGE,
                "--cp-size %d: the %s encoder's %lld attention heads cannot be shared by %d ranks (cp %d x "
                "tp %d) evenly; take sizes whose product divides %lld, or --cp-mode ring",
                cp, tri__branch_name(b), heads, all, cp, in->mesh.tp, heads);
    }
    return TRI_OK;
}

tri_status tri__pass_context(tri_pass *pass) {
    tri_program *program = pass->program;
    int n;
    TRI_TRY(check_sizes(pass->in));
    context c = {.to = {.arena = pass->arena, .program = program},
                 .n = tri__mesh_cp(&pass->in->mesh), .ring = pass->in->ring};
    for (int field = 0; field < TRI_FIELD_COUNT; field++) c.whole[field] = -1;
    c.field = tri__none_yet(pass->arena, program->n_slots);
    for (int s = 0; s < program->n_slots; s++)
        if (is_tokens(program->slot[s].rows)) program->slot[s].rows.div = c.n;
    const tri_instr *from = tri__take_instrs(program, &n);
    for (int i = 0; i < n; i++)
        if (from[i].op == TRI_OP_input) c.field[TRI_SLOT(&from[i], input, y)] = from[i].attr.field;
    for (int i = 0; i < n; i++) rewrite(&c, &from[i]);
    return TRI_OK;
}
