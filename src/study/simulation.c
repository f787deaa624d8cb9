/* simulation.c - programs on described hardware, as JSON: those of a plan, or printed ones. Without data every
 * microbatch is taken as the largest. */
#include "engine/cost/outlook.h"
#include "engine/staging.h"
#include "study/programs.h"
#include "study/study.h"

static tri_json *transfers_json(tri_arena *arena, const tri_rank_timeline *rank) {
    tri_leg *span;
    int n = tri__timeline_transfers(arena, rank, &span);
    tri_json *all = tri__json_array();
    for (int i = 0; i < n; i++) tri__json_append_new(all, tri__json_pack("[f, f]", span[i].begin, span[i].end));
    return all;
}

static tri_json *role_json(const tri_rank_timeline *rank, int place) {
    const tri_program *p = rank->program;
    return tri__json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:I}", "rank", p->rank, "stage", place,
                          "computing_seconds", rank->busy, "exposed_seconds", rank->exposed, "waiting_seconds",
                          rank->idle, "moving_seconds", rank->moving, "finish_seconds", rank->finish,
                          "activation_bytes", (tri_json_int)p->bytes[TRI_MEM_ACT]);
}

/* A rank's row: that of its role. Of many ranks as JSON, only the first of a role has legs and transfers: each rank's
 * own would take gigabytes. */
static tri_json *rank_json(const tri_settings *s, const tri_timeline *line, tri_json *role, int rank) {
    enum { MOST_DRAWN = 256 };
    int first = line->roles.rank[line->roles.of[rank]];
    int drawn = !s->json || rank == first || line->world <= MOST_DRAWN, shared = 0;
    tri_json *one = tri__json_pack("{s:i}", "rank", rank);
    tri__json_members(role, m) {
        int large = strcmp(m->key, "legs") == 0 || strcmp(m->key, "transfers") == 0;
        shared |= large && !drawn;
        if (strcmp(m->key, "rank") != 0 && (drawn || !large)) tri__json_set(one, m->key, m->value);
    }
    if (shared) tri__json_set_new(one, "like", tri__json_integer(first));
    return one;
}

/* The most bytes that a rank sends in a step of one kind. */
static double sent_in(const tri_classes *ranks, uint32_t kind) {
    double most = 0;
    for (int i = 0; i < ranks->n; i++) {
        double bytes[TRI_COLLECTIVE_COUNT], sum = 0;
        tri__kind_sent(ranks->at[i].program, kind, bytes);
        for (int collective = 0; collective < TRI_COLLECTIVE_COUNT; collective++) sum += bytes[collective];
        most = sum > most ? sum : most;
    }
    return most;
}

static const char *kind_name(uint32_t kind) {
    int gate = 0;
    while (!(kind >> gate & 1)) gate++;
    return tri__gate_name((tri_gate)gate);
}

/* Steps of several kinds: each one's time and bytes, and which of them the other figures are of. Not 0: memory ran
 * out. */
static int add_kinds(const tri_timeline *line, const tri_classes *ranks, tri_json *out) {
    tri_json *kinds = tri__json_array();
    int lost = 0;
    for (int i = 0; i < line->n_kinds; i++) {
        const tri_kind_time *t = &line->kind[i];
        lost |= tri__json_append_new(kinds, tri__json_pack("{s:s, s:f, s:f, s:f}", "kind", kind_name(t->kind), "share",
                                                           t->share, "step_seconds", t->seconds, "sent_bytes",
                                                           sent_in(ranks, t->kind)));
    }
    lost |= tri__json_set_new(out, "kinds", kinds);
    lost |= tri__json_set_new(out, "kind", tri__json_string(kind_name(line->drawn)));
    return lost | tri__json_set_new(out, "mean_step_seconds", tri__json_real(line->mean));
}

