/* pass_local.c - pass: copies of the model take local steps and synchronise every N steps (DiLoCo, Douillard et al.,
 * 2023). A copy is a replica, or with --shard hybrid a run of replicas that share one.
 *
 * In between, gradients of different copies are not summed (shard_gradients.c): each copy divides by the
 * label weights of its own samples (field copy_inv), and clips by its own norm. Weights and optimizer states are then
 * a copy's own. To synchronise (gate sync), after the update, unit by unit:
 *
 *   local_delta      d = anchor - p: how far this copy went since the last time, from the anchor
 *   reduce_scatter   the sum over copies: each has a part of it
 *   outer_step       Nesterov's momentum along the mean
 *   all_gather       the step
 *   outer_take       the anchor moves by it, and the copy is there
 *
 * With --compress-gradients d and the step travel as sums of gradients do (pass_compress.c): pack, all_to_all,
 * unpack_sum; pack, all_gather, unpack. Every copy, the owner of a part too, takes the decoded step, so anchors never
 * drift apart. Sums within a copy stay in full. A unit's exchange advances by one transfer wherever the next unit's
 * begins. */
#include "plan/coded_transfer.h"
#include "plan/optimizer.h"
#include "plan/step_kinds.h"

/* How a unit's elements that this rank holds are exchanged between copies. */
typedef struct exchange {
    int unit;
    tri_code code;         /* NONE: in full */
    int is_nested;         /* 1: summed within the machine first, in full */
    tri_attr group;        /* the other copies' ranks that hold the same, or with nesting the same part of them */
    int n, place;          /* its members; this one's place */
    tri_range part, own;   /* of the unit's elements: what the group exchanges; this member's part of that */
} exchange;

/* An exchange under way: of a unit's change d = anchor - p, and later of the step. */
typedef struct flight {
    int unit;
    tri_coded_transfer transfer;
} flight;

typedef struct synchronising {
    tri_pass *pass;
    tri_builder build;
    exchange *x;           /* [n_units] */
    flight *open;          /* [n_units] */
    int copies;
    int momentum, error, error_sum; /* states; -1: none */
} synchronising;

int tri__takes_local_steps(const tri_pass *pass) {
    return pass->training && pass->in->optimizer.sync_every > 1 && pass->in->mesh.dp > 1;
}

/* The ranks of all copies that hold the same elements as this one. */
static tri_attr copies_group(const tri_pass *pass) {
    return (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP),
                      .across = pass->sharding.kind == TRI_SHARD_HYBRID ? pass->sharding.size : 0};
}

/* 0/1 Adam; the engine asks for no such steps where replicas share one copy. */
static tri_status check_zero_one(const tri_pass *pass) {
    const tri_plan_in *in = pass->in;
    int cp = tri__mesh_cp(&in->mesh);
    if (in->mesh.dp == 1 || !(tri__step_gates(&in->optimizer) & TRI_GATE(alone))) return TRI_OK;
    if (cp > 1 && (pass->sharding.kind != TRI_SHARD_HYBRID || pass->sharding.size % cp))
        return tri__fail(TRI_USAGE,
                         "--optimizer zero-one-adam with --cp-size %d: ranks that share tokens step together: take "
                         "--local-step-clipper 1, or --shard hybrid with a --shard-size that is a multiple of %d",
                         cp, cp);
    if (pass->sharding.kind != TRI_SHARD_NONE && pass->sharding.kind != TRI_SHARD_HYBRID)
        return tri__fail(TRI_USAGE, "zero-one-adam: all replicas share one copy of the model, and none can take local "
                                    "steps: take --local-step-clipper 1");
    if (in->offload && in->target->ahead)
        return tri__fail(TRI_USAGE,
                         "--optimizer zero-one-adam with --offload on a device that copies: evaluations exchange the "
                         "copies' weights with the common ones, which must both be in the device's memory: take "
                         "--local-step-clipper 1, or leave out --offload");
    return TRI_OK;
}

