/* pass_fp8.c - pass: FP8 training. Products of 8-bit factors (ops_fp8.def) take the place of the encoders' dense
 * layers that `forward` has marked (attr.bits; attr.id is that of the weight's name).
 *
 *   linear           y <- x w b         linear_scaled y <- q(x) q(w) b
 *   linear_gelu      y h <- x w b       linear_gelu_scaled q(y) h <- q(x) q(w) b, and so for each activation
 *   linear_din       dx <- dy w         linear_scaled_din dx <- q(dy) transposed(w)
 *   linear_gelu_din  dx db <- dy w h    linear_gelu_scaled_din q(dx) db <- q(dy) transposed(w) h
 *   linear_dw        dw <- dy x         linear_scaled_dw dw <- transposed(dy) transposed(x)
 *
 * A value becomes a factor where it is made, if its producer has a form that writes 8 bits and nothing else reads it
 * (dropout_add_norm, attention: whatever reads it); else by fp8_cast before its first product. Later products read the
 * same bytes, except those of a repeated forward (pass_recompute.c), which are cast again: what is rebuilt is not kept.
 * Weights of a unit are cast together before their first use in a step (fp8_weights.c). Sharded ones are cast by their
 * owners and gathered in 8 bits (fp8_gathers.c). The 8-bit forms of a value are slots of fp8_forms.c.
 *
 *   step begins      fp8_scales: s from the history, most = 0
 *   update           most of all ranks that share these layers; fp8_check puts one that is not finite into the norm's
 *                    sums, so that the step is not applied; fp8_history
 *
 * The history, of 16 steps, is the only state: 3 rows for each product. Its prefix in checkpoints is fp8_history.
 *
 * Scales are fixed when a step begins, from earlier steps alone: so all microbatches, and all ranks that share a layer,
 * round by the same scale, and gradients are sums whatever their order. That is why `most` is raised, never read, until
 * the update, and why its maximum over ranks is exact. A step that is not applied leaves the history as it was. */
#include "plan/fp8.h"
#include "plan/optimizer.h"

enum { STEPS = 16, UNIT = 16 }; /* maxima kept of a tensor; dims are multiples of it */

/* ---- Which products, in `forward` ---- */

/* The layer of an encoder that a unit is: 0 for the first and the last, which stay in the computing type, 1 for those
 * between; -1: none. */
static int layer_of(const tri_network *model, const char *unit) {
    for (int b = 0; b < model->n_encoders; b++) {
        const char *name = tri__branch_name(b);
        size_t length = strlen(name);
        long long layer;
        int end = 0;
        if (strncmp(unit, name, length) != 0 || sscanf(unit + length, ".layer.%lld%n", &layer, &end) != 1) continue;
        if (unit[length + (size_t)end]) return -1; /* its experts */
        return layer > 0 && layer < model->encoder[b].num_hidden_layers - 1;
    }
    return -1;
}

tri_fp8_weight tri__fp8_weight(const tri_network *model, int tp, const tri_param *param) {
    int layer = layer_of(model, model->unit[param->unit].name);
    int64_t out = param->shape.dim[0] / (param->share == TRI_SHARE_ROWS ? tp : 1),
            in = param->shape.dim[1] / (param->share == TRI_SHARE_COLS ? tp : 1);
    if (layer < 0 || !tri__weight_quantizes(param->name, &param->shape) || strstr(param->name, ".router."))
        return TRI_FP8_NONE;
    return layer == 0 ? TRI_FP8_AT_END : out % UNIT || in % UNIT ? TRI_FP8_RAGGED : TRI_FP8_TAKEN;
}

/* A weight may be several parameters in a row, such as query, key and value, which are alike. */
static int is_marked(const tri_pass *pass, const tri_instr *instr) {
    const tri_program *program = pass->program;
    if (instr->op != TRI_OP_linear || tri__unit_encoder(program, instr->unit) < 0) return 0;
    tri_sym rows = program->slot[TRI_SLOT(instr, linear, x)].rows.sym;
    int w = TRI_SLOT(instr, linear, w), param = tri__forward_param(pass, program, w);
    return (rows == TRI_SYM_T0 || rows == TRI_SYM_T1) && tri__is_quantized(pass, w) &&
           tri__fp8_weight(pass->model, pass->in->mesh.tp, &pass->model->param[param]) == TRI_FP8_TAKEN;
}

