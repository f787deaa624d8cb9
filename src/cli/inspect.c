/* inspect.c - `trident inspect`: what a table or a data folder holds, before anything is trained on it. */
#include "cli/inspect.h"

#include "engine/engine.h"
#include "data/dataset/data_files.h"
#include "engine/model_folder.h"
#include "report/text/text_table.h"
#include "serve/explain/explain.h"
#include "train/run.h"

typedef struct options {
    char *write_config, *model;
} options;

const tri_option tri__inspect_options[] = {
    TRI_OWN_ROW(options, "inspect", TEXT, model,
                .help = "a run, a checkpoint or an export: also how far the table is from what it was trained on"),
    TRI_OWN_ROW(options, "inspect", TEXT, write_config, .help = "write a starter configuration to this file"),
    TRI_OWN_END(options)};

static int holds_tokenizer(const char *folder) {
    static const char *const files[] = {"tokenizer.json", "vocab.txt", "vocab.json"};
    char path[TRI_PATH_MAX];
    for (int i = 0; i < 3; i++)
        if (tri__path_join(path, folder, files[i]) == TRI_OK && tri__is_file(path)) return 1;
    return 0;
}

/* The first folder with a tokenizer in --models-dir, by name; "" when there is none. */
static tri_status first_model(const char *models_dir, char name[static TRI_PATH_MAX]) {
    TRI_OWNED(tri__names_free) tri_names found = {0};
    name[0] = 0;
    tri_status status = tri__folder_list(models_dir, &found);
    if (status == TRI_NOINPUT) return tri__fail(TRI_NOINPUT, "%s: no such folder (--models-dir)", models_dir);
    TRI_TRY(status);
    for (int i = 0; i < found.n && !name[0]; i++) {
        char folder[TRI_PATH_MAX];
        if (found.name[i][0] != '.' && tri__path_join(folder, models_dir, found.name[i]) == TRI_OK &&
            holds_tokenizer(folder))
            strcpy(name, found.name[i]);
    }
    return TRI_OK;
}

/* --tokenizer: a folder by its path, or by its name where models are found. */
static tri_status given_folder(const tri_settings *settings, tri_inspect_model *model) {
    const char *given = settings->tokenizer;
    int there;
    TRI_TRY(tri__folder_there(given, &there));
    if (there) {
        if (!tri__path_real(given, model->name)) /* a configuration may be used from anywhere */
            return tri__fail(TRI_IO, "%s: cannot resolve this path", given);
        return tri__path_join(model->folder, "", model->name);
    }
    TRI_TRY(tri__path_join(model->name, "", given));
    return tri__model_folder(settings, given, "--tokenizer", model->folder);
}

/* A tokenizer that only the configuration names may be missing on this machine; lengths are then estimated. */
static tri_status find_model(const tri_settings *settings, const char *name, tri_inspect_model *model) {
    char first[TRI_PATH_MAX] = "";
    if (settings->tokenizer) return given_folder(settings, model);
    if (!name && settings->models_dir) TRI_TRY(first_model(settings->models_dir, first));
    if (!name && first[0]) name = first;
    if (!name) return TRI_OK;
    TRI_TRY(tri__path_join(model->name, "", name));
    tri_status status = tri__model_folder(settings, name, "tokenizer", model->folder);
    return model->folder[0] ? status : TRI_OK;
}

/* An unusable tokenizer is an error only if it was requested by name. */
static tri_status load_model(const tri_cli *cli, const tri_settings *settings, tri_inspect_model *model) {
    tri_status status = tri__tokenizer_load(model->folder, &model->tokenizer);
    if (settings->tokenizer || (status != TRI_USAGE && status != TRI_DATA)) return status;
    fprintf(cli->err, "warning: %s; lengths are estimated\n", tri_error());
    return TRI_OK;
}

static const char no_weights[] = ", which has no weights: an encoder that starts from random ones is about as good as "
                                 "TF-IDF with logistic regression; pretrained weights give better answers";

