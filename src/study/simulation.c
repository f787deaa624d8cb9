/* simulation.c - a plan's programs on described hardware, as JSON. Every microbatch counts as the largest. */
#include "engine/staging.h"
#include "study/views.h"

static tri_json *legs_json(tri_arena *arena, const tri_rank_timeline *rank) {
    tri_leg *leg;
    int n = tri__timeline_legs(arena, rank, &leg);
    tri_json *all = tri__json_array();
    for (int i = 0; i < n; i++) {
        const char kind[] = {leg[i].kind, 0};
        tri__json_append_new(all, tri__json_pack("[s, i, f, f]", kind, leg[i].mb, leg[i].begin, leg[i].end));
    }
    return all;
}

static tri_json *transfers_json(tri_arena *arena, const tri_rank_timeline *rank) {
    tri_leg *span;
    int n = tri__timeline_transfers(arena, rank, &span);
    tri_json *all = tri__json_array();
    for (int i = 0; i < n; i++) tri__json_append_new(all, tri__json_pack("[f, f]", span[i].begin, span[i].end));
    return all;
}

static tri_json *role_json(const tri_rank_timeline *rank, int place, double held) {
    const tri_program *p = rank->program;
    return tri__json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:I, s:f}", "rank", p->rank, "stage", place,
                          "computing_seconds", rank->busy, "exposed_seconds", rank->exposed, "waiting_seconds",
                          rank->idle, "moving_seconds", rank->moving, "finish_seconds", rank->finish,
                          "activation_bytes", (tri_json_int)p->bytes[TRI_MEM_ACT], "microbatches_held", held);
}

static tri_status describe(const tri_settings *s, const tri_engine *engine, const tri_hardware *hardware,
                           tri_arena *arena, const tri_timeline *line, double start_seconds, tri_json **out) {
    tri_stages stages;
    TRI_TRY(tri__stages_plan(arena, &engine->in, &stages));
    const tri_actions *orders = tri__stages_orders(arena, &engine->in, &stages);
    tri_json *ranks = tri__json_array(), **role = tri__arena_alloc(arena, (size_t)line->roles.n * sizeof *role);
    const tri_mesh *mesh = &engine->in.mesh;
    double busy = 0, exposed = 0, all = line->seconds * line->world;
    for (int i = 0; i < line->roles.n; i++) {
        int place = tri__mesh_coords(mesh, line->roles.rank[i]).pp;
        role[i] = role_json(&line->role[i], place, tri__schedule_held(&stages.pipeline, orders, place));
        if (!s->timeline && !s->svg) continue;
        tri__json_set_new(role[i], "legs", legs_json(arena, &line->role[i]));
        tri__json_set_new(role[i], "transfers", transfers_json(arena, &line->role[i]));
    }
    for (int rank = 0; rank < line->world; rank++) {
        tri_json *one = tri__json_deep_copy(role[line->roles.of[rank]]);
        tri__json_set_new(one, "rank", tri__json_integer(rank));
        tri__json_append_new(ranks, one);
        busy += tri__timeline_of(line, rank)->busy, exposed += tri__timeline_of(line, rank)->exposed;
    }
    for (int i = 0; i < line->roles.n; i++) tri__json_decref(role[i]);
    *out = tri__json_pack("{s:s, s:{s:i, s:i, s:i}, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "hardware",
                          hardware->name, "mesh", "pp", mesh->pp, "tp", mesh->tp, "dp", mesh->dp, "schedule",
                          tri__schedule_row(engine->in.staging.schedule)->name, "microbatches", engine->n_mb,
                          "start_seconds", start_seconds, "step_seconds", line->seconds, "samples_per_second",
                          (double)engine->place.batch / line->seconds, "computing", busy / all, "exposed",
                          exposed / all, "waiting", 1 - (busy + exposed) / all, "predicted_bubble",
                          tri__timeline_idle(line), "ranks", ranks);
    return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

typedef struct viewed {
    const tri_settings *settings;
    const tri_engine *engine;
    const tri_programs *all;
    tri_json **out;
} viewed;

static tri_status simulate(tri_arena *arena, void *data) {
    const viewed *v = data;
    const tri_settings *s = v->settings;
    const tri_engine *engine = v->engine;
    const tri_programs *all = v->all;
    tri_hardware hardware;
    tri_timeline start, line;
    TRI_TRY(tri__hardware_find(s->hardware ? s->hardware : s->device, &hardware));
    if (tri__settings_given(s, &s->nproc_per_node)) hardware.ranks_per_node = (int)s->nproc_per_node;
    tri_costs costs = tri__staging_costs(arena, &engine->in, &hardware);
    TRI_TRY(tri__timeline(arena, &all->of[TRI_TRAIN], &costs, &line));
    TRI_TRY(tri__timeline(arena, &all->of[TRI_START], &costs, &start));
    return describe(s, engine, &hardware, arena, &line, start.seconds, v->out);
}

tri_status tri__view_simulation(const tri_settings *s, const tri_engine *engine, const tri_programs *all,
                                tri_json **out) {
    viewed v = {s, engine, all, out};
    return tri__arena_scratch(simulate, &v);
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