/* The longest run of replicas, shorter than all, of which several make all; 1: there is none. */
static int largest_run(int dp) {
    int run = dp - 1;
    while (run > 1 && dp % run) run--;
    return run;
}

tri_status tri__local_check(const tri_pass *pass) {
    const tri_plan_in *in = pass->in;
    long long every = (long long)in->optimizer.sync_every;
    static const char *const names[] = {TRI_SHARD_KINDS(TRI_NAMED)};
    if (pass->training && in->optimizer.kind == TRI_ZERO_ONE_ADAM) return check_zero_one(pass);
    if (!pass->training || every <= 1) return TRI_OK;
    int cp = tri__mesh_cp(&in->mesh), is_hybrid = pass->sharding.kind == TRI_SHARD_HYBRID;
    if (in->mesh.dp == cp) /* ranks that share tokens are replicas too */
        return tri__fail(TRI_USAGE,
                         "--sync-every %lld: there is one copy of the model, so there is nothing to synchronise: leave "
                         "it out, or take more replicas (--dp-size)",
                         every);
    if (cp > 1 && (!is_hybrid || pass->sharding.size % cp))
        return tri__fail(
            TRI_USAGE,
            "--sync-every %lld with --cp-size %d: ranks that share tokens step together: take --shard hybrid "
            "with a --shard-size that is a multiple of %d",
            every, cp, cp);
    if (in->offload && in->target->ahead)
        return tri__fail(TRI_USAGE,
                         "--sync-every %lld with --offload on a device that copies: evaluations exchange the copies' "
                         "weights with the common ones, which must both be in the device's memory: leave one out",
                         every);
    if (pass->sharding.kind == TRI_SHARD_NONE || is_hybrid) return TRI_OK;
    int dp = in->mesh.dp, run = largest_run(dp);
    char hybrid[96] = "";
    if (run > 1)
        snprintf(hybrid, sizeof hybrid, ", or --shard hybrid with --shard-size %d, whose runs each have a copy", run);
    return tri__fail(TRI_USAGE,
                     "--sync-every %lld with --shard %s: all %d replicas share one copy of the model, and none can "
                     "take local steps: take --shard none%s",
                     every, names[in->sharding.kind], dp, hybrid);
}

/* A copy's gradient is a mean over 1/n of the batch's samples. Where noise outweighs the mean, its norm is sqrt(n)
 * times that of the whole batch's: the limit that was chosen for the batch would clip nearly every step of a copy, and
 * the copies' mean would go less far than steps on the whole batch. (As with inner_factor in engine.c.) */
double tri__local_norm_factor(const tri_pass *pass) {
    tri_attr group = copies_group(pass);
    return tri__takes_local_steps(pass) ? sqrt(tri__transfer_size(&pass->in->mesh, &group)) : 1;
}

void tri__local_agree(tri_updating *up, int sums) {
    tri_pass *pass = up->pass;
    tri_builder *b = &up->build;
    if (!tri__takes_local_steps(pass)) return;
    tri__update_reduce(up, copies_group(pass), sums);
    int coef = TRI_BUILD_FLAT(b, TRI_MEM_RESULT, TRI_F32, 1, "copies.coef");
    int norm = TRI_BUILD_FLAT(b, TRI_MEM_RESULT, TRI_F64, 1, "copies.norm");
    pass->out.apply = TRI_BUILD_FLAT(b, TRI_MEM_RESULT, TRI_I32, 1, "copies.apply");
    TRI_BUILD(b, clip, ((tri_attr){.max_norm = 0}), coef, pass->out.apply, norm, sums, -1);
}

/* ---- Who exchanges what ---- */

static tri_range part_of(const tri_pass *pass, tri_range all, tri_attr group) {
    tri_range part = tri__group_shard(pass, tri__range_count(all), group);
    return (tri_range){all.begin + part.begin, all.begin + part.end};
}