static tri_status open_models(const tri_cli *cli, const tri_settings *settings, tri_inspect_model model[static 2]) {
    const char *const names[] = {settings->model.primary_tokenizer, settings->model.secondary_tokenizer};
    for (int t = 0; t < 2; t++) {
        TRI_TRY(find_model(settings, names[t] ? names[t] : names[0], &model[t]));
        if (t == 1 && strcmp(model[0].folder, model[1].folder) == 0)
            break; /* the same one: model[1] shares the primary's tokenizer */
        if (model[t].folder[0]) TRI_TRY(load_model(cli, settings, &model[t]));
        if (settings->quiet) continue;
        if (model[t].tokenizer)
            fprintf(cli->err, "tokenizer: %s, from %s%s\n", tri__tokenizer_describe(model[t].tokenizer),
                    model[t].folder, tri__inspect_has_weights(&model[t]) ? "" : no_weights);
        else if (model[t].name[0])
            fprintf(cli->err, "tokenizer: no folder of %s here; lengths are estimated (--models-dir)\n", model[t].name);
    }
    return TRI_OK;
}

/* The split of a single table, from its file name: valid, val or test; otherwise train. */
static int split_of(const char *path) {
    static const struct {
        const char *name;
        int split;
    } names[] = {{"valid", 1}, {"val", 1}, {"validation", 1}, {"test", 2}};
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    size_t n = strcspn(base, ".-_");
    for (int i = 0; i < 4; i++)
        if (strlen(names[i].name) == n && strncmp(base, names[i].name, n) == 0) return names[i].split;
    return 0;
}

static tri_status inspect(const tri_settings *settings, const char *data, const tri_inspect_model *model,
                          tri_inspection **out) {
    const tri_model_config *m = &settings->model;
    const char *separator = tri__model_separator(m);
    tri_data_files files;
    TRI_TRY(tri__data_files(data, &files));
    tri_inspect_spec spec = {
        .path = {files.train, files.valid, files.test}, .label = m->label_name, .has_columns = separator && !*separator,
        .primary = m->primary_text_name, .secondary = m->secondary_text_name, .further = m->secondary_text_list.at,
        .n_further = m->secondary_text_name ? m->secondary_text_list.n : 0, .texts = m->text_list,
        .tabular = m->tab_field_list.n ? m->tab_field_list.at : NULL, .n_tabular = m->tab_field_list.n,
        .buckets = m->hash_buckets, .label_list = m->label_list,
        .is_number = !tri__settings_given(settings, &m->task)
                         ? -1
                         : m->task == TRI_TASK_NUMBER || m->task == TRI_TASK_QUANTILES,
        .tokenizer = {model[0].tokenizer, model[1].tokenizer}, .skip_bad_rows = settings->bad_rows != 0,
        .reading = {tri__settings_decimal(settings), m->missing}, .date_order = (tri_date_order)settings->date_order,
        .threads = settings->threads ? (int)settings->threads : tri__cores(), .tables = settings->tables};
    int64_t memory;
    TRI_TRY(tri__memory_limit_parse(settings->memory_limit, &memory));
    spec.memory = (size_t)memory;
    TRI_TRY(tri__separator_parse(settings->separator, &spec.separator));
    if (strcmp(files.train, files.valid) == 0) /* one file serves as all three */
        for (int s = 0, only = split_of(data); s < TRI_SPLITS; s++) spec.path[s] = s == only ? files.train : NULL;
    return tri__inspect(&spec, out);
}

/* Notes where a file's format differs from what its extension implies. */
static void say_form(const tri_cli *cli, const tri_inspection *in) {
    for (int s = 0; s < TRI_SPLITS; s++)
        if (in->split[s].path && in->split[s].recognised)
            fprintf(cli->err, "%s: fields are separated by %s\n", in->split[s].path,
                    tri__separator_words(in->split[s].separator));
    if (in->decimal == ',') fprintf(cli->err, "%s: numbers have decimal commas\n", in->split[in->base].path);
}

/* Tests whether `trident train` would start with the configuration just written: rehearses the suggested command
 * line. */
static tri_status try_config(const tri_settings *asked, const char *path, const char *data) {
    const char *args[] = {"--config", path, "--data-path", data, "--models-dir", asked->models_dir}, *word;
    TRI_OWNED(tri__settings_free) tri_settings settings = {0};
    int n_words;
    TRI_TRY(tri__settings_init(&settings));
    settings.tables = asked->tables;
    if (asked->hub_cache) settings.hub_cache = strdup(asked->hub_cache);
    if (asked->hub_cache && !settings.hub_cache) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(tri__settings_parse(&settings, "train", asked->models_dir ? 6 : 4, args, &word, 1, &n_words));
    int64_t memory = 0;
    TRI_TRY(tri__memory_limit_parse(asked->memory_limit, &memory));
    return tri__run_rehearse(&settings, memory ? (size_t)memory : TRI_INSPECT_MEMORY);
}

