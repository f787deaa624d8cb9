/* settings.c - everything a run is told, from defaults, then the configuration file, then the command line. A request
 * that this build cannot honour is refused by name; nothing is quietly replaced. */
#include "train/settings.h"

#include "base/file.h"
#include "base/text.h"
#include "data/column_info.h"
#include "plan/schedule/schedule.h"
#include "train/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORIGIN_BYTES = 512, ROWS_MAX = 256 };

/* A row and the struct that it fills. */
typedef struct place {
    const tri_option *row;
    void *into;
} place;

tri_status tri__settings_init(tri_settings *settings) {
    *settings = (tri_settings){0};
    TRI_TRY(tri__options_init(tri__model_options, &settings->model));
    tri_status status = tri__options_init(tri__run_options, settings);
    if (status != TRI_OK) tri__options_free(tri__model_options, &settings->model);
    return status;
}

void tri__settings_free(tri_settings *settings) {
    tri__options_free(tri__model_options, &settings->model);
    tri__options_free(tri__run_options, settings);
}

static place find(tri_settings *settings, const char *name) {
    place at = {.row = tri__option_find(tri__model_options, name), .into = &settings->model};
    if (!at.row) at = (place){.row = tri__option_find(tri__run_options, name), .into = settings};
    return at;
}

/* The nearest name among those listed for `scope`; NULL when none is near. */
static const char *nearest(const char *name, const char *scope) {
    const tri_option *const tables[] = {tri__model_options, tri__run_options};
    const char *names[ROWS_MAX];
    int n = 0;
    for (int t = 0; t < 2; t++)
        for (const tri_option *row = tables[t]; row->name && n < ROWS_MAX; row++)
            if (tri__option_listed(row, scope) && (row->kind != TRI_OPTION_OBJECT || strcmp(scope, "config") == 0)) {
                names[n++] = row->name;
                if (row->alias && n < ROWS_MAX) names[n++] = row->alias;
            }
    return tri__text_nearest(name, names, n);
}

static void note(tri_settings *settings, const tri_option *row) {
    const struct {
        const char *name;
        int *given;
    } related[] = {
        {"batch_size", &settings->given.batch_size},         {"global_batch_size", &settings->given.global_batch_size},
        {"num_classes", &settings->given.num_classes},       {"is_binary", &settings->given.is_binary},
        {"world_size", &settings->given.world_size},         {"nproc_per_node", &settings->given.nproc_per_node},
        {"nnodes", &settings->given.nnodes},                 {"num_microbatches", &settings->given.num_microbatches},
        {"pp_size", &settings->given.pp_size},               {"device", &settings->given.device},
        {"lab_model", &settings->given.lab_model},
    };
    for (size_t i = 0; i < sizeof related / sizeof *related; i++)
        if (strcmp(row->name, related[i].name) == 0) *related[i].given = 1;
}

static void move_text(char **from, char **to) {
    if (*to) return;
    *to = *from, *from = NULL;
}

static void move_texts(tri_texts *from, tri_texts *to) {
    if (to->n) return;
    *to = *from, *from = (tri_texts){0};
}

/* Keys that are not given otherwise, from a column_info.json: the first text is the primary one, all others are joined to the
 * secondary. */
static void take_columns(tri_settings *settings, tri_column_info *info) {
    tri_model_config *model = &settings->model;
    int classes = info->labels.n;
    move_text(&info->label, &model->label_name);
    if (!model->primary_text_name && !model->secondary_text_name) {
        move_text(&info->text.at[0], &model->primary_text_name);
        if (info->text.n > 1) move_text(&info->text.at[1], &model->secondary_text_name);
        if (info->text.n > 2) {
            free(info->text.at[0]);
            free(info->text.at[1]);
            info->text.n -= 2;
            memmove(info->text.at, info->text.at + 2, (size_t)info->text.n * sizeof *info->text.at);
            move_texts(&info->text, &model->secondary_text_list);
        }
    }
    if (!model->tab_field_list.n) {
        move_texts(&info->columns, &model->tab_field_list);
        move_texts(&info->categorical, &model->cat_field_list);
    }
    move_texts(&info->labels, &model->label_list);
    if (classes > 1 && !settings->given.num_classes) model->num_classes = classes;
    if (classes > 1 && !settings->given.is_binary) model->is_binary = model->num_classes == 2;
}

/* A column_info.json that is named, or, where no text is, that the data folder has. */
static tri_status read_columns(tri_settings *settings) {
    char path[TRI_PATH_MAX] = "";
    if (settings->column_info) TRI_TRY(tri__path_join(path, "", settings->column_info));
    else if (!settings->model.primary_text_name && settings->data_path && tri__is_folder(settings->data_path))
        TRI_TRY(tri__path_join(path, settings->data_path, "column_info.json"));
    if (!path[0] || (!settings->column_info && !tri__is_file(path))) return TRI_OK;
    tri_column_info info;
    TRI_TRY(tri__column_info_read(path, &info));
    take_columns(settings, &info);
    tri__column_info_free(&info);
    return TRI_OK;
}

