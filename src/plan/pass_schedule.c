/* pass_schedule.c - pass: unrolls the template of one microbatch into everything that this rank computes in a step,
 * in the order of its schedule.
 *
 * The rank's program has only the instructions of its stages. Forward is the template up to the loss; the rest is
 * backward, in which gradients of weights are separate actions where the schedule separates them. Values that depend
 * only on the input are computed by each rank that needs them. Values of other ranks are received, and values that
 * others need are sent (handover.h). A send is posted right after the instruction that completes its value, or when the
 * action begins if the value is only forwarded. A receive is waited for at the beginning of the action in a chain, and
 * before the first use between branches.
 *
 * Activations get a copy for each microbatch, "name#k". Everything else is shared: gradients of weights and the loss
 * are written by microbatch 0, which is first in every schedule, and added to by the rest. Slots that no instruction
 * uses are dropped. */
#include "plan/pass.h"
#include "plan/pipeline/handover.h"

typedef struct unroll {
    tri_pass *pass;
    const tri_program *from;
    tri_builder to;
    const tri_stages *stages;
    const tri_actions *order;  /* of this rank */
    tri_handovers hand;
    int *stage_of;             /* [instructions of from]; -1: depends only on the input */
    int **list, *n_list; /* [n_stages] instructions of this rank's stages, with those on the input that they need */
    int collects;              /* 1: probabilities of several microbatches, or for several ranks */
    int loss;                  /* the instruction of from that ends forward */
    int *shared;               /* [slots of from] new index of a slot that microbatches share; -1 */
    int *own;                  /* [n_mb * slots of from] new index in a microbatch; -1 */
    int *coming, *leaving;     /* [n_mb * slots of from] 1 + the message of hand.in, hand.out that is in flight; 0 */
    uint8_t *given;            /* [n_mb * slots of from] 1: depends only on the input, and is computed already */
    int n_posted, n_sent;      /* messages posted of hand.in, of hand.out */
    int returns;               /* 1: later stages send gradients to this rank */
    int *awaited;              /* [actions] messages of hand.in that an action still has to wait for */
} unroll;

static int is_own(const tri_slot *slot) { return slot->mem == TRI_MEM_ACT; }
static size_t at_mb(const unroll *u, int slot, int mb) { return (size_t)mb * (size_t)u->from->n_slots + (size_t)slot; }

/* Elements that the probabilities of a microbatch take. */
static int64_t probs_each(const unroll *u) {
    return u->from->max.of[TRI_SYM_N] * u->from->slot[u->pass->forward.probs].cols;
}

/* A prediction's probabilities are results: those of all microbatches, one after the other. */
static int map_probs(unroll *u, int mb) {
    int *all = &u->shared[u->pass->forward.probs], *own = &u->own[at_mb(u, u->pass->forward.probs, mb)];
    const tri_slot *s = &u->from->slot[u->pass->forward.probs];
    tri_builder at = u->to;
    at.unit = s->unit;
    if (*all < 0) *all = TRI_BUILD_FLAT(&at, s->mem, s->dtype, u->to.program->n_mb * probs_each(u), "%s", s->name);
    if (*own < 0) *own = tri__build_rows_view(&at, *all, mb * probs_each(u), s->rows, s->cols, "%s.#%d", s->name, mb);
    return *own;
}

static int map_slot(unroll *u, int slot, int mb) {
    if (slot < 0) return -1;
    if (u->collects && slot == u->pass->forward.probs) return map_probs(u, mb);
    const tri_slot *s = &u->from->slot[slot];
    int *index = is_own(s) ? &u->own[at_mb(u, slot, mb)] : &u->shared[slot];
    if (*index >= 0) return *index;
    tri_builder at = u->to;
    at.unit = s->unit;
    if (s->parent >= 0) {
        int parent = map_slot(u, s->parent, mb);
        /* of a view of activations, which gets a name for each microbatch */
        const char *label = s->name + strlen(u->from->slot[s->parent].name);
        return *index = tri__build_view(&at, parent, s->parent_at, s->rows.add, s->cols, "%s%s",
                                        is_own(s) ? u->to.program->slot[parent].name : s->name, is_own(s) ? label : "");
    }
    if (is_own(s)) return *index = TRI_BUILD_SAME(&at, *s, "%s#%d", s->name, mb);
    return *index = TRI_BUILD_SAME(&at, *s, "%s", s->name);
}

/* ---- Which stage has which instructions ---- */