static tri_status write_config(const tri_cli *cli, const char *path, const char *data, const tri_settings *settings,
                               const tri_inspection *inspection, const tri_inspect_model *model) {
    TRI_TRY(tri__inspect_write_config(path, data, settings, inspection, model));
    tri_status status = try_config(settings, path, data);
    if (status == TRI_RESOURCE || status == TRI_IO) return status;
    if (!settings->quiet) fprintf(cli->err, "wrote %s\n", path);
    if (status != TRI_OK)
        fprintf(cli->err,
                cli->err_color ? "\033[33mwarning:\033[0m %s does not train as it is: %s\n"
                               : "warning: %s does not train as it is: %s\n", path, tri_error());
    return TRI_OK;
}

static tri_status print_drift(const tri_cli *cli, const tri_json *facts) {
    tri_text_table table = {0};
    tri__text_table_add(&table, "beside training\t\tPSI\tby chance\t");
    tri__json_items(tri__json_get(facts, "drift"), of) {
        double psi = tri__number_in(of, "psi"), by_chance = tri__number_in(of, "by_chance");
        int is_known = tri__json_is_number(tri__json_get(of, "psi"));
        const char *moved = psi - by_chance < 0.1 ? "" : psi - by_chance < 0.25 ? "moved" : "moved far";
        tri__text_table_add(&table, "%s\t%s\t%s", tri__text_brief(tri__text_in(of, "name"), 30, (char[128]){0}, 128),
                            tri__text_in(of, "kind"),
                            is_known ? TRI_TEXT(64, "%.4f\t%.4f\t%s", psi, by_chance, moved) : "\t\ttoo few rows");
    }
    fprintf(cli->out, "\n%lld rows of %s, and those that %s was trained on:\n",
            (long long)tri__whole_in(facts, "rows"), tri__text_in(facts, "table"), tri__text_in(facts, "checkpoint"));
    return tri__print_table(cli, &table);
}

tri_status tri__command_inspect(tri_cli *cli, tri_command_call *call) {
    const tri_settings *settings = &call->settings;
    const options *own = call->own;
    const char *data = call->n_words ? call->words[0] : settings->data_path;
    const tri_output output = {.option = "--write-config", .path = own->write_config, .words = &data, .n_words = 1};
    if (!data) return tri__fail(TRI_USAGE, "inspect needs a table, or a folder of train, valid and test tables");
    TRI_TRY(tri__output_check(settings, &output));
    tri_inspection *inspection = NULL;
    TRI_OWNED(tri__free_at) tri_inspect_model *model = calloc(2, sizeof *model); /* paths are long */
    if (!model) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_status status = open_models(cli, settings, model);
    if (status == TRI_OK) status = inspect(settings, data, model, &inspection);
    if (status == TRI_OK && !settings->quiet) say_form(cli, inspection);
    TRI_OWNED(tri__json_drop) tri_json *facts = NULL, *compared = NULL;
    tri_settings asked = *settings; /* borrows its texts */
    asked.checkpoint = own->model, asked.data_path = (char *)data;
    if (status == TRI_OK && own->model) status = tri__serve_compare(&asked, &call->log, cli->stop, &compared);
    if (status == TRI_OK && settings->json) facts = tri__inspect_json(inspection);
    if (facts && compared) tri__json_set(facts, "model", compared);
    if (status == TRI_OK)
        status = settings->json ? tri__print_json(cli->out, facts) : tri__inspect_print(cli, inspection);
    if (status == TRI_OK && compared && !settings->json) status = print_drift(cli, compared);
    fflush(cli->out); /* what is said now comes after it, in a pipe too */
    if (status == TRI_OK && own->write_config)
        status = write_config(cli, own->write_config, data, settings, inspection, model);
    tri__inspect_free(inspection);
    for (int t = 0; t < 2; t++) tri__tokenizer_free(model[t].tokenizer);
    return status;
}
