/* chooser.c - what a search needs: the model, its row counts, the device's target, the hardware, the memory. */
#include "study/choose/choose.h"

#include "engine/accept_settings.h"
#include "engine/staging.h"
#include "settings/forms.h"

static tri_status open_model(void *data) {
    tri_chooser *c = data;
    const tri_settings *s = &c->settings;
    int described = c->study.hardware.name != NULL;
    if (described) c->hardware = c->study.hardware;
    else TRI_TRY(tri__staging_hardware(s, &c->arena, &c->hardware));
    if (tri__settings_given(s, &s->nproc_per_node)) c->hardware.ranks_per_node = (int)s->nproc_per_node;
    if (described && c->hardware.target && strcmp(c->hardware.target->name, s->device) == 0) {
        c->device = tri__device_find(s->device);
        c->target = *c->hardware.target;
    } else {
        TRI_TRY(tri__device_get(s->device, &c->device));
        TRI_TRY(tri__device_target(c->device, &c->target));
    }
    for (int plan = 0; plan < TRI_LAYOUT_PLANS; plan++) {
        const tri_texts own = {.at = (char *[]){(char *)tri__layout_plans[plan]}, .n = 1};
        tri__model_make(&c->arena, &s->model, c->study.assets.encoder, tri__rows_columns(&c->study.rows), s->no_decay,
                        &c->planned[plan]);
        TRI_TRY(tri__tune_model(s, &c->planned[plan]));
        TRI_TRY(tri__model_split(&c->planned[plan], plan ? &own : &s->tp_plan));
    }
    c->model = c->planned[0];
    c->study.engine.model = c->model; /* rounds no row counts */
    c->study.engine.in = (tri_plan_in){.model = &c->model, .target = &c->target, .mesh = {.pp = 1, .tp = 1, .dp = 2}};
    return TRI_OK;
}

tri_status tri__chooser_open(const tri_settings *asked, int runs, const tri_log *log, const tri_stop *stop,
                             const char *beside, tri_chooser *out) {
    *out = (tri_chooser){.settings = *asked, .study = {.runs = runs}, .stop = stop};
    const tri_settings *s = &out->settings;
    TRI_TRY(tri__model_config_check(&s->model));
    TRI_TRY(tri__study_hardware(&out->settings, &out->study, log));
    TRI_TRY(tri__accept_precision(s));
    TRI_TRY(tri__assets_open(s, s->data_path != NULL, log, &out->study.assets));
    TRI_TRY(tri__rows_open(s, &out->study.assets, log, stop, beside, &out->study.rows));
    TRI_TRY(tri__arena_open(&out->arena, TRI_PLAN_ARENA));
    return tri__arena_guard(open_model, out);
}

void tri__chooser_drop(tri_chooser **at) {
    if (*at) tri__chooser_close(*at);
    free(*at);
}

void tri__chooser_close(tri_chooser *c) {
    tri__arena_close(&c->arena);
    tri__study_close(&c->study);
    *c = (tri_chooser){0};
}

int64_t tri__choose_batch(const tri_settings *s, int world) {
    tri_settings over = *s; /* only read */
    over.world_size = world;
    return tri__settings_global_batch(&over);
}

tri_status tri__choose_room(const tri_chooser *c, int world, tri_choose_room *out) {
    const tri_settings *s = &c->settings;
    int here = tri__hardware_here(&c->hardware, world);
    int own = c->device ? c->device->async != NULL : !c->hardware.cores; /* each rank has a device's memory */
    *out = (tri_choose_room){.bytes = INT64_MAX, .by = {.here = here, .memories = own ? here : 1}};
    if (s->memory_limit) {
        out->origin = "of --memory-limit";
        return tri__memory_limit_parse(s->memory_limit, &out->bytes);
    }
    if (c->study.hardware.name) {
        out->origin = "of the hardware";
        if (c->hardware.memory > 0) out->bytes = (int64_t)c->hardware.memory;
        return TRI_OK;
    }
    out->origin = "that are free on this machine";
    if (own && c->device->count() < here) out->by.memories = c->device->count() > 0 ? c->device->count() : 1;
    return c->device->room(&tri__core, 0, &out->bytes);
}