tri_status tri__mark_fp8(tri_pass *pass) {
    tri_program *program = pass->program;
    int n = 0;
    for (int i = 0; i < program->n_instrs; i++) {
        tri_instr *instr = &program->instr[i];
        if (!is_marked(pass, instr)) continue;
        int param = tri__forward_param(pass, program, TRI_SLOT(instr, linear, w));
        instr->attr.bits = 8, instr->attr.id = tri__random_id(pass->model->param[param].name);
        n++;
    }
    if (n) return TRI_OK;
    return tri__fail(TRI_USAGE,
                     "--precision fp8: no product of this model would be in 8 bits: the first and the last layer of an "
                     "encoder stay in bf16, and so do weights whose dims, or a rank's share of them, are not multiples "
                     "of %d: take --precision bf16",
                     UNIT);
}

/* ---- Uses of values ---- */

/* An operand of a marked instruction that is a factor. */
typedef struct factor {
    int slot;
    tri_fp8_kind kind;
    int is_transposed;
} factor;

/* The factors of a marked instruction; returns how many there are, 2 or, of others, 0. */
static int factors_of(const tri_instr *instr, factor of[2]) {
    if (!instr->attr.bits) return 0;
    switch (instr->op) {
    case TRI_OP_linear:
        of[0] = (factor){TRI_SLOT(instr, linear, x), TRI_FP8_INPUT, 0};
        of[1] = (factor){TRI_SLOT(instr, linear, w), TRI_FP8_WEIGHT, 0};
        return 2;
    case TRI_OP_linear_din:
        of[0] = (factor){TRI_SLOT(instr, linear_din, dy), TRI_FP8_GRADIENT, 0};
        of[1] = (factor){TRI_SLOT(instr, linear_din, w), TRI_FP8_WEIGHT, 1};
        return 2;
    case TRI_OP_linear_dw:
        of[0] = (factor){TRI_SLOT(instr, linear_dw, dy), TRI_FP8_GRADIENT, 1};
        of[1] = (factor){TRI_SLOT(instr, linear_dw, x), TRI_FP8_INPUT, 1};
        return 2;
    default: return 0;
    }
}

static int param_of(const tri_fp8 *z, uint32_t id) {
    int i = 0;
    while (i < z->pass->model->n_params && z->id[i] != id) i++;
    TRI_ASSERT(i < z->pass->model->n_params);
    return i;
}

/* Products are numbered in the model's order, so that ranks that share layers number them alike: the rows of their
 * histories, which travel as one vector, are then those of the same products. */
static void number_products(tri_fp8 *z) {
    const tri_network *model = z->pass->model;
    uint8_t *is_one = tri__arena_alloc(z->pass->arena, (size_t)model->n_params);
    factor of[2];
    z->id = tri__arena_alloc(z->pass->arena, (size_t)model->n_params * sizeof *z->id);
    for (int i = 0; i < model->n_params; i++) z->id[i] = tri__random_id(model->param[i].name);
    for (int i = 0; i < z->n_from; i++)
        if (factors_of(&z->from[i], of)) is_one[param_of(z, z->from[i].attr.id)] = 1;
    z->product = tri__arena_alloc(z->pass->arena, (size_t)model->n_params * sizeof *z->product);
    z->weight = tri__arena_alloc(z->pass->arena, (size_t)model->n_params * sizeof *z->weight);
    for (int i = 0; i < model->n_params; i++) {
        z->product[i] = is_one[i] ? z->n_products++ : -1;
        if (is_one[i]) z->weight[z->product[i]] = i;
    }
}

/* A value that several products read has one scale: that of the first product. */
static void note_factor(tri_fp8 *z, int i, const factor *of) {
    tri_fp8_use *u = &z->use[of->slot];
    const tri_instr *instr = &z->from[i];
    int row = TRI_FP8_KINDS * z->product[param_of(z, instr->attr.id)] + (int)of->kind;
    if (u->row < 0 || row < u->row) u->row = row;
    if (!u->first) u->first = instr;
    else if (!tri__same_gates(u->first, instr)) u->differs = 1;
    (of->is_transposed ? u->transposed : u->rows)[i >= u->again] = 1;
}

static int is_forward(const tri_instr *instr) { return instr->attr.bits && instr->op == TRI_OP_linear; }

