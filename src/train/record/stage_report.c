/* stage_report.c - a unit's time is that of its instructions: forward until the backward of its microbatch begins, then
 * weight gradients and the rest, including recomputation. A stage is a place on the pipeline's axis: the mean over its
 * ranks. */
#include "train/record/stage_report.h"

#include "engine/staging.h"

static const double uneven = 1.2; /* slowest stage over the mean */

tri_status tri__stage_clock_open(tri_stage_clock *clock, const tri_session *s) {
    *clock = (tri_stage_clock){0};
    if (s->place.mesh.pp == 1) return TRI_OK;
    const tri_program *p = s->engine.plan.train.program;
    clock->times = calloc((size_t)p->n_instrs, sizeof *clock->times);
    clock->unit_of = calloc((size_t)p->n_units + 1, sizeof *clock->unit_of);
    clock->unit = calloc((size_t)s->engine.model.n_units, sizeof *clock->unit);
    clock->turned = calloc((size_t)p->n_mb, 1);
    if (!clock->times || !clock->unit_of || !clock->unit || !clock->turned)
        return tri__fail(TRI_RESOURCE, "out of memory");
    for (int u = 0; u < p->n_units; u++) clock->unit_of[u] = tri__model_find_unit(&s->engine.model, p->unit[u]);
    return TRI_OK;
}

void tri__stage_clock_close(tri_stage_clock *clock) {
    TRI_FREE(clock->times, clock->unit_of, clock->unit, clock->turned);
    *clock = (tri_stage_clock){0};
}

void tri__stage_clock_before(tri_stage_clock *clock, tri_session *s) {
    if (clock->times && !s->times) s->times = clock->times;
}

/* Adds an instruction to its unit's time; without a unit or microbatch it only counts as busy. */
static void add_instr(tri_stage_clock *clock, const tri_instr *instr, double seconds) {
    tri_op_phase phase = tri__instr_row(instr)->phase;
    clock->busy += seconds;
    if (instr->mb < 0 || instr->unit < 0 || clock->unit_of[instr->unit] < 0) return;
    tri_stage_time *unit = &clock->unit[clock->unit_of[instr->unit]];
    if (phase == TRI_PHASE_B || phase == TRI_PHASE_W) clock->turned[instr->mb] = 1;
    if (phase == TRI_PHASE_W) unit->weight += seconds;
    else if (clock->turned[instr->mb]) unit->input += seconds;
    else unit->forward += seconds;
}

void tri__stage_clock_after(tri_stage_clock *clock, const tri_session *s, double seconds) {
    if (!clock->times || clock->seen++ == 0) return;
    const tri_program *p = s->engine.plan.train.program;
    double begin = 0, end = 0;
    memset(clock->turned, 0, (size_t)p->n_mb);
    for (int i = 0; i < p->n_instrs; i++) {
        if (tri__op_queue(p->instr[i].op) != TRI_QUEUE_COMPUTE) continue;
        add_instr(clock, &p->instr[i], s->times[i].end - s->times[i].begin);
        if (p->instr[i].mb < 0) continue;
        if (begin == 0) begin = s->times[i].begin;
        end = s->times[i].end;
    }
    clock->begin += begin, clock->end += end;
    clock->moving += s->told[TRI_TOLD_COMM] * s->span, clock->waiting += s->told[TRI_TOLD_IDLE] * s->span;
    clock->span += seconds, clock->steps++;
}

/* One rank's measurements of a step, as plain numbers that ranks can gather. */
typedef struct spent {
    double busy, moving, waiting, span;
    double begin, end; /* of its microbatches: on a common clock */
} spent;
enum { NUMBERS = sizeof(spent) / sizeof(double), TIMES = sizeof(tri_stage_time) / sizeof(double) };

/* Of all ranks; rank: [world], unit: [units] of one microbatch, the mean over the ranks that hold it. */
typedef struct measured {
    spent *rank;
    tri_stage_time *unit;
} measured;

