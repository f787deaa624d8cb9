/* pass_precision.c - pass: element types and what they require: casts, master weights, the loss scale.
 *
 *   weights, activations, their gradients   the computing type
 *   gradients of weights                    the type they are summed in (reduce_dtype), also across microbatches
 *   optimizer states, and with 16-bit       fp32: the update works on a master of each weight and rounds it once into
 *     weights their masters                 the weight that computes
 *   statistics of norms and attention,      fp32, or what the operation's row fixes
 *     probabilities, losses, sums
 *
 * fp16 has a small exponent range: gradients are those of scale * loss, and clipping divides by the scale; errors of
 * coded gradients are kept without it. What the update codes, momenta and changes of weights, has no scale. A step
 * whose norm is not finite changes nothing, and the host lowers the scale (train/loss_scale.h). */
#include "plan/least.h"
#include "plan/pass.h"

typedef struct precision {
    tri_pass *pass;
    tri_builder to;
    uint8_t *from_host;        /* [slots] 1: filled by an input, in the host's type */
    uint8_t *computes;         /* [slots] 1: an operand of the computing type */
    int *cast;                 /* [slots] the value from the host in the computing type; -1 */
    int *unit_of;              /* [slots] of a unit's flat weights: the unit; -1 */
    int *master;               /* [slots] of weights that an update works on: their master; -1 */
    int n_slots;               /* of the program before this pass */
    int is_update;             /* 1: instructions from the update on, which divides gradients by the loss scale */
} precision;

static int has_fewer_bits(const precision *p) { return p->pass->in->precision != TRI_F32; }

static void look(precision *p) {
    const tri_program *program = p->pass->program;
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_instr *instr = &program->instr[i];
        const tri_op_row *row = tri__instr_row(instr);
        for (int k = 0; k < row->n_args; k++) {
            if (instr->slot[k] < 0) continue;
            int root = tri__slot_root(program, instr->slot[k]);
            if (instr->op == TRI_OP_input) p->from_host[root] = 1;
            /* A value that this rank only passes on has the computing type of the rank that uses it. */
            int passes_on = instr->op == TRI_OP_send_post || instr->op == TRI_OP_recv_post;
            if (row->arg[k].dtype == TRI_DTYPE_COMPUTE || (passes_on && program->slot[root].dtype == TRI_F32))
                p->computes[root] = 1;
        }
    }
}

static tri_dtype type_of(const precision *p, int slot) {
    const tri_slot *s = &p->pass->program->slot[slot];
    int root = tri__slot_root(p->pass->program, slot);
    switch (s->mem) {
    case TRI_MEM_PARAM: case TRI_MEM_GATHER: return tri__weights_dtype(p->pass);
    case TRI_MEM_GRAD: case TRI_MEM_COMM: return s->dtype == TRI_U8 ? TRI_U8 /* coded */ : p->pass->in->reduce_dtype;
    case TRI_MEM_ACT: return p->computes[root] && !p->from_host[root] ? p->pass->in->precision : s->dtype;
    default: return s->dtype;
    }
}

/* The master of a unit's weights, with the range of its shared states. */
static int unit_master(precision *p, int unit) {
    const tri_pass *pass = p->pass;
    tri_builder at = p->to;
    int *master = &pass->out.master[unit];
    at.unit = at.program->slot[pass->out.param[unit]].unit;
    if (*master < 0)
        *master = TRI_BUILD_FLAT(&at, TRI_MEM_STATE, TRI_F32, tri__range_count(pass->out.state_part[unit]),
                                 "master.%s", pass->model->unit[unit].name);
    return *master;
}

static int unit_of(const precision *p, int view) {
    while (p->unit_of[view] < 0) view = p->to.program->slot[view].parent;
    return p->unit_of[view];
}

/* The master of a view of a unit's weights. */
static int master_of(precision *p, int view) {
    const tri_planned *out = &p->pass->out;
    const tri_program *program = p->to.program;
    if (p->master[view] >= 0) return p->master[view];
    int unit = unit_of(p, view), weights = out->param[unit], whole = unit_master(p, unit);
    int64_t begin = tri__slot_begin(program, view) - tri__slot_begin(program, weights) + out->param_part[unit].begin;
    tri_builder at = p->to;
    at.unit = program->slot[view].unit;
    p->master[view] = tri__build_view(&at, whole, begin - out->state_part[unit].begin, 1, program->slot[view].cols,
                                      "%s.+%lld", program->slot[whole].name, (long long)begin);
    return p->master[view];
}

/* Where the operation has a form that updates the master and rounds it into the weight, appends that: adamw becomes
 * adamw_copy. */
static int append_copying(precision *p, const tri_instr *instr) {
    tri_instr made = *instr;
    made.attr.copy = 1;
    int variant = tri__variant(instr->op, &made.attr);
    if (variant < 0 || !(tri__variant_row(variant)->facts & TRI_FACT_COPY)) return 0;
    const tri_op_row *row = tri__variant_row(variant);
    int weight = tri__row_arg(row, "p"), copy = tri__row_arg(row, "copy");
    made.slot[copy] = made.slot[weight], made.slot[weight] = master_of(p, made.slot[weight]);
    tri__build(&p->to, made.op, made.slot, made.attr);
    return 1;
}

/* Weights that an operation takes in fp32 whatever computes: an update, which works on their master. */
static int needs_master(const precision *p, const tri_instr *instr, int k) {
    return instr->slot[k] >= 0 && tri__instr_row(instr)->arg[k].dtype == TRI_F32 &&
           p->to.program->slot[instr->slot[k]].mem == TRI_MEM_PARAM;
}