static void find_uses(tri_fp8 *z) {
    for (int s = 0; s < z->n_slots; s++)
        z->use[s].again = INT32_MAX, z->use[s].row = -1, z->form[s] = (tri_fp8_form){.q = -1, .transposed = -1};
    for (int i = 0; i < z->n_from; i++) {
        const tri_instr *instr = &z->from[i];
        const tri_op_row *row = tri__instr_row(instr);
        factor of[2];
        int n = factors_of(instr, of);
        for (int k = 0; k < row->n_args; k++) {
            if (instr->slot[k] < 0) continue;
            int is_factor = n && (instr->slot[k] == of[0].slot || instr->slot[k] == of[1].slot);
            tri_fp8_use *u = &z->use[instr->slot[k]];
            u->writers += tri__access_writes(row->arg[k].access);
            u->others += tri__access_reads(row->arg[k].access) && !is_factor;
        }
        tri_fp8_use *x = n && is_forward(instr) ? &z->use[of[0].slot] : NULL;
        if (x && x->again == INT32_MAX && x->first && is_forward(x->first) && x->first->attr.id == instr->attr.id)
            x->again = i; /* repeated */
        for (int k = 0; k < n; k++) note_factor(z, i, &of[k]);
    }
    for (int p = 0; p < z->n_products; p++) z->first_slot[p] = -1;
    for (int s = z->n_slots - 1; s >= 0; s--) {
        int row = z->use[s].row;
        if (row < 0 || row % TRI_FP8_KINDS != TRI_FP8_WEIGHT) continue;
        z->next_slot[s] = z->first_slot[row / TRI_FP8_KINDS], z->first_slot[row / TRI_FP8_KINDS] = s;
    }
}

/* ---- Values in 8 bits ---- */

static int scale(tri_fp8 *z, int slot) { return tri__fp8_scales(z, z->use[slot].row, 1); }
static int most(tri_fp8 *z, int slot) { return tri__fp8_most(z, z->use[slot].row, 1); }

/* The form of a factor of instruction i; made before it where there is none. */
static int form_of(tri_fp8 *z, int i, const factor *of) {
    const tri_fp8_form *f = &z->form[of->slot];
    if (f->is_gathered && !of->is_transposed) return f->q;
    if (of->kind == TRI_FP8_WEIGHT && !tri__fp8_is_made(z, of->slot, i)) tri__fp8_make_weights(z, of->slot, i);
    if (!tri__fp8_is_made(z, of->slot, i)) {
        tri__fp8_open(z, of->slot, i);
        TRI_BUILD(&z->to, fp8_cast, (tri_attr){0}, f->q, f->transposed, most(z, of->slot), of->slot,
                  scale(z, of->slot));
    }
    return of->is_transposed ? f->transposed : f->q;
}

/* ---- Instructions ---- */

/* The attributes of the form of an instruction that writes 8 bits. Decisions and sums of attention are operands that it
 * may have. */
static tri_attr scaled_of(const tri_instr *instr) {
    tri_attr attr = instr->attr;
    attr.scaled = 1, attr.mask = attr.sums = 0;
    return attr;
}

/* Whether instruction i, whose first output is `slot`, may write its 8-bit form: q, and transposed if `both`, as `op`
 * with these attributes does. Alone: nothing but products reads it, so that it is not written in 16 bits. */
static int can_write(const tri_fp8 *z, int i, int slot, tri_op op, tri_attr attr, int both, int alone) {
    const tri_fp8_use *u = &z->use[slot];
    if (!tri__target_has(z->pass->in->target, op, &attr, z->pass->in->precision)) return 0;
    if (u->writers != 1 || !u->rows[0] || (both && !u->transposed[0])) return 0;
    if (z->from[i].acc & 1) return 0;
    if (alone && (u->others || u->again != INT32_MAX)) return 0;
    return !u->differs && tri__same_gates(u->first, &z->from[i]);
}

static int temporary(tri_fp8 *z, int like, const char *name) {
    const tri_slot of = z->to.program->slot[like];
    return tri__build_slot(&z->to, TRI_MEM_ACT, of.dtype, of.rows, of.cols, "%s.%s", of.name, name);
}

/* The activation of an instruction, as an attribute of the operation alone. */
static tri_attr act_of(const tri_instr *instr) { return (tri_attr){.activation = instr->attr.activation}; }