static tri_attr within_of(const tri_pass *pass) {
    return (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP), .within = pass->in->compression.within};
}

static exchange exchange_of(const tri_pass *pass, int unit) {
    const tri_mesh *mesh = &pass->in->mesh;
    const tri_compression *how = &pass->in->compression;
    exchange x = {.unit = unit, .group = copies_group(pass), .part = pass->out.param_part[unit]};
    int nests = how->gradients != TRI_CODE_NONE && how->within > 1 && !x.group.across;
    tri_attr coded = nests ? (tri_attr){.axes = x.group.axes, .across = how->within} : x.group;
    tri_range part = nests ? part_of(pass, x.part, within_of(pass)) : x.part;
    /* whether it has a block for each member is the same on all of them: asked of the largest part */
    int64_t most = nests ? tri__range_count(tri__shard(tri__range_count(x.part), how->within, 0))
                         : tri__range_count(part);
    int64_t each = tri__range_count(tri__shard(most, tri__transfer_size(mesh, &coded), 0));
    if (how->gradients != TRI_CODE_NONE && each >= TRI_CODE_BLOCK)
        x.code = how->gradients, x.is_nested = nests, x.group = coded, x.part = part;
    x.n = tri__transfer_size(mesh, &x.group);
    x.place = tri__transfer_place(mesh, pass->in->rank, &x.group);
    x.own = part_of(pass, x.part, x.group);
    return x;
}

/* ---- States ---- */

static tri_range *ranges_of(const synchronising *m, int own, int coded) {
    int n = m->pass->model->n_units;
    tri_range *range = tri__arena_alloc(m->pass->arena, (size_t)n * sizeof *range);
    for (int u = 0; u < n; u++)
        if (!coded || m->x[u].code != TRI_CODE_NONE) range[u] = own ? m->x[u].own : m->x[u].part;
    return range;
}

/* A state of which one rank has each element. */
static int add_owned(synchronising *m, const char *name, const char *prefix, int coded) {
    int index = tri__add_state(m->pass, name, prefix);
    tri__state_of_copies(m->pass, index, TRI_STATE_SHARED, 0, 0, ranges_of(m, 1, coded));
    m->pass->out.state[index].absent = TRI_ABSENT_ZERO;
    return index;
}

/* Errors of what is nested are those of the machines, which are fewer. */
static int add_errors(synchronising *m) {
    tri_pass *pass = m->pass;
    const exchange *coded = NULL;
    for (int u = 0; u < pass->model->n_units && !coded; u++)
        if (m->x[u].code != TRI_CODE_NONE) coded = &m->x[u];
    if (!coded) return -1;
    int index = tri__add_state(pass, "outer_error", "outer_error.");
    tri__state_of_copies(pass, index, TRI_STATE_SUMMED, coded->place, coded->n, ranges_of(m, 0, 1));
    pass->out.state[index].absent = TRI_ABSENT_ZERO;
    m->error_sum = add_owned(m, "outer_error_sum", "outer_error_sum.", 1);
    return index;
}

void tri__local_weights(tri_pass *pass, int copy, int copies) {
    int n_units = pass->model->n_units, local = tri__add_state(pass, "local", "local.");
    pass->out.copy = copy, pass->out.copies = copies;
    tri__state_of_copies(pass, local, TRI_STATE_AVERAGED, copy, copies,
                         tri__trained_parts(pass, pass->out.param_part));
    for (int u = 0; u < n_units; u++)
        if (!pass->model->unit[u].frozen) pass->out.state[local].slot[u] = pass->out.param[u];
    pass->out.state[local].absent = TRI_ABSENT_WEIGHTS;
    pass->out.live = pass->out.state[local].slot;
}

