/* changes.c - one table: keys that change no number, keys that change the order of additions, all others. */
#include "train/changes.h"

#include "base/text.h"
#include "checkpoint/folders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum effect {
    NOTHING,    /* on what is computed */
    ROUNDING,   /* the same sums in another order or place */
    RUN         /* another run */
} effect;

/* What is not listed changes the run. */
static const struct {
    const char *key;
    effect effect;
} effects[] = {
    {"output_dir", NOTHING},       {"data_path", NOTHING},     {"models_dir", NOTHING},  {"resume", NOTHING},
    {"save_every", NOTHING},       {"save_steps", NOTHING},    {"keep", NOTHING},        {"threads", NOTHING},
    {"log_every", NOTHING},        {"profile", NOTHING},       {"cache_dir", NOTHING},   {"num_workers", NOTHING},
    {"column_info", NOTHING},      {"transport", NOTHING},     {"bind_cores", NOTHING},  {"progress_timeout", NOTHING},
    {"check_replicas", NOTHING},   {"async_save", NOTHING},    {"max_restarts", NOTHING}, {"memory_limit", NOTHING},
    {"max_tokens", NOTHING},       {"nproc_per_node", ROUNDING}, {"world_size", ROUNDING}, {"pp_size", ROUNDING},
    {"tp_size", ROUNDING},         {"dp_size", ROUNDING},      {"mesh_order", ROUNDING}, {"shard", ROUNDING},
    {"shard_size", ROUNDING},      {"bucket_mb", ROUNDING},    {"prefetch", ROUNDING},   {"reshard_after_forward", ROUNDING},
    {"wrap", ROUNDING},            {"wrap_min_params", ROUNDING}, {"num_microbatches", ROUNDING}, {"schedule", NOTHING},
    {"virtual_stages", ROUNDING},  {"pipeline_shape", ROUNDING}, {"stages", ROUNDING},   {"stage_profile", ROUNDING},
    {"sequence_parallel", ROUNDING},    {"recompute", ROUNDING},       {"offload", ROUNDING},      {"device", ROUNDING},
    {"tune_products", ROUNDING},
};

static effect effect_of(const char *key) {
    for (size_t i = 0; i < sizeof effects / sizeof *effects; i++)
        if (strcmp(effects[i].key, key) == 0) return effects[i].effect;
    return RUN;
}

/* Compared as the samples of a step, whichever of the two said how many. */
static int is_batch(const char *key) { return !strcmp(key, "batch_size") || !strcmp(key, "global_batch_size"); }

/* What is refused so far: ", lr = 2e-05 (now 0.5)" and "lr,epochs". */
typedef struct refusal {
    char what[900], keys[300];
} refusal;

static int names(const tri_texts *allowed, const char *key) {
    for (int i = 0; i < allowed->n; i++) {
        const char *a = allowed->at[i], *b = key;
        for (; *a && (*a == *b || (*a == '-' && *b == '_')); a++) b++;
        if (!*a && !*b) return 1;
    }
    return 0;
}

static void differ(refusal *r, const tri_texts *allowed, const tri_log *log, effect effect, const char *key, const char *a, const char *b) {
    int refused = effect == RUN && !names(allowed, key);
    if (!refused) {
        const char *why = effect == RUN ? " (allowed)" : effect == ROUNDING ? " (the same numbers, rounded differently)" : "";
        tri__say(log, TRI_LOG_INFO, "%s was %s, is %s%s", key, a, b, why);
        return;
    }
    size_t n = strlen(r->what), k = strlen(r->keys);
    snprintf(r->what + n, sizeof r->what - n, "%s%s = %.200s (now %.200s)", n ? ", " : "", key, a, b);
    snprintf(r->keys + k, sizeof r->keys - k, "%s%s", k ? "," : "", key);
}

/* The members of an object that another has otherwise, as text; of anything else all of it. NULL: out of memory. */
static char *differing(const json_t *of, const json_t *other) {
    const char *key;
    json_t *value, *members;
    if (!json_is_object(of) || !json_is_object(other)) return tri__json_line(of);
    if (!(members = json_object())) return NULL;
    json_object_foreach((json_t *)of, key, value)
        if (!json_equal(value, json_object_get(other, key))) json_object_set(members, key, value);
    char *text = tri__json_line(members);
    json_decref(members);
    return text;
}

