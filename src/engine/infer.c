/* infer.c - from a checkpoint to an engine that predicts; and what ranks do together when they open one. */
#include "engine/infer.h"

#include "engine/cost/memory_fit.h"

tri_status tri__place_load(const tri_place *place, int makes_files, tri_status (*load)(void *context), void *context) {
    tri_world *world = place->world;
    if (!world) return load(context);
    tri__world_doing(world, TRI_DOING_LOAD, -1);
    if (!makes_files) return load(context);
    if (world->local == 0) TRI_TRY(load(context));
    TRI_TRY(tri_barrier(tri_group_world(world)));
    return world->local == 0 ? TRI_OK : load(context);
}

tri_status tri__engine_agree(const tri_engine *engine, const tri_settings *settings, uint64_t data) {
    tri_world *world = engine->place.world;
    if (!world) return TRI_OK;
    TRI_OWNED(tri__json_drop) tri_json *told = tri__settings_json(settings);
    tri__json_del(told, "threads"); /* may differ between ranks */
    TRI_OWNED(tri__free_at) char *text = told ? tri__json_line(told) : NULL;
    if (!text) return tri__fail(TRI_RESOURCE, "out of memory");
    const tri_program *program = engine->train >= 0 ? engine->plan.train.program : engine->plan.infer.program;
    uint64_t digest = tri__hash64(data, text, strlen(text));
    digest = tri__hash64(digest, tri_version(), strlen(tri_version()));
    digest = tri__hash64(digest, &engine->model.n_elements, sizeof engine->model.n_elements);
    digest = tri__hash64(digest, program->max.of, sizeof program->max.of);
    return tri__world_agree(world, digest, "the version, the settings or the data");
}

/* Files of offload memory have no name and no other place: training has its run folder. */
static const char *offload_folder(const tri_engine *engine) { return engine->in.offload ? "." : NULL; }

tri_status tri__engine_bind_infer(const tri_infer_spec *spec, tri_engine *engine) {
    const tri_settings *s = spec->settings;
    tri_world *world = spec->place.world;
    tri_programs all;
    if (world) tri__world_doing(world, TRI_DOING_PLAN, -1);
    TRI_TRY(tri__engine_plan(&(tri_engine_spec){.settings = s, .place = &spec->place, .assets = spec->assets,
                                                .columns = spec->columns, .max = &spec->max, .max_infer = &spec->max},
                             engine));
    if (spec->place.rank == 0) { /* before any rank allocates memory: none passes the next line earlier */
        TRI_TRY(tri__engine_plan_all(engine, &all));
        TRI_TRY(tri__room_check(s, engine, &all, world ? world->segment.n : 1, NULL));
    }
    TRI_TRY(tri__engine_agree(engine, s, tri__hash64(spec->data, tri__checkpoint_path(spec->checkpoint),
                                                     strlen(tri__checkpoint_path(spec->checkpoint)))));
    if (world) tri__world_doing(world, TRI_DOING_LOAD, -1);
    return tri__engine_bind(engine, offload_folder(engine));
}

tri_status tri__engine_open_infer(const tri_infer_spec *spec, tri_engine *engine) {
    TRI_TRY(tri__engine_bind_infer(spec, engine));
    TRI_TRY(tri__engine_load(engine, spec->checkpoint));
    return tri__engine_ready_infer(engine);
}

tri_status tri__engine_ready_infer(tri_engine *engine) {
    TRI_TRY(tri__engine_upload(engine));
    if (engine->place.world) tri__world_doing(engine->place.world, TRI_DOING_EVALUATE, -1);
    return TRI_OK;
}
