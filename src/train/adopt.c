/* adopt.c - settings that a run adopts from the checkpoint it continues. */
#include "checkpoint/folders.h"
#include "settings/changes.h"
#include "train/run.h"

#include <string.h>

static int64_t integer(const tri_json *object, const char *key) {
    return tri__json_integer_value(tri__json_get(object, key));
}

tri_status tri__run_adopt(tri_settings *s) {
    tri_json *manifest;
    if (strcmp(s->resume, "never") == 0) return tri__changes_check_names(&s->allow_change);
    tri_status status = tri__checkpoint_glance(strcmp(s->resume, "auto") == 0 ? s->output_dir : s->resume, &manifest);
    if (status == TRI_NOINPUT) return tri__changes_check_names(&s->allow_change);
    if (status == TRI_DATA) return TRI_OK; /* reported when it is opened */
    TRI_TRY(status);
    if (tri__settings_given(s, &s->global_batch_size)) {
        tri__json_decref(manifest);
        return TRI_OK;
    }
    const tri_json *state = tri__json_get(manifest, "state");
    int64_t was = integer(state, "global_batch"), each = integer(state, "replica_batch"),
            replicas = tri__settings_replicas(s);
    if (was > 0 && s->batch_size == each && each * replicas != was) {
        s->batch_asked = each;
        s->global_batch_size = was;
        s->batch_size = (was + replicas - 1) / replicas;
    }
    tri__json_decref(manifest);
    return TRI_OK;
}