void tri__local_anchor(tri_pass *pass, tri_builder *build) {
    int n_units = pass->model->n_units;
    pass->out.shown = tri__none_yet(pass->arena, n_units);
    for (int u = 0; u < n_units; u++) {
        if (pass->model->unit[u].frozen) continue;
        build->unit = pass->program->slot[pass->out.param[u]].unit;
        pass->out.shown[u] = TRI_BUILD_FLAT(build, TRI_MEM_STATE, TRI_F32, tri__range_count(pass->out.param_part[u]),
                                            "anchor.%s", pass->model->unit[u].name);
    }
}

static void add_states(synchronising *m) {
    tri_pass *pass = m->pass;
    const tri_mesh *mesh = &pass->in->mesh;
    tri_attr group = copies_group(pass);
    int copy = tri__transfer_place(mesh, pass->in->rank, &group);
    m->copies = tri__transfer_size(mesh, &group);
    for (int s = 0; s < pass->out.n_states; s++) /* the optimizer's */
        if (pass->out.state[s].scope == TRI_STATE_SHARED)
            tri__state_of_copies(pass, s, TRI_STATE_AVERAGED, copy, m->copies, pass->out.state[s].held);
    tri__local_weights(pass, copy, m->copies);
    m->momentum = add_owned(m, "outer_momentum", "outer_momentum.", 0);
    m->error = m->error_sum = -1;
    if (pass->in->compression.feedback) m->error = add_errors(m);
    tri__local_anchor(pass, &m->build);
}

/* ---- A unit's exchange ---- */

/* A step whose numbers are not finite ends the run with everything as it was; with fp16 the copies synchronise all
 * the same, only their last step is left out. */
static int apply_of(const synchronising *m) { return m->pass->in->precision == TRI_F16 ? -1 : m->pass->out.apply; }

static int state_of(synchronising *m, const exchange *x, int state) {
    if (state < 0 || x->code == TRI_CODE_NONE) return -1;
    return tri__state_slot(m->pass, &m->build, state, x->unit);
}

static void take_step(synchronising *m, const flight *f) {
    const tri_optimizing *how = &m->pass->in->optimizer;
    tri_attr attr = {.beta1 = (float)how->outer_momentum, .rate = (float)how->outer_lr, .nesterov = 1,
                     .members = m->copies};
    int momentum = tri__state_slot(m->pass, &m->build, m->momentum, f->unit);
    TRI_BUILD(&m->build, outer_step, attr, momentum, f->transfer.own, apply_of(m));
}

static void finish(synchronising *m, const flight *f) {
    const tri_planned *out = &m->pass->out;
    TRI_BUILD(&m->build, outer_take, (tri_attr){0}, out->shown[f->unit], out->param[f->unit], f->transfer.whole,
              apply_of(m));
}

/* Ends the transfer under way, and begins what follows it. */
static void advance(synchronising *m, flight *f) {
    tri_coded_transfer *t = &f->transfer;
    if (t->leg == TRI_LEG_DONE) return;
    m->build.unit = m->build.program->slot[t->whole].unit;
    if (tri__coded_end(&m->build, t) == TRI_LEG_SUM) take_step(m, f);
    tri__coded_next(&m->build, t);
    if (t->leg == TRI_LEG_DONE) finish(m, f);
}

static flight begin(synchronising *m, const exchange *x) {
    const tri_planned *out = &m->pass->out;
    tri_range held = out->param_part[x->unit];
    m->build.unit = m->build.program->slot[out->param[x->unit]].unit;
    int whole = TRI_BUILD_FLAT(&m->build, TRI_MEM_COMM, TRI_F32, tri__range_count(held), "d.%s",
                               m->pass->model->unit[x->unit].name);
    int part = tri__build_part(&m->build, whole, held, x->part, "node");
    tri_coded_transfer t = tri__coded_open(&m->build, x->code, x->group, part);
    t.whole = whole, t.gathers = 1, t.apply = apply_of(m);
    if (x->is_nested) t.within = within_of(m->pass);
    t.own = tri__build_part(&m->build, t.part, x->part, x->own, "own");
    t.error = state_of(m, x, m->error), t.error_sum = state_of(m, x, m->error_sum);
    TRI_BUILD(&m->build, local_delta, (tri_attr){0}, t.whole, out->shown[x->unit], out->param[x->unit]);
    tri__coded_begin(&m->build, &t, 1);
    return (flight){x->unit, t};
}

