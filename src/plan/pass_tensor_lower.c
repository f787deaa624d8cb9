/* pass_tensor_lower.c - pass: turns exchange operations between ranks that share layers or tokens (ops.def: tokens_,
 * ranks_, rows_) into transfers.
 *
 *   tokens_gather, tokens_whole, tokens_scatter_din, tokens_own_din   all_gather
 *   tokens_scatter, tokens_gather_din                                 reduce_scatter
 *   ranks_sum, ranks_copy_din                                         all_reduce in place
 *   ranks_copy, ranks_sum_din                                         nothing: both operands become one slot
 *   rows_swap, rows_swap_din                                          all_to_all
 *
 * A post moves ahead of the gradients of weights before it, and the wait is just before the first use, so those
 * gradients overlap the transfer. A gradient that others add to is received in a separate slot and added. In a sum over
 * ranks only the first rank adds the bias. */
#include "plan/pass.h"

/* One transfer in the making. */
typedef struct pending_collective {
    tri_op op;               /* of the post */
    tri_ends ends;
    int add;                 /* the slot that the result is added to; -1 */
    int post, wait;          /* instructions of the old list before which they go; or its end */
    const tri_instr *of;     /* of the old list: its unit, microbatch and gates */
    tri_attr group;          /* of ranks */
} pending_collective;

typedef struct lower {
    tri_instr *from;         /* [n] the old list */
    int n;
    tri_builder to;
    int *alias;              /* [slots] the slot that replaces it */
    pending_collective *pending;
    int n_pending, cap_pending;
} lower;

static int writes(const tri_instr *instr, int slot) {
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (instr->slot[k] == slot && tri__writes(instr, k)) return 1;
    return 0;
}

static int touches(const tri_instr *instr, int slot) {
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (slot >= 0 && instr->slot[k] == slot) return 1;
    return 0;
}

/* Sums are in place, and copies become aliases. */
static void join_names(lower *l) {
    for (int i = 0; i < l->n; i++) {
        const tri_instr *instr = &l->from[i];
        int sums = instr->op == TRI_OP_ranks_sum, copies = instr->op == TRI_OP_ranks_copy;
        if (!sums && !copies) continue;
        if (sums && !instr->attr.back) l->alias[instr->slot[1]] = instr->slot[0];
        else if (!instr->acc) l->alias[instr->slot[0]] = instr->slot[1];
    }
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < TRI_MAX_ARGS; k++)
            while (l->from[i].slot[k] >= 0 && l->alias[l->from[i].slot[k]] != l->from[i].slot[k])
                l->from[i].slot[k] = l->alias[l->from[i].slot[k]];
}

/* Drops the bias from the addends of the sum at `at`, except on the first rank. */
static void drop_bias(lower *l, int at) {
    int maker = at - 1;
    while (!writes(&l->from[maker], l->from[at].slot[1])) maker--;
    tri_instr *instr = &l->from[maker];
    TRI_ASSERT(instr->op == TRI_OP_linear || instr->op == TRI_OP_embed);
    if (instr->op == TRI_OP_linear) TRI_SLOT(instr, linear, b) = -1;
    else TRI_SLOT(instr, embed, position) = TRI_SLOT(instr, embed, type) = -1;
}

/* TRI_OP_COUNT: none. */
static tri_op post_of(const tri_instr *instr) {
    int back = instr->attr.back;
    if (instr->op == TRI_OP_tokens_whole || instr->op == TRI_OP_tokens_own_din) return TRI_OP_all_gather_post;
    switch (instr->op) {
    case TRI_OP_tokens_gather: return back ? TRI_OP_reduce_scatter_post : TRI_OP_all_gather_post;
    case TRI_OP_tokens_scatter: return back ? TRI_OP_all_gather_post : TRI_OP_reduce_scatter_post;
    case TRI_OP_ranks_sum: return back ? TRI_OP_COUNT : TRI_OP_all_reduce_post;
    case TRI_OP_ranks_copy: return back ? TRI_OP_all_reduce_post : TRI_OP_COUNT;
    case TRI_OP_rows_swap: return TRI_OP_all_to_all_post;
    default: return TRI_OP_COUNT;
    }
}