static int is_given(const tri_program *p, const tri_instr *instr, const uint8_t *given) {
    tri_op_phase phase = tri__instr_row(instr)->phase;
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (tri__reads(instr, k) && !given[tri__slot_root(p, instr->slot[k])]) return 0;
    return phase == TRI_PHASE_I || phase == TRI_PHASE_F;
}

static void find_stages(unroll *u) {
    const tri_program *p = u->from;
    uint8_t *given = tri__arena_alloc(u->to.arena, (size_t)p->n_slots);
    u->stage_of = tri__arena_alloc(u->to.arena, (size_t)p->n_instrs * sizeof *u->stage_of);
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_instr *instr = &p->instr[i];
        int alone = is_given(p, instr, given);
        TRI_ASSERT(alone || instr->unit >= 0);
        u->stage_of[i] = alone ? -1 : u->stages->of_unit[instr->unit];
        for (int k = 0; k < TRI_MAX_ARGS && alone; k++)
            if (tri__writes(instr, k)) given[tri__slot_root(p, instr->slot[k])] = 1;
        if (instr->slot[0] == u->pass->forward.loss) u->loss = i;
    }
}

/* The stage's instructions, and those on the input that they depend on. */
static void list_stage(unroll *u, int stage) {
    const tri_program *p = u->from;
    uint8_t *read = tri__arena_alloc(u->to.arena, (size_t)p->n_slots),
            *listed = tri__arena_alloc(u->to.arena, (size_t)p->n_instrs);
    int n = 0;
    for (int i = p->n_instrs - 1; i >= 0; i--) {
        const tri_instr *instr = &p->instr[i];
        int wanted = u->stage_of[i] == stage;
        for (int k = 0; k < TRI_MAX_ARGS && u->stage_of[i] < 0; k++)
            wanted |= instr->slot[k] >= 0 && read[tri__slot_root(p, instr->slot[k])];
        for (int k = 0; k < TRI_MAX_ARGS && wanted; k++)
            if (instr->slot[k] >= 0) read[tri__slot_root(p, instr->slot[k])] = 1;
        listed[i] = (uint8_t)wanted;
        n += wanted;
    }
    u->list[stage] = tri__arena_alloc(u->to.arena, (size_t)n * sizeof **u->list);
    for (int i = 0; i < p->n_instrs; i++)
        if (listed[i]) u->list[stage][u->n_list[stage]++] = i;
}

static int is_of(const unroll *u, tri_act act, int i) {
    int weight = tri__instr_row(&u->from->instr[i])->phase == TRI_PHASE_W;
    if (act == TRI_ACT_F || i <= u->loss) return act == TRI_ACT_F && i <= u->loss;
    return act == TRI_ACT_BW || weight == (act == TRI_ACT_W);
}

/* ---- Messages ---- */

static void post(unroll *u, tri_op op, const tri_message_plan *message) {
    int slot = map_slot(u, u->hand.edge[message->edge].slot, message->mb);
    u->to.unit = u->to.program->slot[slot].unit, u->to.mb = message->mb;
    tri_attr group = {.axes = TRI_AXIS_SET(TRI_AXIS_PP), .root = op == TRI_OP_send_post ? message->to : message->from};
    tri__build_post(&u->to, op, group, (tri_ends){slot, -1});
}

static void wait(unroll *u, const tri_message_plan *message, int sent) {
    int slot = map_slot(u, u->hand.edge[message->edge].slot, message->mb);
    u->to.unit = u->to.program->slot[slot].unit, u->to.mb = message->mb;
    tri__build_wait(&u->to, sent ? (tri_ends){-1, slot} : (tri_ends){slot, -1});
}

static void wait_sent(unroll *u, int slot, int mb) {
    int *leaving = &u->leaving[at_mb(u, slot, mb)];
    if (!*leaving) return;
    wait(u, &u->hand.out[*leaving - 1], 1);
    *leaving = 0;
}

/* When the last of an action's messages has arrived, so have the sends that this implies. */
static void wait_received(unroll *u, int slot, int mb) {
    int *coming = &u->coming[at_mb(u, slot, mb)];
    if (!*coming) return;
    const tri_message_plan *message = &u->hand.in[*coming - 1];
    wait(u, message, 0);
    *coming = 0;
    if (--u->awaited[message->used]) return;
    for (int i = 0; i < u->hand.n_out; i++)
        if (u->hand.out[i].known == message->used)
            wait_sent(u, u->hand.edge[u->hand.out[i].edge].slot, u->hand.out[i].mb);
}

