/* resume.c - continues from a checkpoint: weights, optimizer state, the sampler's position. */
#include "train/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Settings that may differ between a run and its continuation: none of them changes a number that is computed; where a pipeline is cut, only
 * the order in which the ranks' sums of squares are added to the norm. */
static const char *const harmless[] = {"output_dir", "data_path", "models_dir", "resume",         "save_every",
                                       "save_steps", "keep",      "threads",    "log_every",      "profile",
                                       "cache_dir",  "num_workers", "column_info", "nproc_per_node",
                                       "mesh_order", "transport",  "progress_timeout", "bind_cores", "bucket_mb", "prefetch",
                                       "reshard_after_forward", "check_replicas", "schedule", "virtual_stages", "pipeline_shape", "stages",
                                       "stage_profile"};

static int is_harmless(const char *key) {
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (strcmp(key, harmless[i]) == 0) return 1;
    return 0;
}

json_t *tri__session_recorded(const tri_session *s) {
    json_t *config = tri__settings_json(s->settings);
    if (config) json_object_set_new(config, "primary_encoder", tri__encoder_json(&s->assets.encoder[0]));
    if (config && s->assets.n_texts > 1) json_object_set_new(config, "secondary_encoder", tri__encoder_json(&s->assets.encoder[1]));
    return config;
}

static tri_status check_same(const tri_session *s, const json_t *was, const char *path) {
    json_t *now = tri__session_recorded(s), *value;
    const char *key;
    tri_status status = now ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
    json_object_foreach(now, key, value) {
        const json_t *old = json_object_get(was, key);
        if (status != TRI_OK || is_harmless(key)) continue;
        char *a = old ? tri__json_line(old) : NULL, *b = tri__json_line(value); /* as text: numbers to the digits that are kept */
        if (!b) status = tri__fail(TRI_RESOURCE, "out of memory");
        else if (!a || strcmp(a, b) != 0)
            status = tri__fail(TRI_USAGE,
                               "%s was written with %s = %s, this run asks for %s: use --resume never, or another --output-dir",
                               path, key, a ? a : "nothing", b);
        free(a);
        free(b);
    }
    json_decref(now);
    return status;
}

static double number(const json_t *object, const char *key, double otherwise) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

static int64_t integer(const json_t *object, const char *key, int64_t otherwise) {
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static tri_status continue_from(tri_session *s, const tri_checkpoint *checkpoint) {
    const json_t *state = tri__checkpoint_state(checkpoint);
    const char *path = tri__checkpoint_path(checkpoint);
    TRI_TRY(check_same(s, tri__checkpoint_config(checkpoint), path));
    if (integer(state, "rows", s->train->n) != s->train->n)
        return tri__fail(TRI_USAGE, "%s was trained on %lld rows, %s has %lld: use --resume never, or another --output-dir", path,
                         (long long)integer(state, "rows", 0), s->settings->data_path, (long long)s->train->n);
    TRI_TRY(tri__engine_load(&s->engine, checkpoint, 1));
    int64_t samples = integer(state, "samples", 0);
    s->at = (tri_position){.step = tri__checkpoint_step(checkpoint),
                           .epoch = samples / s->train->n,
                           .batch = samples % s->train->n / s->sampler.batch,
                           .loss_sum = number(state, "loss_sum", 0),
                           .weight_sum = number(state, "weight_sum", 0),
                           .best_loss = number(state, "best_loss", INFINITY),
                           .best_step = integer(state, "best_step", -1),
                           .scale = tri__loss_scale_start()};
    const json_t *scale = json_object_get(state, "loss_scale");
    if (scale) {
        s->at.scale = (tri_loss_scale){(float)number(scale, "scale", s->at.scale.scale), (int32_t)integer(scale, "good", 0)};
        s->at.skipped = integer(scale, "skipped", 0);
    }
    s->resumed = 1;
    tri__say(&s->log, TRI_LOG_INFO, "continuing from %s at step %lld", path, (long long)s->at.step);
    return TRI_OK;
}

tri_status tri__session_resume(tri_session *s) {
    const char *resume = s->settings->resume;
    tri_checkpoint *checkpoint;
    if (strcmp(resume, "never") == 0) return TRI_OK;
    int automatic = strcmp(resume, "auto") == 0;
    tri_status status = tri__checkpoint_open(automatic ? s->settings->output_dir : resume, 0, &checkpoint);
    if (status == TRI_NOINPUT && automatic) return TRI_OK;
    TRI_TRY(status);
    status = continue_from(s, checkpoint);
    tri__checkpoint_close(checkpoint);
    return status;
}