/* Where an update wrote a master, it is rounded into the weight. */
static void append_casts(precision *p, const tri_instr *instr) {
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (needs_master(p, instr, k) && tri__writes(instr, k))
            TRI_BUILD(&p->to, cast, (tri_attr){0}, instr->slot[k], master_of(p, instr->slot[k]));
}

static void append(precision *p, const tri_instr *instr) {
    const tri_op_row *row = tri__instr_row(instr);
    tri_pass *pass = p->pass;
    int slots[TRI_MAX_ARGS];
    tri__build_as(&p->to, instr);
    if (has_fewer_bits(p) && append_copying(p, instr)) return;
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        slots[k] = instr->slot[k] >= 0 && p->cast[instr->slot[k]] >= 0 ? p->cast[instr->slot[k]] : instr->slot[k];
    for (int k = 0; k < TRI_MAX_ARGS && has_fewer_bits(p); k++)
        if (needs_master(p, instr, k))
            slots[k] = instr->op == TRI_OP_average ? unit_master(p, unit_of(p, instr->slot[k]))
                                                   : master_of(p, instr->slot[k]);
    int scale = tri__row_arg(row, "scale"), e = tri__row_arg(row, "e"); /* of the loss; what coding lost */
    if (scale >= 0 && (e < 0 || (instr->slot[e] >= 0 && !p->is_update))) slots[scale] = pass->out.scale;
    tri__build(&p->to, instr->op, slots, instr->attr)->acc = instr->acc;
    if (has_fewer_bits(p)) append_casts(p, instr);
    int filled = TRI_SLOT(instr, input, y);
    if (instr->op != TRI_OP_input || !p->computes[filled] || !has_fewer_bits(p)) return;
    const tri_slot from = pass->program->slot[filled];
    p->cast[filled] = tri__build_slot(&p->to, from.mem, pass->in->precision, from.rows, from.cols, "%s.%s", from.name,
                                      tri__dtype_name(pass->in->precision));
    TRI_BUILD(&p->to, cast, (tri_attr){0}, p->cast[filled], filled);
}

static void rewrite(precision *p) {
    tri_pass *pass = p->pass;
    tri_program *program = pass->program;
    int n, update = pass->out.update;
    const tri_instr *instr = tri__take_instrs(program, &n);
    if (pass->in->precision == TRI_F16 && pass->out.apply >= 0) {
        p->to.unit = p->to.mb = -1;
        pass->out.scale = TRI_BUILD_FLAT(&p->to, TRI_MEM_RESULT, TRI_F32, 1, "loss.scale");
        TRI_BUILD(&p->to, input, ((tri_attr){.field = TRI_FIELD_loss_scale}), pass->out.scale);
    }
    for (int i = 0; i < n; i++) {
        if (i == update) pass->out.update = program->n_instrs, p->is_update = 1;
        append(p, &instr[i]);
    }
    for (int u = 0; u < pass->model->n_units && pass->out.master; u++) {
        int master = unit_master(p, u);
        for (int s = 0; s < pass->out.n_states; s++) { /* a state that is the weights themselves */
            int *slot = &pass->out.state[s].slot[u];
            if (*slot >= 0 && program->slot[*slot].mem == TRI_MEM_PARAM) *slot = master;
        }
    }
}

tri_status tri__check_kernels(const tri_pass *pass) {
    const tri_target *target = pass->in->target;
    for (int i = 0; i < pass->program->n_instrs; i++) {
        const tri_instr *instr = &pass->program->instr[i];
        tri_dtype dtype = tri__instr_dtype(pass->program, instr);
        if (tri__op_queue(instr->op) == TRI_QUEUE_COMPUTE &&
            !tri__target_has(target, (tri_op)instr->op, &instr->attr, dtype))
            return tri__fail(TRI_USAGE, "device %s has no %s kernel for operation %s, which the model needs",
                             target->name, tri__dtype_name(dtype), tri__instr_row(instr)->name);
    }
    return TRI_OK;
}

tri_status tri__pass_precision(tri_pass *pass) {
    tri_program *program = pass->program;
    size_t n = (size_t)program->n_slots;
    precision p = {.pass = pass, .to = {.arena = pass->arena, .program = program}, .n_slots = program->n_slots};
    p.from_host = tri__arena_alloc(pass->arena, n);
    p.computes = tri__arena_alloc(pass->arena, n);
    p.cast = tri__none_yet(pass->arena, p.n_slots);
    p.unit_of = tri__none_yet(pass->arena, p.n_slots);
    p.master = tri__none_yet(pass->arena, p.n_slots);
    for (int u = 0; u < pass->model->n_units; u++) p.unit_of[pass->out.param[u]] = u;
    if (has_fewer_bits(&p) && pass->training) pass->out.master = tri__none_yet(pass->arena, pass->model->n_units);
    look(&p);
    for (int s = 0; s < p.n_slots; s++) program->slot[s].dtype = type_of(&p, s);
    rewrite(&p);
    return tri__check_kernels(pass);
}

void tri__least_precision(const tri_plan_in *in, tri_least *least) {
    least->bytes[TRI_MEM_PARAM] = (double)tri__dtype_bytes(in->precision);
    least->bytes[TRI_MEM_GRAD] = (double)tri__dtype_bytes(in->reduce_dtype) * least->trained;
    if (in->precision != TRI_F32) least->bytes[TRI_MEM_STATE] += 4; /* masters */
}
