/* core.c - seconds of units, from one microbatch's program; seconds of a pipeline's ranks, from its order. */
#include "study/choose/choose_parts.h"

#include "engine/staging.h"
#include "plan/least.h"

tri_status tri__layout_asks(const tri_chooser *c, const tri_layout *l, int64_t global, tri_layout_settings *settings,
                            tri_plan_in *out) {
    tri_place place;
    tri__layout_settings(l, &c->settings, global, settings);
    settings->settings.world_size = tri__layout_world(l);
    TRI_TRY(tri__place_make(&settings->settings, NULL, tri__layout_world(l), 0, &place));
    place.steps = tri__rows_steps(&c->study.rows, &settings->settings, global);
    *out = tri__plan_input(&settings->settings, &place, &c->planned[l->tp_plan], &c->target, 1);
    return TRI_OK;
}

tri_status tri__layout_input(const tri_chooser *c, const tri_layout *l, int64_t global, const tri_counts *max,
                             tri_arena *arena, tri_layout_settings *settings, tri_plan_in *out) {
    TRI_TRY(tri__layout_asks(c, l, global, settings, out));
    out->max = out->max_infer = *max;
    return tri__staging_resolve(&settings->settings, arena, NULL, out, &(tri_context_form){0});
}

/* ---- units ---- */

static int has_lanes(const tri_chooser *c, const tri_layout *l) {
    return tri__plan_lanes(&(tri_plan_in){.model = &c->model, .target = &c->target, .mesh.pp = l->pp,
                                          .recompute = (tri_recompute)l->recompute});
}

/* Members of a tp group on one machine; all of them where that does not matter. */
static int members_together(const tri_chooser *c, const tri_layout *l) {
    tri_mesh mesh;
    int world = tri__layout_world(l), per_node = c->hardware.ranks_per_node, together = 0;
    if (l->tp == 1 || world <= per_node ||
        tri__mesh_make(&mesh, world, (tri_mesh_sizes){.pp = l->pp, .tp = l->tp, .cp = l->cp, .dp = l->dp}) != TRI_OK ||
        tri__mesh_set_order(&mesh, tri__layout_order(l->order), per_node) != TRI_OK)
        return l->tp;
    for (int place = 0; place < l->tp; place++)
        together += tri__mesh_group_rank(&mesh, 0, TRI_AXIS_SET(TRI_AXIS_TP), place) < per_node;
    return together;
}

tri_unit_key tri__unit_key(const tri_chooser *c, const tri_layout *l) {
    int apart = l->pp > 1 && tri__schedule_row((tri_schedule_kind)l->schedule)->apart;
    return (tri_unit_key){.parts = (int64_t)l->n_mb * l->dp, .cp = l->cp, .tp = l->tp,
                          .together = members_together(c, l), .recompute = l->recompute, .precision = l->precision,
                          .apart = apart, .lanes = (int16_t)has_lanes(c, l), .plan = (int16_t)l->tp_plan};
}

typedef struct unit_job {
    const tri_chooser *chooser;
    const tri_layout *layout;
    const tri_layout_rows *rows; /* [n] */
    tri_unit_times **out;        /* [n] */
    int n;
} unit_job;

/* A lane of a rank among others that do the same at the same time: when it is free, and its link; its seconds of one
 * microbatch. */
typedef struct alike_lane {
    double now, link, seconds;
} alike_lane;

typedef struct alike {
    const tri_program *program;
    const tri_costs *costs;
    const double *seconds; /* [n_instrs] */
    alike_lane lane[TRI_LANES];
    double work, linked;   /* seconds that all lanes use the device, and the link */
    double *end;           /* [n_instrs] of posts */
    int *members;          /* [world] scratch */
} alike;

