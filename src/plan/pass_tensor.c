/* pass_tensor.c - pass: tensor parallelism: the ranks of the tp axis split each layer (Shoeybi et al., 2019; sequence
 * parallelism: Korthikanti et al., 2022).
 *
 * Rewrites the forward list for this rank's share of the model, and tracks how every activation is placed on the ranks:
 *
 *   WHOLE     each has all of it, the same bits
 *   TOKENS    each has an equal run of its rows: norms, dropout and residuals with sequence parallelism
 *   COLUMNS   each has its heads, or its columns of the feed-forward layer
 *
 * A dense layer whose weight is cut by rows takes WHOLE and gives COLUMNS. One cut by columns takes COLUMNS and gives a
 * PARTIAL: the sum over the ranks becomes TOKENS, or WHOLE without sequence parallelism. So does an embedding that
 * holds some of the words. Where a value is not placed as its reader needs it, an exchange operation is inserted
 * (tokens_, ranks_ in ops.def). These have adjoints, so the backward pass needs no special case; pass_tensor_lower.c
 * turns them into transfers. */
#include "plan/pass.h"

#include <stdio.h>

typedef enum placement { WHOLE, TOKENS, COLUMNS, PARTIAL } placement;

typedef struct tensor {
    tri_pass *pass;
    const tri_program *from;
    tri_builder to;
    const tri_network *held;   /* this rank's share: its parameter i is parameter i of the whole */
    int n, place;
    int *map;                /* [slots of from] the new slot; -1: none yet */
    int *own;                /* [slots of from] of an input: the slot of this rank's run of rows; -1: none yet */
    int *filler;             /* [slots of from] the instruction that fills an input; -1: it is computed, or a weight */
    uint8_t *placed;           /* [slots of from] placement of computed values */
} tensor;

static int param_of(const tensor *t, int view) {
    return tri__forward_param(t->pass, t->from, view);
}

/* Elements from a parameter to the next one, or to the end of its unit. */
static int64_t room_of(const tri_network *model, int param) {
    const tri_unit *unit = &model->unit[model->param[param].unit];
    int64_t end = param + 1 < unit->first + unit->n ? model->param[param + 1].at : unit->count;
    return end - model->param[param].at;
}

/* The same view of this rank's share. It may span several parameters, which are cut alike. */
static int map_weight(tensor *t, int view) {
    if (t->map[view] >= 0) return t->map[view];
    const tri_slot *s = &t->from->slot[view];
    const tri_network *model = t->pass->model;
    int first = param_of(t, view), next = first;
    int64_t rows = s->rows.add, cols = s->cols, room = 0;
    for (int64_t left = rows * cols; left > 0; left -= model->param[next++].count) room += room_of(t->held, next);
    if (model->param[first].shape.n == 1 || model->param[first].share == TRI_SHARE_COLS) cols = room / rows;
    else rows = room / cols;
    return t->map[view] = tri__build_view(&t->to, t->map[s->parent], t->held->param[first].at, rows, cols, "%s",
                                          s->name);
}

static tri_rows rows_as(const tensor *t, const tri_slot *like, placement as) {
    tri_rows rows = like->rows;
    if (as == TOKENS) rows.div = t->n * (rows.div ? rows.div : 1);
    return rows;
}

/* An input, or this rank's rows of it; read where first used. */
static int map_input(tensor *t, int slot, placement needs) {
    int *index = needs == TOKENS ? &t->own[slot] : &t->map[slot];
    if (*index >= 0) return *index;
    const tri_slot *s = &t->from->slot[slot];
    tri_attr attr = t->from->instr[t->filler[slot]].attr;
    if (needs == TOKENS) attr.part = t->place;
    *index = tri__build_slot(&t->to, s->mem, s->dtype, rows_as(t, s, needs), s->cols, "%s%s", s->name,
                             needs == TOKENS ? ".own" : "");
    TRI_BUILD(&t->to, input, attr, *index)->layer = 0; /* others may read it */
    return *index;
}

/* A view of an input that all ranks have whole. */
static int map_input_view(tensor *t, int view) {
    const tri_slot *s = &t->from->slot[view];
    if (t->map[view] < 0)
        t->map[view] = tri__build_view(&t->to, map_input(t, s->parent, WHOLE), s->parent_at, s->rows.add, s->cols, "%s",
                                       s->name);
    return t->map[view];
}

/* Appends an exchange operation on `x`, into a slot like `like`, named with `suffix`. */
static int hand(tensor *t, tri_op op, int x, const tri_slot *like, placement as, const char *suffix) {
    int y = tri__build_slot(&t->to, like->mem, like->dtype, rows_as(t, like, as), like->cols, "%s%s", like->name,
                            suffix);
    tri__build(&t->to, op, (const int[TRI_MAX_ARGS]){y, x},
               (tri_attr){.part = op == TRI_OP_tokens_whole ? t->place : 0});
    return y;
}

/* A computed value, placed as its reader needs it. each: the ranks compute different things with it, so its gradient is
 * a sum over them. */