static void append_linear(tri_fp8 *z, int i, const factor of[2]) {
    const tri_instr *instr = &z->from[i];
    tri_attr act = act_of(instr), scaled = {.factors = TRI_FACTORS_SCALED}, both = scaled;
    int x = form_of(z, i, &of[0]), w = form_of(z, i, &of[1]), sx = scale(z, of[0].slot), sw = scale(z, of[1].slot);
    int y = TRI_SLOT(instr, linear, y), h = TRI_SLOT(instr, linear, h), b = TRI_SLOT(instr, linear, b);
    both.activation = act.activation;
    if (act.activation && can_write(z, i, y, TRI_OP_linear, both, 0, 1)) {
        const tri_fp8_form *f = tri__fp8_open(z, y, i);
        TRI_BUILD_VARIANT(&z->to, linear, both, f->q, f->transposed, most(z, y), h, x, w, sx, sw, scale(z, y), b);
        return;
    }
    if (h < 0) h = act.activation ? temporary(z, y, "h") : y;
    TRI_BUILD_VARIANT(&z->to, linear, scaled, h, x, w, sx, sw, b);
    if (act.activation) TRI_BUILD(&z->to, act, act, y, h);
}

static void append_linear_din(tri_fp8 *z, int i, const factor of[2]) {
    const tri_instr *instr = &z->from[i];
    tri_attr act = act_of(instr), scaled = {.factors = TRI_FACTORS_SCALED}, both = scaled;
    int dy = form_of(z, i, &of[0]), w = form_of(z, i, &of[1]), sdy = scale(z, of[0].slot), sw = scale(z, of[1].slot);
    int dx = TRI_SLOT(instr, linear_din, dx), db = TRI_SLOT(instr, linear_din, db);
    int h = TRI_SLOT(instr, linear_din, h), adds = instr->acc >> TRI_ARG(linear_din, db) & 1;
    both.activation = act.activation, act.sums = 1;
    if (!act.activation) {
        TRI_BUILD_VARIANT(&z->to, linear_din, scaled, dx, dy, w, sdy, sw)->acc = instr->acc;
    } else if (can_write(z, i, dx, TRI_OP_linear_din, both, 1, 1)) {
        const tri_fp8_form *f = tri__fp8_open(z, dx, i);
        TRI_BUILD_VARIANT(&z->to, linear_din, both, f->q, f->transposed, most(z, dx), db, dy, w, h, sdy, sw,
                          scale(z, dx))->acc = (uint16_t)(adds << TRI_ARG(linear_din, db));
    } else {
        int dh = temporary(z, dx, "dy");
        TRI_BUILD_VARIANT(&z->to, linear_din, scaled, dh, dy, w, sdy, sw);
        TRI_BUILD_VARIANT(&z->to, act_din, act, dx, db, dh, h)->acc = (uint16_t)(adds << TRI_ARG(act_din, db));
    }
}

static void append_linear_dw(tri_fp8 *z, int i, const factor of[2]) {
    const tri_instr *instr = &z->from[i];
    int dy = form_of(z, i, &of[0]), x = form_of(z, i, &of[1]);
    TRI_BUILD_VARIANT(&z->to, linear_dw, ((tri_attr){.factors = TRI_FACTORS_SCALED}), TRI_SLOT(instr, linear_dw, dw),
                      dy, x, scale(z, of[0].slot), scale(z, of[1].slot))->acc = instr->acc;
}

/* The variant with these attributes, which writes the 8-bit form of `slot`, its first output, which is written too or,
 * of gradients, is not; the other operands by their names. */
static void append_scaled(tri_fp8 *z, int i, tri_attr attr, int slot) {
    const tri_instr *instr = &z->from[i];
    const tri_op_row *row = tri__instr_row(instr), *scaled = tri__op_row(instr->op, &attr);
    int slots[TRI_MAX_ARGS] = TRI_NO_SLOTS;
    const tri_fp8_form *f = tri__fp8_open(z, slot, i);
    uint16_t acc = 0;
    for (int k = 0; k < row->n_args; k++) {
        int to = tri__row_arg(scaled, row->arg[k].name);
        if (to < 0) continue; /* dx or dqkv, which has become q */
        slots[to] = instr->slot[k];
        acc |= (uint16_t)((instr->acc >> k & 1) << to);
    }
    slots[tri__row_arg(scaled, "q")] = f->q, slots[tri__row_arg(scaled, "transposed")] = f->transposed;
    slots[tri__row_arg(scaled, "most")] = most(z, slot), slots[tri__row_arg(scaled, "sq")] = scale(z, slot);
    tri__build(&z->to, instr->op, slots, attr)->acc = acc;
}