static void post(alike *a, alike_lane *lane, int i) {
    const tri_instr *instr = &a->program->instr[i];
    const tri_counts *counts = tri__costs_counts(a->costs, a->program, instr);
    double bytes = (double)tri__slot_bytes(&a->program->slot[tri__transfer_whole(instr)], counts);
    int n = tri__transfer_members(&a->program->mesh, a->program->rank, &instr->attr, a->members);
    double seconds = tri__transfer_seconds(a->costs->hardware, tri__post_kind(instr->op), a->members, n, bytes);
    if (instr->mb >= 0) a->linked += seconds;
    a->end[i] = lane->link = fmax(lane->link, lane->now) + seconds;
}

/* Seconds that an instruction of a microbatch adds to its lane: computing, and waits for transfers. Other ranks copy
 * inputs meanwhile. */
static double added(alike *a, int i) {
    const tri_program *p = a->program;
    const tri_instr *instr = &p->instr[i];
    alike_lane *lane = &a->lane[instr->lane];
    double before = lane->now;
    int waits = a->costs->hardware->overlap; /* else waits of other stages move what this one waits for here */
    if (tri__op_queue(instr->op) == TRI_QUEUE_COMPUTE) {
        lane->now += a->seconds[i];
        if (instr->mb >= 0) a->work += tri__instr_work(p, instr, a->seconds[i], a->costs);
    } else if (instr->op == TRI_OP_send_post || instr->op == TRI_OP_recv_post) a->end[i] = lane->now; /* at any time */
    else if (waits && tri__is_post(instr->op)) post(a, lane, i);
    else if (waits && instr->op == TRI_OP_wait) lane->now = fmax(lane->now, a->end[tri__transfer_post_of(p, i)]);
    if (instr->mb < 0) return 0; /* what is done once a step is not of a microbatch */
    lane->seconds += lane->now - before;
    return lane->now - before;
}

/* Two lanes take at least as long as each alone, and as both use the device (two kernels at once are faster than one
 * after the other) and the link. Returns that by the sum of both. */
static double lanes_share(const alike *a) {
    const alike_lane *of = a->lane;
    double work = a->work / fmax(1, a->costs->hardware->lane_share), sum = of[0].seconds + of[1].seconds;
    return sum > 0 ? fmax(fmax(of[0].seconds, of[1].seconds), fmax(work, a->linked)) / sum : 1;
}

/* Adds the seconds of a rank's program to its units. */
static void add_program(tri_arena *arena, const tri_network *model, const tri_program *p, const tri_costs *costs,
                        tri_unit_times *out) {
    int *map = tri__arena_alloc(arena, (size_t)p->n_units * sizeof *map), unit = 0, backward = 0, updates = 0;
    alike a = {.program = p, .costs = costs, .seconds = tri__program_seconds(arena, p, costs),
               .end = tri__arena_alloc(arena, (size_t)p->n_instrs * sizeof *a.end),
               .members = tri__arena_alloc(arena, (size_t)tri__mesh_world(&p->mesh) * sizeof *a.members)};
    for (int i = 0; i < p->n_units; i++) map[i] = tri__model_find_unit(model, p->unit[i]);
    for (int i = 0; i < p->n_instrs; i++) {
        tri_op_phase phase = tri__instr_row(&p->instr[i])->phase;
        backward |= phase == TRI_PHASE_B || phase == TRI_PHASE_W;
        updates |= backward && phase == TRI_PHASE_U; /* before it, of scales */
        if (p->instr[i].unit >= 0) unit = map[p->instr[i].unit] < 0 ? 0 : map[p->instr[i].unit];
        if (updates) {
            if (phase == TRI_PHASE_U) out->update += tri__instr_share(p, &p->instr[i]) * a.seconds[i];
            continue;
        }
        double more = added(&a, i);
        tri_stage_time *of = &out->of[unit];
        *(phase == TRI_PHASE_W ? &of->weight : backward ? &of->input : &of->forward) += more;
        out->total += more;
    }
    double share = out->key.lanes ? lanes_share(&a) : 1;
    for (int u = 0; u < model->n_units; u++)
        out->of[u].forward *= share, out->of[u].input *= share, out->of[u].weight *= share;
    out->total *= share;
}

