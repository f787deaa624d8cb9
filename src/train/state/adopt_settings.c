/* adopt_settings.c - settings that a run adopts from the checkpoint it continues. */
#include "checkpoint/folders.h"
#include "settings/changes.h"
#include "train/run.h"

/* The global batch. */
static void adopt_batch(tri_settings *s, const tri_json *manifest) {
    if (tri__settings_given(s, &s->global_batch_size)) return;
    const tri_json *state = tri__json_get(manifest, "state");
    int64_t was = tri__whole_in(state, "global_batch"), each = tri__whole_in(state, "replica_batch"),
            replicas = tri__settings_replicas(s);
    if (was > 0 && s->batch_size == each && each * replicas != was) {
        s->batch_asked = each;
        s->global_batch_size = was;
        s->batch_size = (was + replicas - 1) / replicas;
    }
}

/* Its position table is extended already. */
static tri_status adopt_positions(tri_settings *s, const char *folder) {
    char path[TRI_PATH_MAX];
    tri_json *config;
    if (tri__settings_given(s, &s->model.extend_positions)) return TRI_OK;
    TRI_TRY(tri__path_join(path, folder, "config.json"));
    tri_status status = tri__json_load(path, TRI_DATA, &config);
    if (status != TRI_OK) return status == TRI_DATA || status == TRI_NOINPUT ? TRI_OK : status; /* reported later */
    const char *how = tri__text_in(config, "extend_positions");
    if (how && strcmp(how, "copy") == 0) s->model.extend_positions = TRI_EXTEND_COPY;
    tri__json_decref(config);
    return TRI_OK;
}

tri_status tri__run_adopt(tri_settings *s) {
    char folder[TRI_PATH_MAX];
    tri_json *manifest;
    if (strcmp(s->resume, "never") == 0) return tri__changes_check_names(&s->allow_change);
    tri_status status = tri__checkpoint_glance(strcmp(s->resume, "auto") == 0 ? s->output_dir : s->resume, folder,
                                               &manifest);
    if (status == TRI_NOINPUT) return tri__changes_check_names(&s->allow_change);
    if (status == TRI_DATA) return TRI_OK; /* reported when it is opened */
    TRI_TRY(status);
    adopt_batch(s, manifest);
    tri__json_decref(manifest);
    return adopt_positions(s, folder);
}