static int bring(tensor *t, int slot, placement needs, int each) {
    const tri_slot *s = &t->from->slot[slot];
    if (t->placed[slot] == TOKENS && needs == WHOLE)
        return hand(t, each ? TRI_OP_tokens_gather : TRI_OP_tokens_whole, t->map[slot], s, WHOLE, ".whole");
    TRI_ASSERT(t->placed[slot] == needs);
    return each ? hand(t, TRI_OP_ranks_copy, t->map[slot], s, WHOLE, ".copy") : t->map[slot];
}

/* The parameter that an operation multiplies by or looks up: the first weight among its operands. */
static int weight_of(const tensor *t, const tri_instr *instr) {
    for (int k = 0;; k++) {
        int slot = instr->slot[k], parent = slot < 0 ? -1 : t->from->slot[slot].parent;
        if (parent >= 0 && t->filler[parent] < 0) return param_of(t, slot);
    }
}

static tri_share share_of(const tensor *t, const tri_instr *instr) {
    return t->pass->model->param[weight_of(t, instr)].share;
}

/* How an operation's operands must be placed, and how its results are. */
typedef struct rule {
    placement needs, gives;
} rule;

/* As the first operand is placed that is read. */
static rule same_rule(const tensor *t, const tri_instr *instr) {
    const tri_operand *arg = tri__instr_row(instr)->arg;
    int k = 0;
    while (!tri__access_reads(arg[k].access)) k++;
    placement same = t->placed[instr->slot[k]];
    return (rule){same, same};
}

static rule product_rule(const tensor *t, const tri_instr *instr) {
    switch (share_of(t, instr)) {
    case TRI_SHARE_ROWS: return (rule){WHOLE, COLUMNS};
    case TRI_SHARE_COLS: return (rule){COLUMNS, PARTIAL};
    case TRI_SHARE_TOKENS: return same_rule(t, instr);
    default: return (rule){WHOLE, WHOLE};
    }
}

static rule table_rule(tri_share share) {
    return (rule){WHOLE, share == TRI_SHARE_ROWS ? PARTIAL : share == TRI_SHARE_COLS ? COLUMNS : WHOLE};
}

static rule rule_of(const tensor *t, const tri_instr *instr) {
    switch (tri__instr_row(instr)->split) {
    case TRI_SPLIT_SAME: return same_rule(t, instr);
    case TRI_SPLIT_COLUMNS: return (rule){COLUMNS, COLUMNS};
    case TRI_SPLIT_PRODUCT: return product_rule(t, instr);
    case TRI_SPLIT_TABLE: return table_rule(share_of(t, instr));
    case TRI_SPLIT_POOL: /* of a rank's heads, or of all columns */
        return same_rule(t, instr).needs == COLUMNS ? (rule){COLUMNS, COLUMNS} : (rule){WHOLE, WHOLE};
    case TRI_SPLIT_NONE: break;
    }
    return (rule){WHOLE, WHOLE};
}

/* Integers are never divided by columns, and have no gradient to sum: all ranks have the same rows of experts. */
static rule rule_at(const tri_instr *instr, int k, rule r) {
    int divided = r.needs == COLUMNS || r.gives == COLUMNS;
    return divided && tri__instr_row(instr)->arg[k].dtype == TRI_I32 ? (rule){WHOLE, WHOLE} : r;
}

static int map_read(tensor *t, int slot, rule r) {
    if (slot < 0) return -1;
    int parent = t->from->slot[slot].parent;
    if (parent >= 0) return t->filler[parent] >= 0 ? map_input_view(t, slot) : map_weight(t, slot);
    if (t->filler[slot] >= 0) return map_input(t, slot, r.needs);
    return bring(t, slot, r.needs, r.needs == WHOLE && r.gives == COLUMNS);
}

static int map_written(tensor *t, int slot, placement gives) {
    if (slot < 0) return -1;
    if (t->map[slot] >= 0) return t->map[slot]; /* what a layer leaves behind, open or closed */
    const tri_slot *s = &t->from->slot[slot];
    if (s->parent >= 0) /* of a result */
        return t->map[slot] = tri__build_view(&t->to, map_written(t, s->parent, gives), s->parent_at, s->rows.add,
                                              s->cols, "%s", s->name);
    int64_t cols = gives == COLUMNS ? s->cols / t->n : s->cols;
    t->placed[slot] = (uint8_t)gives;
    return t->map[slot] = tri__build_slot(&t->to, s->mem, s->dtype, rows_as(t, s, gives), cols, "%s%s", s->name,
                                          gives == PARTIAL ? ".addend" : "");
}

static tri_attr attr_of(const tensor *t, const tri_instr *instr) {
    tri_attr attr = instr->attr;
    if (attr.heads) attr.heads /= t->n, attr.head0 = t->place * attr.heads;
    tri_op_split split = tri__instr_row(instr)->split;
    if (split == TRI_SPLIT_PRODUCT && attr.bits && share_of(t, instr) == TRI_SHARE_COLS)
        attr.axes = TRI_AXIS_SET(TRI_AXIS_TP);
    if (split == TRI_SPLIT_TABLE) attr.row0 = (int32_t)t->held->param[weight_of(t, instr)].part.start[0];
    return attr;
}