/* Bytes of activations grow with the rows: those of a program whose microbatch is not the one it was planned for. */
static int64_t activations_of(const tri_program *p, const tri_counts *max) {
    double least = 1e9;
    for (int sym = TRI_SYM_T0; sym < TRI_SYM_COUNT; sym++)
        if (p->max.of[sym]) least = fmin(least, (double)max->of[sym] / (double)p->max.of[sym]);
    return (int64_t)(least * (double)p->bytes[TRI_MEM_ACT]);
}

/* Times microbatches of one size, given the programs of one. */
static void time_size(tri_arena *arena, const unit_job *job, int i, const tri_plan_in *in, tri_program *const *program,
                      int n_programs) {
    const tri_chooser *c = job->chooser;
    const tri_layout_rows *rows = &job->rows[i];
    tri_hardware hardware = c->hardware;
    hardware.ranks_per_node = job->out[i]->key.together;
    tri_costs costs = tri__staging_costs(arena, in, &hardware);
    tri_counts max = tri__plan_counts(in, &rows->max), mean = rows->mean;
    int granule = tri__plan_granule(in);
    for (int sym = TRI_SYM_T0; sym <= TRI_SYM_T1; sym++) mean.of[sym] -= mean.of[sym] % granule;
    /* of the whole layout: a rank planned alone would get all cores */
    costs.threads = tri__hardware_threads(&c->hardware, tri__layout_world(job->layout), (int)c->settings.threads);
    costs.counts = rows->sampled.counts ? &mean : &max, costs.n_counts = 1;
    for (int k = 0; k < n_programs; k++) {
        add_program(arena, &c->model, program[k], &costs, job->out[i]);
        job->out[i]->activations += activations_of(program[k], &max);
    }
}

/* Plans one microbatch of one replica, on the first rank of its tp group; where gradients of weights are apart, on
 * those of two pipeline ranks. Microbatches of other sizes have the same programs. */
static tri_status time_units(tri_arena *arena, void *data) {
    const unit_job *job = data;
    const tri_chooser *c = job->chooser;
    const tri_unit_key *key = &job->out[0]->key;
    tri_layout alone = {.pp = key->apart ? 2 : 1, .tp = job->layout->tp, .cp = job->layout->cp, .dp = 1, .n_mb = 1,
                        .schedule = job->layout->schedule, .shape = TRI_SHAPE_ASKED_CHAIN,
                        .recompute = job->layout->recompute, .precision = job->layout->precision,
                        .tp_plan = job->layout->tp_plan};
    tri_layout_settings settings;
    tri_target *target = tri__arena_alloc(arena, sizeof *target); /* large */
    tri_plan_in in;
    tri_program *program[2];
    int ran;
    *target = c->target;
    if (tri__layout_world(job->layout) > 1) target->granule = 1;
    if (!key->lanes) target->lanes = 1;
    TRI_TRY(tri__layout_input(c, &alone, 1, &job->rows[0].max, arena, &settings, &in));
    in.target = target, in.staging.stages = (tri_texts){0}, in.offload = 0;
    in.optimizer.sync_every = 1, in.compression = (tri_compression){0}; /* one replica has no others to meet */
    for (int place = 0; place < alone.pp; place++) {
        in.rank = tri__mesh_rank(&in.mesh, (tri_coords){.pp = place});
        TRI_TRY(tri__plan_until(arena, &in, TRI_PART_TRAIN, tri__pass_find("waits"), &ran, &program[place]));
    }
    size_t mark = arena->used;
    for (int i = 0; i < job->n; i++) {
        time_size(arena, job, i, &in, program, alone.pp);
        tri__arena_rewind(arena, mark);
    }
    return TRI_OK;
}

