/* retrain.c - the trainings of `explain --importance --retrain`: the configuration that the checkpoint records, less
 * one input each, as `trident train` would be given it; one after the other, in folders that a second call goes on
 * with. */
#include "cli/launch.h"
#include "job/trainings.h"
#include "serve/explain/explain.h"

#include "checkpoint/folders.h"

#include <ctype.h>

/* The run's configuration, and in `how` the folder and what of it is changed for all trainings. Those of another length
 * have a folder of their own: a longer one would go on with a shorter one, and a shorter one take it as it is. */
static tri_status read_run(const tri_settings *set, tri_json *how) {
    static const char *const lengths[] = {"epochs", "max_steps"};
    char made[TRI_PATH_MAX], run[TRI_PATH_MAX], path[TRI_PATH_MAX], name[128] = "retrain";
    tri_json *manifest, *config, *changed = tri__json_object();
    tri__json_set_new(how, "changed", changed);
    TRI_TRY(tri__checkpoint_glance(set->checkpoint, made, &manifest));
    tri__json_decref(manifest);
    TRI_TRY(tri__path_join(path, made, "config.json"));
    TRI_TRY(tri__json_load(path, TRI_DATA, &config));
    tri__json_set_new(how, "config", config);
    for (int i = 0; i < 2; i++) {
        const int64_t *value = i ? &set->max_steps : &set->epochs;
        if (!tri__settings_given(set, value) || *value == tri__whole_in(config, lengths[i])) continue;
        tri__json_set_new(changed, lengths[i], tri__json_integer(*value));
        tri__text_append(name, sizeof name, "-", "%s-%lld", lengths[i], (long long)*value);
    }
    tri__json_update(config, changed);
    TRI_TRY(tri__path_parent(made, run));
    TRI_TRY(tri__path_join(path, run, "summary.json"));
    if (!tri__is_file(path) || !tri__text_in(config, "data_path") || !tri__text_in(config, "primary_text_name"))
        return tri__fail(TRI_USAGE, "--retrain: %s is not in the folder of a run that ended, which is trained again",
                         made);
    TRI_TRY(tri__path_join(made, run, name));
    tri__json_set_new(how, "folder", tri__json_string(made));
    TRI_TRY(tri__path_join(path, made, "cache")); /* texts are tokenized once */
    if (!tri__text_in(config, "cache_dir")) tri__json_set_new(config, "cache_dir", tri__json_string(path));
    tri__json_set_new(config, "resume", tri__json_string("auto"));
    return tri__folder_make(made);
}

