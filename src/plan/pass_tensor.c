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
 * holds some of the words. One that all ranks hold takes and gives WHOLE, or by tokens TOKENS; attention of WHOLE
 * values has all heads. Where a value is not placed as its reader needs it, an exchange operation is inserted
 * (tokens_, ranks_ in ops.def). These have adjoints, so the backward pass needs no special case; pass_tensor_lower.c
 * turns them into transfers. Columns are never gathered or cut: a user's plan that would need it is refused. */
#include "plan/pass.h"

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

static int param_of(const tensor *t, int view) { return tri__forward_param(t->pass, t->from, view); }

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
               (tri_attr){.part = op == TRI_OP_tokens_whole || op == TRI_OP_tokens_own ? t->place : 0});
    return y;
}

/* A computed value, placed as its reader needs it. each: the ranks compute different things with it, so its gradient is
 * a sum over them. */
static int bring(tensor *t, int slot, placement needs, int each) {
    const tri_slot *s = &t->from->slot[slot];
    if (t->placed[slot] == TOKENS && needs == WHOLE)
        return hand(t, each ? TRI_OP_tokens_gather : TRI_OP_tokens_whole, t->map[slot], s, WHOLE, ".whole");
    if (t->placed[slot] == WHOLE && needs == TOKENS) return hand(t, TRI_OP_tokens_own, t->map[slot], s, TOKENS, ".own");
    TRI_ASSERT(t->placed[slot] == needs);
    return each ? hand(t, TRI_OP_ranks_copy, t->map[slot], s, WHOLE, ".copy") : t->map[slot];
}

/* The weight among an operation's operands, from the k-th on, as an operand; -1: none. */
static int next_weight(const tensor *t, const tri_instr *instr, int k) {
    for (; k < TRI_MAX_ARGS; k++) {
        int slot = instr->slot[k], parent = slot < 0 ? -1 : t->from->slot[slot].parent;
        if (parent >= 0 && t->from->slot[parent].mem == TRI_MEM_PARAM) return k;
    }
    return -1;
}

/* The parameter that an operation multiplies by or looks up; NULL: it has none. */
static const tri_param *weight_of(const tensor *t, const tri_instr *instr) {
    int k = next_weight(t, instr, 0);
    return k < 0 ? NULL : &t->pass->model->param[param_of(t, instr->slot[k])];
}

static int is_by_tokens(const tensor *t, int slot) {
    const tri_sym sym = t->from->slot[slot].rows.sym;
    return t->pass->in->sequence_parallel &&
           (sym == TRI_SYM_T0 || sym == TRI_SYM_T1 || sym == TRI_SYM_X0 || sym == TRI_SYM_X1);
}

/* How an operation's operands must be placed, and how its results are. */
typedef struct rule {
    placement needs, gives;
} rule;

static int is_computed(const tensor *t, int slot) {
    return slot >= 0 && t->from->slot[slot].parent < 0 && t->filler[slot] < 0;
}

/* As what it reads is placed; where that differs, as shares. What a layer leaves behind is placed alike, open or
 * closed. */
static rule same_rule(const tensor *t, const tri_instr *instr) {
    placement same = WHOLE;
    for (int k = 0; k < TRI_MAX_ARGS; k++) {
        int slot = instr->slot[k];
        if (!is_computed(t, slot) || (tri__writes(instr, k) && t->map[slot] < 0)) continue;
        if (tri__writes(instr, k)) return (rule){t->placed[slot], t->placed[slot]};
        if (t->placed[slot] > same) same = t->placed[slot];
    }
    return (rule){same, same};
}