static tri_status keep_words(tri_status status, char *words) {
    if (status != TRI_OK) memcpy(words, tri_error(), TRI_ERROR_BYTES);
    return status;
}

void tri__unit_times(const tri_chooser *c, const tri_layout *l, const tri_layout_rows *rows, int n,
                     tri_unit_times **out) {
    unit_job job = {c, l, rows, out, n};
    tri_status status = tri__arena_scratch(time_units, &job);
    for (int i = 0; i < n; i++) out[i]->status = keep_words(status, out[i]->words);
}

/* ---- ranks of a pipeline ---- */

tri_core_key tri__core_key(const tri_chooser *c, const tri_layout *l) {
    return (tri_core_key){.unit = tri__unit_key(c, l), .n_mb = l->n_mb, .pp = l->pp, .schedule = l->schedule,
                          .shape = l->shape, .chunks = l->chunks};
}

/* A pipeline's order with seconds: when each action of each stage and microbatch ended; < 0: not yet. */
typedef struct orderly {
    const tri_pipeline *pipeline;
    int head, recomputes;       /* of branches: the stage that others feed while it computes; -1: none */
    const tri_stage_time *time; /* [n_stages] */
    const tri_stage_time *first; /* [n_stages] of each stage's first unit: its gradients come after those it sends */
    double *forward, *backward; /* [n_stages * n_mb] */
    int *left;                  /* [n_stages] microbatches whose gradients of weights are to come */
} orderly;

/* When what an action needs is there; < 0: not yet. */
static double ready_at(const orderly *o, const tri_action *a) {
    const tri_pipeline *p = o->pipeline;
    int own = a->stage * p->n_mb + a->mb, is_forward = a->act == TRI_ACT_F;
    double at = is_forward ? 0 : a->act == TRI_ACT_W ? o->backward[own] : o->forward[own];
    if (a->act == TRI_ACT_W) return at;
    for (int i = 0; i < p->n_feeds && at >= 0; i++) {
        if (p->feed[i][is_forward] != a->stage) continue;
        double there = (is_forward ? o->forward : o->backward)[p->feed[i][!is_forward] * p->n_mb + a->mb];
        at = there < 0 ? there : fmax(at, there);
    }
    return at;
}

/* Seconds of an action of branches that need not wait for other stages: the head computes its own encoder before it
 * reads the other's output, and sends that one's gradient before it goes on; recomputation needs no gradient. */
static double ahead_of(const orderly *o, const tri_action *a, double length) {
    return a->stage == o->head || (o->head >= 0 && o->recomputes && a->act != TRI_ACT_F) ? length : 0;
}

/* Seconds of a backward after its gradient was sent. */
static double last_of(const orderly *o, const tri_action *a) {
    const tri_stage_time *first = &o->first[a->stage];
    return first->input + (a->act == TRI_ACT_BW ? first->weight : 0);
}

/* Runs a rank until an action is not ready; returns how many it ran. */
static int run_rank(const orderly *o, const tri_actions *order, int *at, tri_core_rank *rank) {
    int from = *at;
    for (; *at < order->n; ++*at) {
        const tri_action *a = &order->at[*at];
        const tri_stage_time *t = &o->time[a->stage];
        double begin = ready_at(o, a), length = a->act == TRI_ACT_F   ? t->forward
                                                : a->act == TRI_ACT_B ? t->input
                                                : a->act == TRI_ACT_W ? t->weight
                                                                      : t->input + t->weight;
        if (begin < 0) break;
        double ahead = ahead_of(o, a, length);
        begin = fmax(begin - (a->act == TRI_ACT_F || a->stage != o->head ? ahead : 0), rank->finish);
        rank->finish = begin + length, rank->busy += length;
        int own = a->stage * o->pipeline->n_mb + a->mb;
        if (a->act == TRI_ACT_F) o->forward[own] = rank->finish;
        if (a->act == TRI_ACT_B || a->act == TRI_ACT_BW)
            o->backward[own] = rank->finish - (a->stage == o->head ? ahead : last_of(o, a));
        if ((a->act == TRI_ACT_W || a->act == TRI_ACT_BW) && --o->left[a->stage] == 0)
            rank->ready = fmin(rank->ready, begin);
    }
    return *at - from;
}

