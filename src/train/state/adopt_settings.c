/* adopt_settings.c - settings that a run adopts from the checkpoint it continues, which must be of the same run. */
#include "checkpoint/folders.h"
#include "train/run.h"

/* The global batch. */
static void adopt_batch(tri_settings *s, const tri_json *manifest) {
    if (tri__settings_given(s, &s->global_batch_size)) return;
    const tri_json *state = tri__json_get(manifest, "state");
    int64_t was = tri__whole_in(state, "global_batch"), each = tri__whole_in(state, "replica_batch"),
            replicas = tri__settings_replicas(s);
    if (was > 0 && s->batch_size == each && each * replicas != was) {
        s->batch_asked = each, s->global_batch_size = was;
        s->batch_size = (was + replicas - 1) / replicas;
    }
}

/* Its position table is extended already. */
static void adopt_positions(tri_settings *s, const tri_json *config) {
    const char *how = tri__text_in(config, "extend_positions");
    if (how && strcmp(how, "copy") == 0 && !tri__settings_given(s, &s->model.extend_positions))
        s->model.extend_positions = TRI_EXTEND_COPY;
}

/* Keys that a run resolves after it has read its data: what they were is what they will be compared with then. */
static void take_resolved(const tri_settings *s, const tri_json *was, tri_json *now) {
    static const char *const keys[] = {"primary_encoder", "secondary_encoder", "positive_label", "class_weights"};
    int n = s->model.class_weights.word ? 4 : 3;
    for (int i = 0; i < n; i++) tri__json_set(now, keys[i], tri__json_get(was, keys[i]));
}

/* Another run's folder is refused here, before ranks start and data are read; data, and what it resolves, are compared
 * later. */
static tri_status check_same(const tri_settings *s, const char *folder, const tri_json *was, const tri_json *manifest) {
    const tri_json *state = tri__json_get(manifest, "state");
    int64_t rows = tri__whole_in(state, "rows"), batch = tri__whole_in(state, "global_batch");
    tri_log silent = {0};
    if (rows < 1 || batch < 1) return TRI_OK; /* an export; or reported later */
    TRI_OWNED(tri__json_drop) tri_json *now = tri__settings_json(s);
    if (now) take_resolved(s, was, now);
    if (!tri__json_is_whole(now)) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_changes changes = {.was = was, .now = now, .batch_was = batch, .batch_now = tri__settings_global_batch(s),
                           .step = tri__whole_in(manifest, "step"), .batches = (rows + batch - 1) / batch,
                           .path = folder};
    return tri__changes_check(&changes, &s->allow_change, &silent);
}

static tri_status adopt(tri_settings *s, const char *folder, const tri_json *manifest) {
    TRI_OWNED(tri__json_drop) tri_json *config = NULL;
    TRI_PATH(path, folder, "config.json");
    tri_status status = tri__json_load(path, TRI_DATA, &config);
    if (status != TRI_OK) return status == TRI_DATA || status == TRI_NOINPUT ? TRI_OK : status; /* reported later */
    adopt_batch(s, manifest);
    adopt_positions(s, config);
    return check_same(s, folder, config, manifest);
}

tri_status tri__run_adopt(tri_settings *s) {
    char folder[TRI_PATH_MAX];
    TRI_OWNED(tri__json_drop) tri_json *manifest = NULL;
    if (strcmp(s->resume, "never") == 0) return tri__changes_check_names(&s->allow_change);
    tri_status status = tri__checkpoint_glance(strcmp(s->resume, "auto") == 0 ? s->output_dir : s->resume, folder,
                                               &manifest);
    if (status == TRI_NOINPUT) return tri__changes_check_names(&s->allow_change);
    if (status == TRI_DATA) return TRI_OK; /* reported when it is opened */
    TRI_TRY(status);
    return adopt(s, folder, manifest);
}