static rule rule_of(const tensor *t, const tri_instr *instr) {
    const rule whole = {WHOLE, WHOLE};
    const tri_param *weight = weight_of(t, instr);
    tri_op_split split = tri__instr_row(instr)->split;
    if (split == TRI_SPLIT_NONE) return whole;
    if (!weight) {
        rule same = same_rule(t, instr);
        return split == TRI_SPLIT_SAME || same.needs == COLUMNS ? same : whole; /* a rank's heads, or all */
    }
    int is_table = split == TRI_SPLIT_TABLE, by_tokens = weight->share == TRI_SHARE_TOKENS && !weight->experts;
    if (!tri__is_cut(weight)) return by_tokens && is_by_tokens(t, instr->slot[0]) ? (rule){TOKENS, TOKENS} : whole;
    if (weight->share == TRI_SHARE_ROWS) return (rule){WHOLE, is_table ? PARTIAL : COLUMNS};
    return is_table ? (rule){WHOLE, COLUMNS} : (rule){COLUMNS, PARTIAL};
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

static tri_attr attr_of(const tensor *t, const tri_instr *instr, rule r) {
    tri_attr attr = instr->attr;
    const tri_param *weight = weight_of(t, instr);
    if (attr.heads && r.gives == COLUMNS) attr.heads /= t->n, attr.head0 = t->place * attr.heads;
    if (attr.bits && r.gives == PARTIAL) attr.axes = TRI_AXIS_SET(TRI_AXIS_TP);
    if (tri__instr_row(instr)->split == TRI_SPLIT_TABLE)
        attr.row0 = (int32_t)t->held->param[weight - t->pass->model->param].part.start[0];
    return attr;
}

/* What ranks share of a parameter: heads, or the outputs or inputs of a dense layer. */
static int64_t size_of(const tri_network *model, const tri_param *param) {
    const char *part = tri__param_part(model, param), *rest;
    if (part && strcmp(part, "attention.qkv") == 0) {
        int branch = tri__branch_of(param->name, &rest);
        return branch < 0 ? model->fusion_heads : model->encoder[branch].num_attention_heads;
    }
    return param->shape.dim[param->share == TRI_SHARE_COLS ? param->shape.n - 1 : param->experts > 0];
}

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

/* What no exchange can make true. */
static tri_status check_weight(const tensor *t, const tri_instr *instr, int k, rule r) {
    const tri_network *model = t->pass->model;
    const tri_param *param = &model->param[param_of(t, instr->slot[k])], *each = model->param;
    const char *word = tri__share_word(param->share, param);
    int64_t size = size_of(model, param), all = size;
    if (tri__is_cut(param) && tri__instr_row(instr)->split == TRI_SPLIT_PRODUCT && size % t->n) {
        for (; each < model->param + model->n_params; each++)
            if (tri__is_cut(each) && tri__param_part(model, each)) all = common_divisor(size_of(model, each), all);
        return tri__fail(TRI_USAGE,
                         "--tp-size %d: %s is %s, but %d ranks cannot share its %lld heads or columns evenly; sizes "
                         "that divide %lld fit this model",
                         t->n, param->name, word, t->n, (long long)size, (long long)all);
    }
    if (t->pass->in->sequence_parallel && !tri__is_cut(param) &&
        (param->share == TRI_SHARE_TOKENS) != (r.needs == TOKENS))
        return tri__fail(TRI_USAGE, "--tp-plan: %s is %s, but %s", param->name, word,
                         r.needs == TOKENS ? "what it is used with is by tokens: make it sequence"
                                           : "its rows are not tokens that ranks could share: make it replicate");
    return TRI_OK;
}

static tri_status check(const tensor *t, const tri_instr *instr, rule r) {
    const tri_param *weight = weight_of(t, instr);
    const char *reader = weight ? weight->name : t->from->slot[instr->slot[0]].name;
    for (int k = next_weight(t, instr, 0); k >= 0; k = next_weight(t, instr, k + 1))
        TRI_TRY(check_weight(t, instr, k, r));
    for (int k = 0; k < TRI_MAX_ARGS; k++) {
        int slot = instr->slot[k], by_columns = rule_at(instr, k, r).needs == COLUMNS;
        if (is_computed(t, slot) && !tri__writes(instr, k) && by_columns != (t->placed[slot] == COLUMNS))
            return tri__fail(TRI_USAGE,
                             by_columns ? "--tp-plan: %s takes a rank's columns, but each rank has all columns of %s: "
                                          "make the layer before it colwise, or this one replicate"
                                        : "--tp-plan: %s needs whole rows, but each rank has some columns of %s: make "
                                          "the layer before it replicate, or the one after it rowwise",
                             reader, t->from->slot[slot].name);
    }
    if (instr->attr.p > 0 && tri__instr_row(instr)->split == TRI_SPLIT_SAME && r.gives == COLUMNS)
        return tri__fail(TRI_USAGE,
                         "--tp-size %d: %s is a dropout of %g, on columns that these ranks would share, where random "
                         "numbers are those of whole rows; take a dropout of 0, or no --tp-size",
                         t->n, reader, instr->attr.p);
    return TRI_OK;
}

static tri_status rewrite(tensor *t, const tri_instr *instr) {
    const tri_op_row *row = tri__instr_row(instr);
    rule r = rule_of(t, instr);
    int slots[TRI_MAX_ARGS];
    TRI_TRY(check(t, instr, r));
    tri__build_as(&t->to, instr);
    for (int k = 0; k < row->n_args; k++)
        slots[k] = tri__access_writes(row->arg[k].access) ? map_written(t, instr->slot[k], r.gives)
                                                          : map_read(t, instr->slot[k], rule_at(instr, k, r));
    tri__build(&t->to, instr->op, slots, attr_of(t, instr, r))->acc = instr->acc;
    if (r.gives != PARTIAL) return TRI_OK;
    int summed = instr->slot[0], tokens = is_by_tokens(t, summed);
    t->placed[summed] = tokens ? TOKENS : WHOLE;
    t->map[summed] = hand(t, tokens ? TRI_OP_tokens_scatter : TRI_OP_ranks_sum, slots[0], &t->from->slot[summed],
                          (placement)t->placed[summed], "");
    return TRI_OK;
}

static void open_tensor(tensor *t, tri_pass *pass) {
    const tri_program *from = pass->program;
    *t = (tensor){.pass = pass, .from = from, .to = tri__build_like(pass->arena, from), .n = from->mesh.tp};
    t->place = tri__mesh_coords(&from->mesh, from->rank).tp;
    t->held = tri__model_part(pass->arena, pass->in->model, NULL, tri__plan_holder(pass->in));
    t->map = tri__none_yet(pass->arena, from->n_slots), t->own = tri__none_yet(pass->arena, from->n_slots);
    t->filler = tri__none_yet(pass->arena, from->n_slots);
    t->placed = tri__arena_alloc(pass->arena, (size_t)from->n_slots);
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
    const tri_network *model = pass->in->model;
    tensor t;
    if (model->by_tokens && !pass->in->sequence_parallel)
        return tri__fail(TRI_USAGE,
                         "--tp-plan: %s is sequence, but there is no sequence parallelism: leave out "
                         "--sequence-parallel no (with experts, give yes), or make it replicate",
                         model->by_tokens);
    open_tensor(&t, pass);
    for (int i = 0; i < t.from->n_instrs; i++)
        if (t.from->instr[i].op != TRI_OP_input) TRI_TRY(rewrite(&t, &t.from->instr[i]));
    tri_forward *f = &pass->forward;
    for (int u = 0; u < t.held->n_units; u++) f->unit_slot[u] = t.map[f->unit_slot[u]]; /* shared with pass->out */
    f->build = t.to, f->model = pass->model = t.held;
    pass->out.loss = f->loss = t.map[f->loss];
    pass->out.probs = f->probs = t.map[f->probs];
    pass->program = t.to.program;
    return TRI_OK;
}