/* What is left out and follows from what is given. */
static tri_status complete(tri_settings *settings) {
    tri_model_config *model = &settings->model;
    if (model->secondary_text_name && !model->secondary_tokenizer && model->primary_tokenizer) {
        model->secondary_tokenizer = strdup(model->primary_tokenizer);
        if (!model->secondary_tokenizer) return tri__fail(TRI_RESOURCE, "out of memory while reading options");
    }
    return tri__settings_ranks(settings);
}

static tri_status read_key(tri_settings *settings, const char *path, const char *key, const json_t *value) {
    place at = find(settings, key);
    if (!at.row) {
        const char *near = nearest(key, "config");
        if (near) return tri__fail(TRI_USAGE, "%s: unknown key \"%s\"; did you mean \"%s\"?", path, key, near);
        return tri__fail(TRI_USAGE, "%s: unknown key \"%s\"", path, key);
    }
    if (!tri__option_listed(at.row, "config"))
        return tri__fail(TRI_USAGE, "%s: \"%s\" belongs on the command line, not in the configuration file", path, key);
    char origin[ORIGIN_BYTES];
    snprintf(origin, sizeof origin, "%s: %s", path, key);
    note(settings, at.row);
    return tri__option_set_json(at.row, at.into, origin, value);
}

static tri_status read_config(tri_settings *settings, const char *path) {
    json_t *root;
    TRI_TRY(tri__json_load(path, TRI_USAGE, &root));
    tri_status status = TRI_OK;
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value) {
        if (strcmp(key, "_comments") == 0 || strcmp(key, "model_type") == 0) continue; /* the latter: in exports, for others */
        status = read_key(settings, path, key, value);
        if (status != TRI_OK) break;
    }
    json_decref(root);
    return status;
}

tri_status tri__settings_config(tri_settings *settings, const char *path) {
    TRI_TRY(read_config(settings, path));
    return complete(settings);
}

/* One option of a command line. */
typedef struct argument {
    char name[TRI_OPTION_FLAG]; /* without dashes in front; cut when too long to be an option */
    const char *value;         /* NULL: none */
    int used;                  /* arguments taken: 1 or 2 */
} argument;

/* Splits "--name=value", or "--name" and the next argument where the option takes one. */
static tri_status read_argument(tri_settings *settings, const char *scope, int n, const char *const *args,
                                argument *out) {
    static const char *const short_names[][2] = {{"-o", "--output"}, {"-r", "--redirects"}, {"-t", "--tee"}};
    const char *text = args[0];
    for (size_t i = 0; i < sizeof short_names / sizeof *short_names; i++)
        if (strcmp(text, short_names[i][0]) == 0) text = short_names[i][1];
    if (strncmp(text, "--", 2)) return tri__fail(TRI_USAGE, "unknown option %s; options begin with --", text);
    const char *equal = strchr(text, '=');
    int length = equal ? (int)(equal - text) : (int)strlen(text);
    *out = (argument){.value = equal ? equal + 1 : NULL, .used = 1};
    snprintf(out->name, sizeof out->name, "%.*s", length - 2, text + 2);
    const tri_option *row = find(settings, out->name).row;
    char written[TRI_OPTION_FLAG];
    if (!row) {
        const char *near = nearest(out->name, scope);
        if (near)
            return tri__fail(TRI_USAGE, "unknown option %.*s; did you mean %s?", length, text, tri__option_flag(near, written));
        return tri__fail(TRI_USAGE, "unknown option %.*s; trident %s --help lists them", length, text, scope);
    }
    if (!tri__option_listed(row, scope))
        return tri__fail(TRI_USAGE, "%.*s is no option of trident %s; trident %s --help lists them", length, text, scope,
                         scope);
    if (!out->value && row->kind == TRI_OPTION_BOOL) {
        out->value = "true";
    } else if (!out->value) {
        if (n < 2 || strncmp(args[1], "--", 2) == 0) return tri__fail(TRI_USAGE, "%s needs a value", text);
        out->value = args[1], out->used = 2;
    }
    return TRI_OK;
}