typedef struct core_job {
    const tri_chooser *chooser;
    const tri_layout *layout;
    const tri_layout_rows *rows;
    const tri_unit_times *units;
    tri_core_times *out;
} core_job;

static double total_of(const tri_stage_time *time) { return time->forward + time->input + time->weight; }

static void run_order(tri_arena *arena, const core_job *job, const tri_plan_in *in, const tri_stages *stages) {
    const tri_pipeline *p = &stages->pipeline;
    const tri_actions *orders = tri__stages_orders(arena, in, stages);
    size_t n = (size_t)p->n_stages, cells = n * (size_t)p->n_mb;
    tri_stage_time *time = tri__arena_alloc(arena, n * sizeof *time),
                   *first = tri__arena_alloc(arena, n * sizeof *first);
    orderly o = {.pipeline = p, .head = stages->branches ? stages->head : -1,
                 .recomputes = job->layout->recompute != TRI_RECOMPUTE_NONE, .time = time, .first = first,
                 .forward = tri__arena_alloc(arena, cells * sizeof *o.forward),
                 .backward = tri__arena_alloc(arena, cells * sizeof *o.backward),
                 .left = tri__arena_alloc(arena, n * sizeof *o.left)};
    int *at = tri__arena_alloc(arena, (size_t)p->n_ranks * sizeof *at), moved;
    for (int u = 0; u < in->model->n_units; u++) {
        const tri_stage_time *unit = &job->units->of[u];
        tri_stage_time *stage = &time[stages->of_unit[u]];
        if (total_of(stage) == 0) first[stages->of_unit[u]] = *unit;
        stage->forward += unit->forward, stage->input += unit->input, stage->weight += unit->weight;
    }
    for (size_t i = 0; i < cells; i++) o.forward[i] = o.backward[i] = -1;
    for (size_t i = 0; i < n; i++) o.left[i] = p->n_mb;
    do {
        moved = 0;
        for (int r = 0; r < p->n_ranks; r++) moved += run_rank(&o, &orders[r], &at[r], &job->out->rank[r]);
    } while (moved);
}

static tri_status time_core(tri_arena *arena, void *data) {
    const core_job *job = data;
    const tri_layout *l = job->layout;
    tri_layout apart = *l;
    tri_layout_settings settings;
    tri_plan_in in;
    tri_stages stages;
    apart.ep = 1; /* keys do not tell layouts by what they share */
    TRI_TRY(tri__layout_input(job->chooser, &apart, (int64_t)l->dp * l->n_mb, &job->rows->max, arena, &settings, &in));
    if (l->pp > 1) TRI_TRY(tri__stages_plan(arena, &in, &stages));
    else tri__stages_one(arena, &in, &stages);
    const tri_network *held = tri__model_part(arena, in.model, NULL, (tri_holder){.tp = l->tp, .ep = 1});
    for (int place = 0; place < l->pp; place++) {
        tri_core_rank *rank = &job->out->rank[place];
        *rank = (tri_core_rank){.ready = INFINITY};
        tri__place_weighs(&in, &stages, place, &rank->elements, &rank->kept);
        rank->update = job->units->update * rank->elements / (double)tri__model_trained(held);
    }
    run_order(arena, job, &in, &stages);
    return TRI_OK;
}

tri_status tri__core_times(const tri_chooser *c, const tri_layout *l, const tri_layout_rows *rows,
                           const tri_unit_times *units, tri_core_times *out) {
    core_job job = {c, l, rows, units, out};
    return keep_words(tri__arena_scratch(time_core, &job), out->words);
}