static void append_other(tri_fp8 *z, int i) {
    const tri_instr *instr = &z->from[i];
    tri_attr attr = instr->attr;
    if (attr.bits) attr.bits = 0, attr.id = 0, attr.axes = 0; /* a bias's gradient */
    tri_attr scaled = scaled_of(instr);
    int variant = tri__variant(instr->op, &scaled);
    int writes = variant >= 0 && tri__variant_row(variant)->facts & TRI_FACT_SCALED;
    int alone = tri__instr_row(instr)->phase == TRI_PHASE_B; /* only products may read gradients, in both orders */
    if (writes && can_write(z, i, instr->slot[0], instr->op, scaled, alone, alone)) {
        append_scaled(z, i, scaled, instr->slot[0]);
        return;
    }
    tri__build(&z->to, instr->op, instr->slot, attr)->acc = instr->acc;
}

static void append(tri_fp8 *z, int i) {
    factor of[2];
    tri__build_as(&z->to, &z->from[i]);
    if (tri__fp8_gathers_append(z, i)) return;
    if (!factors_of(&z->from[i], of)) append_other(z, i);
    else
        switch (z->from[i].op) {
        case TRI_OP_linear: append_linear(z, i, of); break;
        case TRI_OP_linear_din: append_linear_din(z, i, of); break;
        default: append_linear_dw(z, i, of);
        }
}

/* ---- Scales ---- */

/* Every rank of a stage holds all of its history; the one with the first elements of a unit's weights saves it. */
static void add_history(tri_fp8 *z) {
    tri_pass *pass = z->pass;
    const tri_network *model = pass->model;
    int n = model->n_units, K = TRI_FP8_KINDS * z->n_products, at = 0;
    tri_state *state = &pass->out.state[tri__add_state(pass, "fp8.history", "fp8_history.")];
    uint8_t *has = tri__arena_alloc(pass->arena, (size_t)model->n_params);
    z->to.unit = -1;
    z->history = tri__build_slot(&z->to, TRI_MEM_STATE, TRI_F32, (tri_rows){.add = K}, STEPS, "fp8.history");
    state->each = (tri_shape){.n = 2, .dim = {TRI_FP8_KINDS, STEPS}}, state->has = has, state->absent = TRI_ABSENT_ZERO;
    state->held = tri__arena_alloc(pass->arena, (size_t)n * sizeof *state->held);
    state->save = tri__arena_alloc(pass->arena, (size_t)n * sizeof *state->save);
    for (int i = 0; i < model->n_params; i++) {
        has[i] = z->product[i] >= 0;
        state->held[model->param[i].unit].end += has[i] * TRI_FP8_KINDS * STEPS;
    }
    int tp = tri__mesh_group_place(&pass->in->mesh, pass->in->rank, TRI_AXIS_SET(TRI_AXIS_TP));
    for (int u = 0; u < n; at += (int)state->held[u++].end / STEPS) {
        tri_range first = pass->out.save_part[u];
        if (!state->held[u].end) continue;
        state->slot[u] = tri__build_view(&z->to, z->history, (int64_t)at * STEPS, state->held[u].end / STEPS, STEPS,
                                         "fp8.history.%s", model->unit[u].name);
        if (first.begin == 0 && first.end > 0 && tp == 0) state->save[u] = state->held[u];
    }
}

static void begin_step(tri_fp8 *z) {
    int K = TRI_FP8_KINDS * z->n_products;
    const tri_rows one = {.add = 1};
    z->to.unit = z->to.mb = -1, z->to.gates = 0, z->to.layer = 0;
    z->s = tri__build_slot(&z->to, TRI_MEM_RESULT, TRI_F32, one, K, "fp8.scale");
    z->most = tri__build_slot(&z->to, TRI_MEM_RESULT, TRI_F32, one, K, "fp8.most");
    for (int which = 0; which < 2; which++) z->numbers[which] = tri__none_yet(z->pass->arena, TRI_FP8_AT_ONCE * K);
    TRI_BUILD(&z->to, fp8_scales, (tri_attr){0}, z->s, z->most, z->history);
}