static tri_status gather(const tri_session *s, const tri_stage_clock *clock, tri_arena *arena, measured *all) {
    const tri_engine *e = &s->engine;
    tri_group *world = tri_group_world(s->place.world);
    double steps = (double)clock->steps, one = steps * (e->place.mesh.tp * e->place.mesh.dp) * e->n_mb, zero;
    spent own = {clock->busy / steps, clock->moving / steps, clock->waiting / steps, clock->span / steps, 0, 0};
    /* Subtracted from this rank's clock: machines' clocks have different origins, a barrier gives a common one. */
    int is_common = s->place.world->segment.n == tri_world_size(s->place.world);
    if (!is_common) TRI_TRY(tri_barrier(world));
    zero = is_common ? 0 : tri__clock();
    own.begin = clock->begin / steps - zero, own.end = clock->end / steps - zero;
    all->rank = tri__arena_alloc(arena, (size_t)tri_world_size(s->place.world) * sizeof *all->rank);
    all->unit = tri__arena_alloc(arena, (size_t)e->model.n_units * sizeof *all->unit);
    for (int u = 0; u < e->model.n_units; u++) {
        const tri_stage_time *sum = &clock->unit[u];
        all->unit[u] = (tri_stage_time){sum->forward / one, sum->input / one, sum->weight / one};
    }
    TRI_TRY(tri_all_gather(world, &own, all->rank, NUMBERS, NULL, TRI_F64));
    return tri_all_reduce(world, all->unit, all->unit, (int64_t)TIMES * e->model.n_units, TRI_F64, TRI_SUM);
}

/* The mean over ranks at each place of the pipeline; [pp]. */
static spent *places(const tri_mesh *mesh, tri_arena *arena, const measured *all) {
    spent *at = tri__arena_alloc(arena, (size_t)mesh->pp * sizeof *at);
    double n = mesh->tp * mesh->dp;
    memset(at, 0, (size_t)mesh->pp * sizeof *at);
    for (int rank = 0; rank < tri__mesh_world(mesh); rank++) {
        const spent *own = &all->rank[rank];
        spent *sum = &at[tri__mesh_coords(mesh, rank).pp];
        sum->busy += own->busy / n, sum->moving += own->moving / n;
        sum->waiting += own->waiting / n, sum->span += own->span / n;
    }
    return at;
}

/* All stages of a place in one line. */
static const char *place_text(tri_arena *arena, const tri_pipeline *pipeline, const tri_texts *texts, int place) {
    const char *text = "";
    for (int i = 0; i < texts->n; i++)
        if (pipeline->rank[i] == place) text = tri__arena_print(arena, "%s%s%s", text, *text ? ", " : "", texts->at[i]);
    return text;
}

static tri_json *stages_json(tri_arena *arena, const tri_mesh *mesh, const tri_pipeline *pipeline,
                             const tri_texts *texts, const spent *at) {
    tri_json *list = tri__json_array();
    for (int p = 0; p < mesh->pp; p++)
        tri__json_append_new(list, tri__json_pack("{s:i, s:s, s:f, s:f, s:f}", "stage", p, "units",
                                                  place_text(arena, pipeline, texts, p), "busy_seconds", at[p].busy,
                                                  "waiting_seconds", at[p].waiting, "communication_seconds",
                                                  at[p].moving));
    return list;
}

/* Where the slowest stage is far above the mean and another cut is faster by the measured times: logs and returns that
 * cut. */
static tri_status advise(const tri_session *s, tri_arena *arena, const tri_plan_in *now, const tri_hardware *hardware,
                         double span, const spent *at, tri_json *facts) {
    int pp = now->mesh.pp, slowest = 0;
    double mean = 0;
    for (int p = 0; p < pp; p++) {
        mean += at[p].busy / pp;
        if (at[p].busy > at[slowest].busy) slowest = p;
    }
    if (at[slowest].busy <= uneven * mean) return TRI_OK;
    tri_plan_in in = *now;
    tri_staged better;
    in.staging.stages = (tri_texts){0};
    TRI_TRY(tri__staging_time(arena, &in, NULL, hardware, &better));
    if (better.seconds >= span) return TRI_OK;
    tri_stages stages;
    TRI_TRY(tri__stages_plan(arena, &in, &stages));
    tri_texts texts = tri__stage_texts(arena, in.model, &stages);
    const char *joined = "";
    for (int i = 0; i < texts.n; i++) joined = tri__arena_print(arena, "%s%s%s", joined, i ? "," : "", texts.at[i]);
    tri__json_set_new(facts, "better_stages", tri__json_strings(texts.at, texts.n));
    tri__say(&s->log, TRI_LOG_WARN, "stage %d is busy %.2f times as long as the mean; by these times a step is %.2f "
             "times as fast with --stages \"%s\"", slowest, at[slowest].busy / mean, span / better.seconds, joined);
    return TRI_OK;
}