/* Keys of `now` against `was`; a key that the older configuration lacks had its default. */
static tri_status compare(const tri_changes *c, const json_t *defaults, const tri_texts *allowed, const tri_log *log, refusal *r) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)c->now, key, value) {
        const json_t *old = json_object_get(c->was, key);
        if (!old) old = json_object_get(defaults, key);
        char *a = old ? differing(old, value) : strdup("nothing"), *b = differing(value, old); /* numbers to the digits that are kept */
        tri_status status = a && b ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
        if (status == TRI_OK && strcmp(a, b) != 0 && !is_batch(key)) differ(r, allowed, log, effect_of(key), key, a, b);
        free(a);
        free(b);
        TRI_TRY(status);
    }
    json_object_foreach((json_t *)c->was, key, value)
        if (!json_object_get(c->now, key)) differ(r, allowed, log, RUN, key, "set", "a key that this build does not know");
    return TRI_OK;
}

static tri_status check_allowed(const tri_changes *c, const tri_texts *allowed) {
    for (int i = 0; i < allowed->n; i++) {
        const tri_texts one = {.at = &allowed->at[i], .n = 1};
        int known = names(&one, "data");
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)c->now, key, value) known |= names(&one, key);
        json_object_foreach((json_t *)c->was, key, value) known |= names(&one, key);
        if (!known) return tri__fail(TRI_USAGE, "--allow-change %s: there is no such key; give names of options, or data", allowed->at[i]);
    }
    return TRI_OK;
}

tri_status tri__changes_check(const tri_changes *c, const tri_texts *allowed, const tri_log *log) {
    refusal r = {"", ""};
    TRI_TRY(check_allowed(c, allowed));
    tri_settings settings;
    TRI_TRY(tri__settings_init(&settings));
    json_t *defaults = tri__settings_json(&settings);
    tri__settings_free(&settings);
    tri_status status = json_is_whole(defaults) ? compare(c, defaults, allowed, log, &r) : tri__fail(TRI_RESOURCE, "out of memory");
    json_decref(defaults);
    TRI_TRY(status);
    if (c->batch_was != c->batch_now) {
        char a[32], b[32];
        snprintf(a, sizeof a, "%lld", (long long)c->batch_was);
        snprintf(b, sizeof b, "%lld", (long long)c->batch_now);
        differ(&r, allowed, log, RUN, "global_batch_size", a, b);
    }
    if (c->data) differ(&r, allowed, log, RUN, "data", "the table it was trained on", "another, or another version of it");
    if (!r.keys[0]) return TRI_OK;
    return tri__fail(TRI_USAGE,
                     "%s was written with %s: that would be another run. Go on all the same with --allow-change %s, or begin anew with "
                     "--resume never or another --output-dir",
                     c->path, r.what, r.keys);
}

static int64_t integer(const json_t *object, const char *key) { return json_integer_value(json_object_get(object, key)); }

tri_status tri__settings_adopt(tri_settings *s) {
    json_t *manifest;
    if (strcmp(s->resume, "never") == 0 || s->given.global_batch_size) return TRI_OK;
    tri_status status = tri__checkpoint_glance(strcmp(s->resume, "auto") == 0 ? s->output_dir : s->resume, &manifest);
    if (status == TRI_NOINPUT || status == TRI_DATA) return TRI_OK; /* said when it is opened */
    TRI_TRY(status);
    const json_t *state = json_object_get(manifest, "state");
    int64_t was = integer(state, "global_batch"), each = integer(state, "replica_batch"), replicas = tri__settings_replicas(s);
    if (was > 0 && s->batch_size == each && each * replicas != was) {
        s->batch_asked = each;
        s->global_batch_size = was;
        s->batch_size = (was + replicas - 1) / replicas;
    }
    json_decref(manifest);
    return TRI_OK;
}