/* Ranks that share layers, where no others are named. */
static tri_attr group_of(const tri_instr *instr) {
    if (!instr->attr.axes) return (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_TP)};
    return (tri_attr){.axes = instr->attr.axes, .within = instr->attr.within};
}

static void plan_pending(lower *l, int at) {
    const tri_instr *instr = &l->from[at];
    pending_collective h = {
        .op = post_of(instr), .add = -1, .post = at, .wait = at + 1, .of = instr, .group = group_of(instr)};
    if (h.op == TRI_OP_COUNT) return;
    int y = instr->slot[0], x = instr->slot[1];
    h.ends = h.op == TRI_OP_all_reduce_post ? (tri_ends){x, -1} : (tri_ends){y, x};
    if (instr->acc) {
        const tri_slot s = l->to.program->slot[y];
        tri_builder b = l->to;
        b.unit = s.unit;
        h.add = y;
        if (h.ends.x >= 0) h.ends.y = TRI_BUILD_SAME(&b, s, "%s.more%d", s.name, at);
    }
    while (h.post > 0 && tri__instr_row(&l->from[h.post - 1])->phase == TRI_PHASE_W &&
           !touches(&l->from[h.post - 1], x))
        h.post--;
    for (int i = 0; i < l->n_pending; i++)
        if (l->pending[i].wait == at) h.post = at; /* x is the result of that one */
    while (h.wait < l->n && !touches(&l->from[h.wait], y) && !touches(&l->from[h.wait], x)) h.wait++;
    *TRI_PUSH(l->to.arena, l->pending, l->n_pending, l->cap_pending) = h;
}

static void emit_wait(lower *l, const pending_collective *h) {
    tri__build_as(&l->to, h->of);
    tri__build_wait(&l->to, h->ends);
    if (h->add >= 0) TRI_BUILD(&l->to, add_din, (tri_attr){0}, h->add, -1, h->ends.y)->acc = 1;
}

static void emit_instr(lower *l, const tri_instr *instr) {
    tri__build_as(&l->to, instr);
    if (instr->op == TRI_OP_ranks_sum && instr->attr.back && instr->acc) {
        TRI_BUILD(&l->to, add_din, (tri_attr){0}, instr->slot[0], -1, instr->slot[1])->acc = 1;
        return;
    }
    if (!tri__op_is_lowered(instr->op)) tri__build_copy(&l->to, instr);
}

/* Pending collectives are in the order of their posts. */
static void write_list(lower *l) {
    int *open = tri__arena_alloc(l->to.arena, (size_t)l->n_pending * sizeof *open); /* posted, not waited for yet */
    int n_open = 0, posted = 0;
    for (int i = 0; i <= l->n; i++) {
        int kept = 0;
        for (int k = 0; k < n_open; k++) {
            if (l->pending[open[k]].wait == i) emit_wait(l, &l->pending[open[k]]);
            else open[kept++] = open[k];
        }
        n_open = kept;
        for (; posted < l->n_pending && l->pending[posted].post == i; posted++) {
            const pending_collective *h = &l->pending[posted];
            tri__build_as(&l->to, h->of);
            tri__build_post(&l->to, h->op, h->group, h->ends);
            open[n_open++] = posted;
        }
        if (i < l->n) emit_instr(l, &l->from[i]);
    }
    TRI_ASSERT(posted == l->n_pending && n_open == 0);
}

tri_status tri__pass_tensor_lower(tri_pass *pass) {
    tri_program *program = pass->program;
    lower l = {.to = {.arena = pass->arena, .program = program}};
    l.alias = tri__arena_alloc(pass->arena, (size_t)program->n_slots * sizeof *l.alias);
    for (int s = 0; s < program->n_slots; s++) l.alias[s] = s;
    l.from = tri__take_instrs(program, &l.n);
    join_names(&l);
    int place = tri__mesh_coords(&program->mesh, program->rank).tp;
    for (int i = 0; i < l.n; i++) {
        const tri_instr *instr = &l.from[i];
        int sums = instr->op == TRI_OP_ranks_sum || instr->op == TRI_OP_tokens_scatter;
        if (place > 0 && sums && !instr->attr.back && !instr->attr.axes) drop_bias(&l, i);
        plan_pending(&l, i);
    }
    write_list(&l);
    return TRI_OK;
}