/* The timeline as JSON. `samples`: of a step; held: [pp] microbatches_held of each place, NULL: unknown. */
static tri_status describe(const tri_settings *s, tri_arena *arena, const tri_classes *of, double samples,
                           const tri_hardware *hardware, const tri_timeline *line, const double *held,
                           tri_json **out) {
    const tri_mesh *mesh = &of->mesh;
    tri_json *ranks = tri__json_array(), **role = tri__arena_alloc(arena, (size_t)line->roles.n * sizeof *role);
    double busy = 0, exposed = 0, all = line->seconds * line->world;
    int lost = 0; /* members for which memory ran out */
    for (int i = 0; i < line->roles.n; i++) {
        int place = tri__mesh_coords(mesh, line->roles.rank[i]).pp;
        role[i] = role_json(&line->role[i], place);
        if (held) lost |= tri__json_set_new(role[i], "microbatches_held", tri__json_real(held[place]));
        if (!s->timeline && !s->svg) continue;
        tri_leg *leg;
        int n = tri__timeline_legs(arena, &line->role[i], &leg);
        lost |= tri__json_set_new(role[i], "legs", tri__legs_json(leg, n));
        lost |= tri__json_set_new(role[i], "transfers", transfers_json(arena, &line->role[i]));
    }
    for (int rank = 0; rank < line->world; rank++) {
        tri__json_append_new(ranks, rank_json(s, line, role[line->roles.of[rank]], rank));
        busy += tri__timeline_of(line, rank)->busy, exposed += tri__timeline_of(line, rank)->exposed;
    }
    for (int i = 0; i < line->roles.n; i++) tri__json_decref(role[i]);
    *out = tri__json_pack("{s:s, s:{s:i, s:i, s:i, s:i, s:i}, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "hardware",
                          hardware->name, "mesh", "pp", mesh->pp, "tp", mesh->tp, "cp", tri__mesh_cp(mesh), "dp",
                          tri__mesh_readers(mesh), "ep", tri__mesh_ep(mesh), "microbatches",
                          line->role[0].program->n_mb, "step_seconds", line->seconds, "samples_per_second",
                          samples / line->mean, "computing", busy / all, "exposed", exposed / all, "waiting",
                          1 - (busy + exposed) / all, "predicted_bubble", tri__timeline_idle(line), "ranks", ranks);
    if (*out && line->all_open > 0)
        lost |= tri__json_set_new(*out, "all_layers_seconds", tri__json_real(line->all_open)) |
                tri__json_set_new(*out, "no_layers_seconds", tri__json_real(line->all_closed));
    if (*out && line->n_kinds) lost |= add_kinds(line, of, *out);
    return *out && !lost ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

typedef struct viewed {
    const tri_settings *settings;
    const tri_engine *engine;
    const tri_programs *all;
    tri_sampler *train, *valid; /* NULL: no such table */
    const tri_log *log;
    tri_json **out;
} viewed;

/* The same for a plan, whose schedule gives the microbatches held. */
static tri_status describe_plan(const viewed *v, const tri_hardware *hardware, tri_arena *arena, double samples,
                                const tri_timeline *line) {
    const tri_engine *engine = v->engine;
    tri_stages stages;
    TRI_TRY(tri__stages_plan(arena, &engine->in, &stages));
    const tri_actions *orders = tri__stages_orders(arena, &engine->in, &stages);
    const tri_mesh *mesh = &engine->in.mesh;
    double *held = tri__arena_alloc(arena, (size_t)mesh->pp * sizeof *held);
    for (int place = 0; place < mesh->pp; place++) held[place] = tri__schedule_held(&stages.pipeline, orders, place);
    TRI_TRY(describe(v->settings, arena, &v->all->of[TRI_TRAIN], samples, hardware, line, held, v->out));
    tri__json_set_new(*v->out, "schedule", tri__json_string(tri__schedule_row(engine->in.staging.schedule)->name));
    return TRI_OK;
}

/* The run that the settings describe. */
static tri_outlook outlook_of(tri_arena *arena, const viewed *v) {
    const tri_settings *s = v->settings;
    tri_outlook run = {.facts = {.steps = s->max_steps, .price = s->price_per_hour, .threads = (int)s->threads}};
    if (!v->train) return run;
    int64_t batches = run.facts.epoch_steps = tri__sampler_batches(v->train);
    if (!s->max_steps || s->max_steps > batches * s->epochs) run.facts.steps = batches * s->epochs;
    tri__outlook_data(arena, s, v->engine, v->train, v->valid, &run);
    return run;
}

static tri_status simulate(tri_arena *arena, void *data) {
    const viewed *v = data;
    const tri_settings *s = v->settings;
    const tri_engine *engine = v->engine;
    const tri_programs *all = v->all;
    tri_hardware hardware;
    tri_timeline line;
    tri_forecast forecast;
    TRI_TRY(tri__staging_hardware(s, arena, &hardware));
    tri_outlook run = outlook_of(arena, v);
    TRI_TRY(tri__outlook_run(s, arena, engine, all, &hardware, &run, &line, &forecast));
    tri_staged staged = {line.mean, tri__timeline_idle(&line)};
    TRI_TRY(tri__staging_say(s, &engine->in, &all->of[TRI_TRAIN], &staged, v->log));
    double samples = run.train.counts ? run.train.samples : (double)engine->place.batch;
    TRI_TRY(describe_plan(v, &hardware, arena, samples, &line));
    tri__json_set_new(*v->out, "start_seconds", tri__json_real(forecast.start_program));
    tri_json *all_of_it = tri__forecast_json(&forecast);
    const tri_run_facts *facts = &run.facts;
    if (facts->steps) tri__json_set_new(all_of_it, "steps", tri__json_integer(facts->steps));
    if (facts->epoch_steps) tri__json_set_new(all_of_it, "epoch_steps", tri__json_integer(facts->epoch_steps));
    tri__json_set_new(*v->out, "forecast", all_of_it);
    return TRI_OK;
}

tri_status tri__view_simulation(const tri_settings *s, const tri_engine *engine, const tri_programs *all,
                                const tri_row_source *rows, const tri_log *log, tri_json **out) {
    viewed v = {.settings = s, .engine = engine, .all = all, .log = log, .out = out};
    TRI_OWNED(tri__sampler_close) tri_sampler train = {0}, valid = {0};
    int dp = tri__mesh_readers(&engine->in.mesh), parts = engine->in.n_mb_infer * dp;
    tri_status status = TRI_OK;
    if (rows->data) {
        status = tri__sampler_open(&train, rows->data, engine->place.batch, engine->n_mb * dp, 1, (uint32_t)s->seed);
        v.train = &train;
    }
    if (status == TRI_OK && rows->valid) {
        status = tri__sampler_open(&valid, rows->valid, s->batch_size * dp, parts, 0, 0);
        v.valid = &valid;
    }
    if (status == TRI_OK) {
        *out = NULL;
        status = tri__arena_scratch(simulate, &v);
        if (status != TRI_OK) { /* what was made before memory ran out */
            tri__json_decref(*out);
            *out = NULL;
        }
    }
    return status;
}

typedef struct printed {
    const tri_settings *settings;
    tri_json **out;
} printed;

/* Simulates one step; its start programs may be among the sets, too. */
static tri_status simulate_printed(tri_arena *arena, const tri_program_sets *sets, void *data) {
    const printed *job = data;
    const tri_program_set *step = &sets->at[0], *start = NULL;
    tri_hardware hardware;
    tri_timeline line;
    for (int i = 1; i < sets->n; i++) {
        const tri_program_set *set = &sets->at[i];
        if (!start && tri__text_ends(step->title, " start")) start = step, step = set;
        else if (!start && tri__text_ends(set->title, " start")) start = set;
        else
            return tri__fail(TRI_DATA, "%s:%d: \"%s\" and \"%s\": one step is timed at a time", set->first.path,
                             set->first.parsed->line, set->title, step->title);
    }
    const tri_program *first = step->first.parsed->program;
    tri_costs costs = {.hardware = &hardware};
    TRI_TRY(tri__staging_hardware(job->settings, arena, &hardware));
    TRI_TRY(tri__timeline(arena, &step->classes, &costs, &line));
    if (!(line.seconds > 0))
        return tri__fail(TRI_DATA, "%s:%d: nothing is computed in this step", step->first.path,
                         step->first.parsed->line);
    double samples = (double)first->max.of[TRI_SYM_N] * first->n_mb * tri__mesh_readers(&first->mesh);
    TRI_TRY(describe(job->settings, arena, &step->classes, samples, &hardware, &line, NULL, job->out));
    if (!start) return TRI_OK;
    TRI_TRY(tri__timeline(arena, &start->classes, &costs, &line));
    tri__json_set_new(*job->out, "start_seconds", tri__json_real(line.seconds));
    return TRI_OK;
}

tri_status tri__study_simulate(const tri_settings *settings, const char *const *paths, int n, tri_json **facts) {
    printed job = {settings, facts};
    *facts = NULL;
    TRI_TRY(tri__programs_read(paths, n, simulate_printed, &job));
    return tri__json_is_whole(*facts) ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory"); /* commands also draw it */
}

static tri_status order(tri_arena *arena, void *data) {
    const viewed *v = data;
    tri_stages stages;
    TRI_TRY(tri__stages_plan(arena, &v->engine->in, &stages));
    *v->out = tri__json_string(
        tri__schedule_csv(arena, &stages.pipeline, tri__stages_orders(arena, &v->engine->in, &stages)));
    return *v->out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

tri_status tri__view_order(const tri_engine *engine, tri_json **out) {
    viewed v = {.engine = engine, .out = out};
    return tri__arena_scratch(order, &v);
}