static void synchronise(synchronising *m) {
    int n = 0, first = m->build.program->n_instrs;
    for (int u = 0; u < m->pass->model->n_units; u++) {
        if (m->pass->model->unit[u].frozen || !tri__range_count(m->pass->out.param_part[u])) continue;
        flight next = begin(m, &m->x[u]);
        for (int i = 0; i < n; i++) advance(m, &m->open[i]);
        m->open[n++] = next;
    }
    for (int under_way = n; under_way;) {
        under_way = 0;
        for (int i = 0; i < n; i++) advance(m, &m->open[i]), under_way += m->open[i].transfer.leg != TRI_LEG_DONE;
    }
    for (int i = first; i < m->build.program->n_instrs; i++) m->build.program->instr[i].gates = TRI_GATE(sync);
}

/* ---- The pass ---- */

/* Gradients of the loss of this copy's samples. */
static void divide_alone(synchronising *m) {
    tri_program *program = m->build.program;
    tri_instr *instr = program->instr;
    int n = program->n_instrs, inv = -1;
    for (int i = 0; i < n; i++) {
        int number = instr[i].op == TRI_OP_regress_din;
        if (!number && instr[i].op != TRI_OP_cross_entropy_din) continue;
        if (inv < 0) inv = TRI_BUILD_FLAT(&m->build, TRI_MEM_RESULT, TRI_F64, 1, "copy.inv");
        instr[i].slot[number ? TRI_ARG(regress_din, inv) : TRI_ARG(cross_entropy_din, inv)] = inv;
    }
    if (inv < 0) return;
    tri__take_instrs(program, &n);
    TRI_BUILD(&m->build, input, ((tri_attr){.field = TRI_FIELD_copy_inv}), inv);
    for (int i = 0; i < n; i++) tri__build_copy(&m->build, &instr[i]);
    m->pass->out.update++;
}

/* In a pipeline another stage may have larger units. Blocks with a scale may contain elements of which ranks of a layer
 * have their own. */
static tri_status check_coded(const synchronising *m) {
    tri_code code = m->pass->in->compression.gradients;
    int coded = code == TRI_CODE_NONE || m->pass->in->mesh.pp > 1, tp = m->pass->in->mesh.tp;
    if (tp > 1 && code != TRI_CODE_NONE && code != TRI_CODE_BF16)
        return tri__fail(TRI_USAGE,
                         "--compress-gradients %s with --sync-every and --tp-size %d: ranks that share a layer would "
                         "decode the weights that each has whole differently: take bf16, or leave it out",
                         tri__code_name(code), tp);
    for (int u = 0; u < m->pass->model->n_units; u++) coded |= m->x[u].code != TRI_CODE_NONE;
    if (coded) return TRI_OK;
    return tri__fail(TRI_USAGE,
                     "--compress-gradients %s: no unit of the model has the %d elements of a block for each of its "
                     "copies, so nothing would be coded: take fewer replicas, or leave it out",
                     tri__code_name(code), TRI_CODE_BLOCK);
}

tri_status tri__pass_local(tri_pass *pass) {
    int n = pass->model->n_units;
    synchronising m = {.pass = pass, .build = {.arena = pass->arena, .program = pass->program, .unit = -1, .mb = -1}};
    m.x = tri__arena_alloc(pass->arena, (size_t)n * sizeof *m.x);
    m.open = tri__arena_alloc(pass->arena, (size_t)n * sizeof *m.open);
    for (int u = 0; u < n; u++)
        if (!pass->model->unit[u].frozen) m.x[u] = exchange_of(pass, u);
    TRI_TRY(check_coded(&m));
    divide_alone(&m);
    add_states(&m);
    synchronise(&m);
    return TRI_OK;
}