static void wait_all_received(unroll *u, int action) {
    for (int i = 0; i < u->n_posted && u->awaited[action]; i++)
        if (u->hand.in[i].used == action) wait_received(u, u->hand.edge[u->hand.in[i].edge].slot, u->hand.in[i].mb);
}

static void post_receives(unroll *u, int action) {
    for (; u->n_posted < u->hand.n_in && u->hand.in[u->n_posted].post <= action; u->n_posted++) {
        const tri_message_plan *message = &u->hand.in[u->n_posted];
        post(u, TRI_OP_recv_post, message);
        u->coming[at_mb(u, u->hand.edge[message->edge].slot, message->mb)] = u->n_posted + 1;
    }
}

/* Where no message comes back that implies a send's arrival, in a forward program or from above what is frozen, the
 * values of all microbatches would be kept until its end. Where a rank has one stage it may wait for an earlier send
 * instead: microbatches pass in order, and what a wait needs comes from later stages, which wait for nothing of this
 * one's later work. */
static void bound_sends(unroll *u, const tri_message_plan *message) {
    enum { AHEAD = 2 }; /* microbatches that a stage may be ahead of the next */
    const tri_pipeline *pipeline = &u->stages->pipeline;
    if (u->returns || pipeline->n_stages > pipeline->n_ranks || message->mb < AHEAD) return;
    wait_sent(u, u->hand.edge[message->edge].slot, message->mb - AHEAD);
}

/* Posts the sends of an action whose values are complete after instruction `done` of the template. */
static void send(unroll *u, int action, int done) {
    for (; u->n_sent < u->hand.n_out; u->n_sent++) {
        const tri_message_plan *message = &u->hand.out[u->n_sent];
        const tri_edge *edge = &u->hand.edge[message->edge];
        if (message->made != action || edge->after > done) return;
        wait_sent(u, edge->slot, message->mb);
        bound_sends(u, message);
        post(u, TRI_OP_send_post, message);
        u->leaving[at_mb(u, edge->slot, message->mb)] = u->n_sent + 1;
    }
}

/* ---- Actions ---- */

static void append(unroll *u, int i, int mb) {
    tri_instr instr = u->from->instr[i];
    instr.mb = (int16_t)mb;
    for (int k = 0; k < TRI_MAX_ARGS; k++) {
        if (instr.slot[k] < 0) continue;
        int root = tri__slot_root(u->from, instr.slot[k]), sums = tri__instr_row(&instr)->arg[k].access == TRI_ACCESS_A;
        wait_received(u, root, mb), wait_sent(u, root, mb);
        instr.slot[k] = map_slot(u, instr.slot[k], mb);
        if (mb > 0 && sums && !is_own(&u->from->slot[root])) instr.acc |= (uint16_t)(1u << k);
    }
    tri__build_copy(&u->to, &instr);
}

static void act(unroll *u, int action) {
    const tri_action *a = &u->order->at[action];
    post_receives(u, action);
    if (!u->stages->branches) wait_all_received(u, action);
    send(u, action, -1);
    for (int k = 0; k < u->n_list[a->stage]; k++) {
        int i = u->list[a->stage][k];
        if (!is_of(u, a->act, i)) continue;
        if (u->stage_of[i] < 0) { /* once a microbatch, in the first stage of this rank that needs it */
            uint8_t *given = &u->given[at_mb(u, u->from->instr[i].slot[0], a->mb)];
            if (*given) continue;
            *given = 1;
        }
        append(u, i, a->mb);
        send(u, action, i);
    }
    wait_all_received(u, action);
}

/* ---- The pass ---- */

/* A forward-only program: each stage takes all microbatches in turn, so that the stages of a pipeline work at the same
 * time, on different ones. */
static const tri_actions *forward_orders(tri_arena *arena, const tri_pipeline *pipeline) {
    tri_actions *orders = tri__arena_alloc(arena, (size_t)pipeline->n_ranks * sizeof *orders);
    for (int rank = 0; rank < pipeline->n_ranks; rank++) orders[rank].arena = arena;
    for (int stage = 0; stage < pipeline->n_stages; stage++)
        for (int mb = 0; mb < pipeline->n_mb; mb++) tri__act(&orders[pipeline->rank[stage]], TRI_ACT_F, stage, mb);
    return orders;
}