/* What can be left out: texts, columns, and the table; {input: {}}, or why not. */
static tri_status list_inputs(const tri_json *config, tri_json *inputs) {
    const char *first = tri__text_in(config, "primary_text_name"),
               *second = tri__text_in(config, "secondary_text_name"),
               *why = second ? NULL : "a model reads at least one text", *why_second = NULL;
    const tri_json *columns = tri__json_get(config, "tab_field_list"), *texts = tri__json_get(config, "text_list");
    if (tri__json_size(tri__json_get(config, "text_encoders")))
        why = why_second = "an encoder reads it before further texts (text_encoders)";
    if (!second && !tri__json_size(columns))
        return tri__fail(TRI_USAGE, "--retrain: the model reads \"%s\" alone: without it nothing is left", first);
    if (tri__json_size(tri__json_get(config, "secondary_text_list")))
        why = "the second text cannot take its place, for it joins several columns";
    tri__json_set_new(inputs, first, tri__json_pack("{s:s*}", "why", why));
    if (second) tri__json_set_new(inputs, second, tri__json_pack("{s:s*}", "why", why_second));
    for (size_t t = 2; t < tri__json_size(texts); t++)
        tri__json_set_new(inputs, tri__json_string_value(tri__json_at(texts, t)), tri__json_object());
    tri__json_items(columns, column) tri__json_set_new(inputs, tri__json_string_value(column), tri__json_object());
    if (tri__json_size(columns) > 1) tri__json_set_new(inputs, TRI_EXPLAIN_TABLE, tri__json_object());
    return tri__json_is_whole(inputs) ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* Of more than two texts: the names of the first two follow from the list, and so does what belongs to the second. */
static void leave_out(const tri_json *from, const char *input, tri_json *config) {
    static const char *const lists[] = {"text_list", "text_encoders"};
    const tri_json *texts = tri__json_get(from, lists[0]);
    for (int l = 0; l < 2; l++) {
        tri_json *list = tri__json_array();
        tri__json_each(tri__json_get(from, lists[l]), t, item)
            if (strcmp(tri__json_string_value(tri__json_at(texts, t)), input)) tri__json_append(list, item);
        tri__json_set_new(config, lists[l], list);
    }
    tri__json_set_new(config, "primary_text_name", tri__json_null());
    tri__json_set_new(config, "secondary_text_name", tri__json_null());
    if (!strcmp(input, tri__text_in(from, "secondary_text_name")))
        tri__json_set_new(config, "secondary_text_list", tri__json_array());
}

/* Without the first text the second one takes its place. */
static tri_json *config_without(const tri_json *from, const char *input) {
    int listed = tri__json_size(tri__json_get(from, "text_list")) > 0;
    const char *second = listed ? NULL : tri__text_in(from, "secondary_text_name");
    int is_first = !listed && !strcmp(input, tri__text_in(from, "primary_text_name"));
    int is_table = !strcmp(input, TRI_EXPLAIN_TABLE);
    tri_json *config = tri__json_object();
    tri__json_members(from, m) {
        TRI_OWNED(tri__json_drop) tri_json *list = tri__json_array();
        int is_second = tri__text_begins(m->key, "secondary_") && (is_first || (second && !strcmp(input, second)));
        const char *key = TRI_TEXT(TRI_OPTION_FLAG, is_second ? "primary_%s" : "%s",
                                   m->key + (is_second ? strlen("secondary_") : 0));
        tri__json_items(m->value, item)
            if (!is_table && strcmp(tri__json_string_value(item), input)) tri__json_append(list, item);
        if (tri__text_ends(key, "_field_list")) tri__json_set(config, key, list);
        else if (!is_second || (is_first && !tri__json_is_array(m->value) && !tri__json_is_null(m->value)))
            tri__json_set(config, key, m->value);
    }
    if (listed) leave_out(from, input, config);
    return config;
}

/* Training i, without an input or with all (""); its configuration is beside its folder, which becomes to[key]. */
static tri_status train(const tri_parent *parent, const tri_json *config, const char *folder, int i, const char *input,
                        int quiet, tri_json *to, const char *key) {
    TRI_OWNED(tri__training_free) tri_training t = {.silent = 1};
    char name[64], path[TRI_PATH_MAX];
    int used = snprintf(name, sizeof name, *input ? "%02d-without-" : "%02d-all", i);
    for (const char *at = input; *at && used < 50; at++)
        if (isalnum((unsigned char)*at) || strchr("-_.", *at)) name[used++] = *at;
    strcpy(name + used, ".json");
    TRI_TRY(tri__path_join(path, folder, name));
    snprintf(t.folder, sizeof t.folder, "%.*s", (int)(strlen(path) - strlen(".json")), path);
    snprintf(t.name, sizeof t.name, *input ? "without \"%.40s\"" : "all inputs", input);
    TRI_OWNED(tri__json_drop) tri_json *less = config_without(config, input);
    tri__json_set_new(less, "output_dir", tri__json_string(t.folder));
    tri__json_set_new(to, key, tri__json_string(t.folder));
    TRI_TRY(tri__json_save(path, less));
    const tri_change changes[] = {{"config", path}, {"quiet", quiet ? "true" : "false"}};
    t.argv = tri__training_argv(parent, 0, NULL, changes, 2);
    if (!t.argv) return tri__fail(TRI_RESOURCE, "out of memory");
    return tri__trainings_run(parent, &t, 1, quiet);
}

tri_status tri__retrain(const tri_parent *parent, const tri_settings *settings, tri_json *how) {
    tri_json *inputs = tri__json_object();
    int i = 0, quiet = settings->quiet;
    tri__json_set_new(how, "inputs", inputs);
    tri__json_set_new(how, "whole", tri__json_string(settings->checkpoint));
    TRI_TRY(tri__trainings_accept(parent->lookup, "--retrain"));
    TRI_TRY(read_run(settings, how));
    const tri_json *config = tri__json_get(how, "config");
    const char *folder = tri__text_in(how, "folder");
    TRI_TRY(list_inputs(config, inputs));
    if (tri__json_object_size(tri__json_get(how, "changed")))
        TRI_TRY(train(parent, config, folder, 0, "", quiet, how, "whole"));
    tri__json_members(inputs, m)
        if (++i && !tri__json_get(m->value, "why"))
            TRI_TRY(train(parent, config, folder, i, m->key, quiet, m->value, "folder"));
    parent->reply(TRI_SIGNAL_ROWS);
    return tri__json_is_whole(how) ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}