/* Goes through the arguments. With `config`, only remembers the value of --config there; else sets what they say. */
static tri_status read_arguments(tri_settings *settings, const char *scope, int n, const char *const *args,
                                 const char **config) {
    for (int i = 0; i < n;) {
        if (args[i][0] != '-' || args[i][1] == 0) { /* a bare word; "-" is one too */
            i++;
            continue;
        }
        if (strcmp(args[i], "--") == 0) break;
        argument argument;
        TRI_TRY(read_argument(settings, scope, n - i, args + i, &argument));
        i += argument.used;
        place at = find(settings, argument.name);
        if (config) {
            if (strcmp(at.row->name, "config") == 0) *config = argument.value;
            continue;
        }
        char origin[TRI_OPTION_FLAG];
        note(settings, at.row);
        TRI_TRY(tri__option_set_text(at.row, at.into, tri__option_flag(argument.name, origin), argument.value));
    }
    return TRI_OK;
}

/* The bare words, and all after "--". The arguments were accepted by read_arguments. */
static tri_status read_words(tri_settings *settings, const char *scope, int n, const char *const *args,
                             const char **words, int max_words, int *n_words) {
    int only_words = 0;
    *n_words = 0;
    for (int i = 0; i < n;) {
        argument argument = {.used = 1};
        if (!only_words && strcmp(args[i], "--") == 0) {
            only_words = 1;
        } else if (!only_words && args[i][0] == '-' && args[i][1]) {
            TRI_TRY(read_argument(settings, scope, n - i, args + i, &argument));
        } else {
            if (*n_words == max_words)
                return tri__fail(TRI_USAGE, "unexpected word \"%s\"; trident %s --help shows what is expected", args[i],
                                 scope);
            words[(*n_words)++] = args[i];
        }
        i += argument.used;
    }
    return TRI_OK;
}

tri_status tri__settings_parse(tri_settings *settings, const char *scope, int n, const char *const *args,
                               const char **words, int max_words, int *n_words) {
    const char *config = NULL;
    TRI_TRY(read_arguments(settings, scope, n, args, &config));
    if (config) TRI_TRY(read_config(settings, config));
    TRI_TRY(read_arguments(settings, scope, n, args, NULL));
    TRI_TRY(read_words(settings, scope, n, args, words, max_words, n_words));
    if (tri__option_listed(tri__option_find(tri__run_options, "column_info"), scope)) TRI_TRY(read_columns(settings));
    return complete(settings);
}

/* The schedule and the shape of a pipeline; what depends on the model is the planner's to say. */
static tri_status check_pipeline(const tri_settings *s) {
    const tri_schedule_row *schedule = tri__schedule_row((tri_schedule_kind)s->schedule);
    if (schedule->chain && s->pipeline_shape == TRI_SHAPE_ASKED_BRANCH && s->pp_size > 1)
        return tri__fail(TRI_USAGE,
                         "--schedule %s needs stages in a row, --pipeline-shape branch puts the encoders side by side: take "
                         "--pipeline-shape chain, or one of the schedules gpipe, 1f1b, zb-h1",
                         schedule->name);
    if (s->virtual_stages && schedule->chunks && s->virtual_stages != schedule->chunks)
        return tri__fail(TRI_USAGE,
                         "--virtual-stages %lld: with --schedule %s each rank holds %d; --schedule interleaved takes any number from 2 on",
                         (long long)s->virtual_stages, schedule->name, schedule->chunks);
    return TRI_OK;
}

tri_status tri__settings_check(const tri_settings *settings) {
    tri_mesh mesh;
    int64_t global = settings->global_batch_size, limit;
    TRI_TRY(tri__room_limit(settings, &limit));
    TRI_TRY(tri__settings_mesh(settings, &mesh));
    TRI_TRY(check_pipeline(settings));
    if (global && settings->batch_size != (global + mesh.dp - 1) / mesh.dp)
        return tri__fail(TRI_USAGE, "global_batch_size %lld is not batch_size %lld x %d replica%s; give one of them", (long long)global,
                         (long long)settings->batch_size, mesh.dp, mesh.dp == 1 ? "" : "s");
    if (settings->num_microbatches > settings->batch_size)
        return tri__fail(TRI_USAGE,
                         "--num-microbatches %lld is more than the %lld sample%s of a replica's batch: give %lld at most, or a larger --batch-size",
                         (long long)settings->num_microbatches, (long long)settings->batch_size, settings->batch_size == 1 ? "" : "s",
                         (long long)settings->batch_size);
    return TRI_OK;
}

json_t *tri__settings_json(const tri_settings *settings) {
    const struct {
        const tri_option *rows;
        const void *from;
    } parts[] = {{tri__model_options, &settings->model}, {tri__run_options, settings}};
    json_t *all = json_object();
    for (int i = 0; i < 2 && all; i++)
        for (const tri_option *row = parts[i].rows; row->name; row++)
            if (tri__option_listed(row, "config") && json_object_set_new(all, row->name, tri__option_json(row, parts[i].from))) {
                json_decref(all);
                return NULL;
            }
    return all;
}