static tri_status plan_handovers(unroll *u, int n_mb) {
    tri_arena *arena = u->to.arena;
    tri_pipeline pipeline = u->stages->pipeline;
    int place = tri__mesh_coords(&u->pass->in->mesh, u->pass->in->rank).pp;
    pipeline.n_mb = n_mb;
    const tri_actions *orders = u->pass->unit_grad ? tri__stages_orders(arena, u->pass->in, u->stages)
                                                   : forward_orders(arena, &pipeline);
    u->order = &orders[place];
    tri__edges_find(arena, u->stages, u->from, u->stage_of, u->loss, &u->hand);
    TRI_TRY(tri__messages_make(arena, &pipeline, orders, place, &u->hand));
    u->awaited = tri__arena_alloc(arena, (size_t)u->order->n * sizeof *u->awaited);
    for (int i = 0; i < u->hand.n_in; i++) {
        u->awaited[u->hand.in[i].used]++;
        u->returns |= u->hand.edge[u->hand.in[i].edge].back;
    }
    return TRI_OK;
}

static void open_unroll(unroll *u, tri_pass *pass, int n_mb) {
    tri_arena *arena = pass->arena;
    const tri_program *from = pass->program;
    *u = (unroll){.pass = pass, .from = from, .to = tri__build_like(arena, from), .stages = pass->stages};
    u->to.program->n_mb = n_mb;
    u->collects = !pass->training && n_mb * pass->in->mesh.pp * tri__mesh_readers(&pass->in->mesh) > 1;
    size_t all = (size_t)n_mb * (size_t)from->n_slots, n_stages = (size_t)pass->stages->pipeline.n_stages;
    u->shared = tri__none_yet(arena, from->n_slots);
    u->own = tri__none_yet(arena, (int64_t)all);
    u->coming = tri__arena_alloc(arena, all * sizeof *u->coming);
    u->leaving = tri__arena_alloc(arena, all * sizeof *u->leaving);
    u->given = tri__arena_alloc(arena, all);
    u->list = tri__arena_alloc(arena, n_stages * sizeof *u->list);
    u->n_list = tri__arena_alloc(arena, n_stages * sizeof *u->n_list);
}

/* Reduces the pass's tables of units to those that this rank holds. */
static void hold_units(unroll *u, int place) {
    tri_pass *pass = u->pass;
    const tri_plan_in *in = pass->in;
    int n = in->model->n_units, held = 0, *param = tri__arena_alloc(pass->arena, (size_t)n * sizeof *param);
    int *grad = tri__arena_alloc(pass->arena, (size_t)n * sizeof *grad),
        *stage = tri__arena_alloc(pass->arena, (size_t)n * sizeof *stage);
    uint8_t *has = tri__arena_alloc(pass->arena, (size_t)n);
    for (int i = 0; i < n; i++) {
        int of = u->stages->of_unit[i];
        if (!(has[i] = u->stages->pipeline.rank[of] == place)) continue;
        stage[held] = of;
        grad[held] = pass->unit_grad ? pass->unit_grad[i] : -1;
        param[held++] = map_slot(u, pass->forward.unit_slot[i], 0);
    }
    if (held < n)
        pass->model = tri__model_part(pass->arena, in->model, has, tri__plan_holder(in));
    pass->out.param = param;
    pass->unit_stage = stage;
    if (pass->unit_grad) pass->unit_grad = grad;
}

tri_status tri__pass_schedule(tri_pass *pass) {
    unroll u;
    int n_mb = pass->training ? pass->in->n_mb : pass->in->n_mb_infer > 1 ? pass->in->n_mb_infer : 1;
    int place = tri__mesh_coords(&pass->in->mesh, pass->in->rank).pp;
    open_unroll(&u, pass, n_mb);
    find_stages(&u);
    TRI_TRY(plan_handovers(&u, n_mb));
    for (int stage = 0; stage < u.stages->pipeline.n_stages; stage++)
        if (u.stages->pipeline.rank[stage] == place) list_stage(&u, stage);
    hold_units(&u, place);
    for (int i = 0; i < u.order->n; i++) act(&u, i);
    for (int i = 0; i < u.hand.n_out; i++) wait_sent(&u, u.hand.edge[u.hand.out[i].edge].slot, u.hand.out[i].mb);
    for (int i = 0; i < pass->model->n_units && pass->unit_grad; i++)
        pass->unit_grad[i] = map_slot(&u, pass->unit_grad[i], 0);
    int head = u.stages->pipeline.rank[u.stages->head] == place;
    pass->out.loss = head ? u.shared[pass->forward.loss] : -1;
    pass->out.probs = !head ? -1 : u.collects ? u.shared[pass->forward.probs]
                                              : map_slot(&u, pass->forward.probs, n_mb - 1);
    pass->program = u.to.program;
    return TRI_OK;
}