/* Ranks that share these layers, or have replicas of them. */
static uint32_t sharing_axes(const tri_mesh *mesh) {
    return (mesh->dp > 1 ? TRI_AXIS_SET(TRI_AXIS_DP) : 0) | (mesh->tp > 1 ? TRI_AXIS_SET(TRI_AXIS_TP) : 0);
}

/* The update: the largest of all ranks is on its way while squares are summed. Runs in steps of all kinds. */
static void post_most(tri_fp8 *z) {
    tri_attr group = {.most = 1, .axes = sharing_axes(&z->pass->in->mesh), .id = tri__random_id("fp8.most")};
    z->to.unit = z->to.mb = -1, z->to.gates = 0, z->to.layer = 0;
    if (group.axes) TRI_BUILD(&z->to, all_reduce_post, group, z->most);
}

static void check_most(tri_fp8 *z, const tri_instr *sumsq) {
    z->to.unit = z->to.mb = -1, z->to.gates = 0, z->to.layer = 0;
    if (!z->waited && sharing_axes(&z->pass->in->mesh)) TRI_BUILD(&z->to, wait, (tri_attr){0}, z->most, -1);
    z->waited = 1, z->to.gates = sumsq->gates;
    TRI_BUILD(&z->to, fp8_check, (tri_attr){0}, TRI_SLOT(sumsq, sumsq, sum), z->most);
}

static void keep_history(tri_fp8 *z) {
    z->to.unit = z->to.mb = -1, z->to.gates = 0, z->to.layer = 0;
    TRI_BUILD(&z->to, fp8_history, (tri_attr){0}, z->history, z->most, z->pass->out.apply);
}

/* Whether sumsq instruction i is the last of a norm's: a step of each kind has its own. */
static int ends_squares(const tri_fp8 *z, int i) {
    return i + 1 == z->n_from || z->from[i + 1].op != TRI_OP_sumsq || z->from[i + 1].gates != z->from[i].gates;
}

static void rewrite(tri_fp8 *z) {
    tri_program *program = z->pass->program;
    int update = z->pass->out.update, posted = 0;
    z->from = tri__take_instrs(program, &z->n_from);
    begin_step(z);
    tri__fp8_gathers_plan(z);
    for (int i = 0; i < z->n_from; i++) {
        int squares = i >= update && z->from[i].op == TRI_OP_sumsq;
        if (i == update) z->pass->out.update = program->n_instrs;
        if (squares && !posted) post_most(z), posted = 1;
        append(z, i);
        if (squares && ends_squares(z, i)) check_most(z, &z->from[i]);
        if (i == z->clip) keep_history(z);
    }
    TRI_ASSERT(posted && z->waited && z->clip >= 0);
}

static tri_status check_target(const tri_pass *pass) {
    const tri_target *target = pass->in->target;
    tri_attr scaled = {.factors = TRI_FACTORS_SCALED};
    if (tri__target_has(target, TRI_OP_linear, &scaled, pass->in->precision)) return TRI_OK;
    return tri__fail(TRI_USAGE,
                     "--precision fp8: device %s has no kernels for products of 8-bit factors; NVIDIA GPUs of compute "
                     "capability 9.0 (H100, H200) and later have, and --device cpu emulates them: take --precision "
                     "bf16 here",
                     target->name);
}

tri_status tri__pass_fp8(tri_pass *pass) {
    tri_program *program = pass->program;
    tri_fp8 z = {.pass = pass, .to = {.arena = pass->arena, .program = program, .unit = -1, .mb = -1}, .clip = -1,
             .from = program->instr, .n_from = program->n_instrs, .n_slots = program->n_slots};
    TRI_TRY(check_target(pass));
    number_products(&z);
    if (!z.n_products) return TRI_OK; /* of a pipeline, a stage without such layers */
    z.use = tri__arena_alloc(pass->arena, (size_t)z.n_slots * sizeof *z.use);
    z.form = tri__arena_alloc(pass->arena, (size_t)z.n_slots * sizeof *z.form);
    z.first_slot = tri__arena_alloc(pass->arena, (size_t)z.n_products * sizeof *z.first_slot);
    z.next_slot = tri__arena_alloc(pass->arena, (size_t)z.n_slots * sizeof *z.next_slot);
    for (int i = 0; i < z.n_from; i++)
        if (z.from[i].op == TRI_OP_clip) z.clip = i;
    find_uses(&z);
    add_history(&z);
    rewrite(&z);
    return tri__check_kernels(pass);
}