static void rewrite(tensor *t, const tri_instr *instr) {
    const tri_op_row *row = tri__instr_row(instr);
    rule r = rule_of(t, instr);
    int slots[TRI_MAX_ARGS];
    tri__build_as(&t->to, instr);
    for (int k = 0; k < row->n_args; k++)
        slots[k] = tri__access_writes(row->arg[k].access) ? map_written(t, instr->slot[k], r.gives)
                                                          : map_read(t, instr->slot[k], rule_at(instr, k, r));
    tri__build(&t->to, instr->op, slots, attr_of(t, instr))->acc = instr->acc;
    if (r.gives != PARTIAL) return;
    int summed = instr->slot[0], tokens = t->pass->in->sequence_parallel;
    t->placed[summed] = tokens ? TOKENS : WHOLE;
    t->map[summed] = hand(t, tokens ? TRI_OP_tokens_scatter : TRI_OP_ranks_sum, slots[0], &t->from->slot[summed],
                          (placement)t->placed[summed], "");
}

/* Every size that divides the heads and the feed-forward columns of all encoders. */
static void list_sizes(const tri_network *model, char *text, size_t size) {
    size_t used = 0;
    for (int64_t n = 1; n <= model->encoder[0].num_attention_heads && used < size - 8; n++) {
        int fits = 1;
        for (int b = 0; b < model->n_encoders; b++)
            fits &= model->encoder[b].num_attention_heads % n == 0 && model->encoder[b].intermediate_size % n == 0;
        if (fits) used += (size_t)snprintf(text + used, size - used, "%s%lld", used ? ", " : "", (long long)n);
    }
}

static tri_status check_sizes(const tri_plan_in *in) {
    for (int b = 0; b < in->model->n_encoders; b++) {
        const tri_encoder *e = &in->model->encoder[b];
        char sizes[256] = "";
        if (e->mlp_dropout > 0)
            return tri__fail(TRI_USAGE,
                             "--tp-size %d: the %s encoder has an mlp_dropout of %g, on columns that these ranks would "
                             "share, where random numbers are those of whole rows; take mlp_dropout 0, or no --tp-size",
                             in->mesh.tp, tri__branch_name(b), e->mlp_dropout);
        if (e->num_attention_heads % in->mesh.tp == 0 && e->intermediate_size % in->mesh.tp == 0) continue;
        list_sizes(in->model, sizes, sizeof sizes);
        return tri__fail(TRI_USAGE,
                         "--tp-size %d: the %s encoder has %lld attention heads and an intermediate_size of %lld, "
                         "which %d ranks cannot share evenly; sizes that fit this model: %s",
                         in->mesh.tp, tri__branch_name(b), (long long)e->num_attention_heads,
                         (long long)e->intermediate_size, in->mesh.tp, sizes);
    }
    return TRI_OK;
}

static void open_tensor(tensor *t, tri_pass *pass) {
    const tri_program *from = pass->program;
    size_t n = (size_t)from->n_slots;
    *t = (tensor){.pass = pass, .from = from, .to = tri__build_like(pass->arena, from), .n = from->mesh.tp};
    t->place = tri__mesh_coords(&from->mesh, from->rank).tp;
    t->held = tri__model_part(pass->arena, pass->in->model, NULL, tri__plan_holder(pass->in));
    t->map = tri__arena_alloc(pass->arena, n * sizeof *t->map);
    t->own = tri__arena_alloc(pass->arena, n * sizeof *t->own);
    t->filler = tri__arena_alloc(pass->arena, n * sizeof *t->filler);
    t->placed = tri__arena_alloc(pass->arena, n);
    for (int s = 0; s < from->n_slots; s++) t->map[s] = t->own[s] = t->filler[s] = -1;
    for (int i = 0; i < from->n_instrs; i++)
        if (from->instr[i].op == TRI_OP_input) t->filler[TRI_SLOT(&from->instr[i], input, y)] = i;
    for (int u = 0; u < t->held->n_units; u++) {
        const tri_slot *flat = &from->slot[pass->forward.unit_slot[u]];
        t->to.unit = flat->unit;
        t->map[pass->forward.unit_slot[u]] =
            tri__build_slot(&t->to, flat->mem, flat->dtype, flat->rows, t->held->unit[u].count, "%s", flat->name);
    }
}

tri_status tri__pass_tensor(tri_pass *pass) {
    TRI_TRY(check_sizes(pass->in));
    tensor t;
    open_tensor(&t, pass);
    for (int i = 0; i < t.from->n_instrs; i++)
        if (t.from->instr[i].op != TRI_OP_input) rewrite(&t, &t.from->instr[i]);
    tri_forward *f = &pass->forward;
    for (int u = 0; u < t.held->n_units; u++) f->unit_slot[u] = t.map[f->unit_slot[u]]; /* shared with pass->out */
    f->build = t.to, f->model = pass->model = t.held;
    pass->out.loss = f->loss = t.map[f->loss];
    pass->out.probs = f->probs = t.map[f->probs];
    pass->program = t.to.program;
    return TRI_OK;
}