static tri_status save_profile(const tri_session *s, const tri_stage_time *unit) {
    const tri_network *model = &s->engine.model;
    tri_json *units = tri__json_object();
    TRI_PATH(path, s->settings->output_dir, "stage_profile.json");
    for (int u = 0; u < model->n_units; u++)
        tri__json_set_new(units, model->unit[u].name,
                          tri__json_pack("{s:f, s:f, s:f}", "forward", unit[u].forward, "input", unit[u].input,
                                         "weight", unit[u].weight));
    TRI_OWNED(tri__json_drop) tri_json *root = tri__json_pack("{s:s, s:o}", "unit", "seconds of a microbatch", "units",
                                                              units);
    return root ? tri__json_save(path, root) : tri__fail(TRI_RESOURCE, "out of memory");
}

/* On the lead: the plan's stages and programs with the measured times. */
static tri_status describe(const tri_session *s, tri_arena *arena, const measured *all, tri_json **out) {
    const tri_engine *e = &s->engine;
    tri_plan_in in = e->in;
    tri_hardware hardware;
    tri_stages stages;
    tri_staged now;
    TRI_TRY(tri__stages_plan(arena, &in, &stages));
    tri_texts texts = tri__stage_texts(arena, &e->model, &stages);
    in.staging.time = all->unit;
    TRI_TRY(tri__staging_hardware(s->settings, arena, &hardware));
    TRI_TRY(tri__staging_time(arena, &in, &s->programs.of[TRI_TRAIN], &hardware, &now));
    spent *at = places(&in.mesh, arena, all);
    double busy = 0, span = 0, begin = INFINITY, end = 0; /* from any rank's first forward to its last gradient */
    for (int rank = 0; rank < tri__mesh_world(&in.mesh); rank++)
        begin = fmin(begin, all->rank[rank].begin), end = fmax(end, all->rank[rank].end);
    for (int p = 0; p < in.mesh.pp; p++) busy += at[p].busy, span += at[p].span;
    *out = tri__json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:o}", "shape", tri__shape_name(in.staging.shape), "schedule",
                          tri__schedule_row(in.staging.schedule)->name, "microbatches", e->n_mb, "bubble",
                          1 - busy / span, "predicted_bubble", now.bubble, "flow_seconds", end - begin,
                          "stages", stages_json(arena, &in.mesh, &stages.pipeline, &texts, at));
    if (!*out) return tri__fail(TRI_RESOURCE, "out of memory");
    int ranks = s->place.world->segment.n, cores = tri__cores();
    if (ranks > cores) /* they mostly wait for a core */
        tri__say(&s->log, TRI_LOG_INFO, "%d ranks share %d cores: the stages' waiting is also for a core", ranks,
                 cores);
    TRI_TRY(advise(s, arena, &in, &hardware, now.seconds, at, *out));
    return save_profile(s, all->unit);
}

typedef struct reported {
    const tri_session *session;
    const tri_stage_clock *clock;
    tri_json **pipeline;
} reported;

static tri_status report(tri_arena *scratch, void *data) {
    const reported *r = data;
    measured all;
    TRI_TRY(gather(r->session, r->clock, scratch, &all));
    return r->session->lead ? describe(r->session, scratch, &all, r->pipeline) : TRI_OK;
}

tri_status tri__pipeline_json(const tri_session *s, const tri_stage_clock *clock, tri_json **pipeline) {
    reported r = {s, clock, pipeline};
    *pipeline = NULL;
    if (!clock->steps || !s->place.world) return TRI_OK; /* every rank has the same count */
    tri_status status = tri__arena_scratch(report, &r);
    if (status != TRI_OK) tri__json_decref(*pipeline), *pipeline = NULL;
    return status;
}
