/* output.c - what a command may write. An input that is overwritten is lost, so every output is compared with all
 * inputs by device and inode, before anything is computed. */
#include "cli/cli.h"

#include "data/table/parts.h"
#include "engine/model_folder.h"
#include "report/text/json_numbers.h"

#include <errno.h>
#include <unistd.h>

/* Options of any command that name files or folders to read, as in their rows. */
static const char *const inputs[] = {"config",   "data_path",    "column_info",         "checkpoint", "tokenizer",
                                     "hardware", "program",      "primary_tokenizer",   "secondary_tokenizer",
                                     "api_key_file", "tls_cert", "tls_key", "space", "lengths"};

static tri_status is_input(const tri_output *output, const char *option, const char *input) {
    char flag[TRI_OPTION_FLAG] = "";
    return tri__fail(TRI_USAGE, "%s %s: this file is an input (%s%s%s) and would be overwritten; name another file",
                     output->option, output->path, option ? tri__option_flag(option, flag) : "", option ? " " : "",
                     input);
}

/* A table, in parts or not, a file, a folder, or the name of a model. */
static tri_status check_input(const tri_settings *settings, const tri_output *output, const char *option,
                              const char *input) {
    char folder[TRI_PATH_MAX];
    TRI_OWNED(tri__names_free) tri_names parts = {0};
    int found = tri__path_holds(input, output->path);
    if (!found && tri__parts_named(input) && tri__parts_list(input, &parts) == TRI_OK)
        for (int i = 0; i < parts.n && !found; i++) found = tri__file_same(parts.name[i], output->path);
    int is_model = option && strstr(option, "tokenizer") && !tri__is_folder(input);
    if (!found && is_model && tri__model_folder(settings, input, option, folder) == TRI_OK)
        found = tri__path_holds(folder, output->path);
    return found ? is_input(output, option, input) : TRI_OK;
}

static tri_status check_option(const tri_settings *settings, const tri_output *output, const tri_option_set *set,
                               const char *name) {
    const tri_option *row = set->rows ? tri__option_find(set->rows, name) : NULL;
    TRI_OWNED(tri__json_drop) tri_json *value = row ? tri__option_json(row, set->into) : NULL;
    const char *text = tri__json_string_value(value);
    if (text) TRI_TRY(check_input(settings, output, row->name, text));
    tri__json_items(value, item) {
        TRI_TRY(check_input(settings, output, row->name, tri__json_string_value(item)));
    }
    return TRI_OK;
}

static tri_status check_inputs(const tri_settings *settings, const tri_output *output) {
    const tri_option_set sets[] = {{tri__run_options, (void *)settings},
                                   {tri__model_options, (void *)&settings->model},
                                   settings->own};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        for (int s = 0; s < 3; s++) TRI_TRY(check_option(settings, output, &sets[s], inputs[i]));
    if (settings->calibrated) TRI_TRY(check_input(settings, output, NULL, settings->calibrated));
    for (int i = 0; i < output->n_words; i++) {
        TRI_TRY(check_input(settings, output, NULL, output->words[i]));
        const char *named = strchr(output->words[i], '='); /* NAME=RUN of serve */
        if (named) TRI_TRY(check_input(settings, output, NULL, named + 1));
    }
    return TRI_OK;
}

/* The folder of a new file must exist and be writable: predictions of an hour are not computed for nothing. */
static tri_status check_folder(const tri_output *output) {
    char folder[TRI_PATH_MAX];
    TRI_TRY(tri__path_parent(output->path, folder));
    if (!tri__is_folder(folder))
        return tri__fail(TRI_IO, "%s %s: there is no folder %s; make it first", output->option, output->path, folder);
    if (!access(folder, W_OK | X_OK)) return TRI_OK;
    return tri__fail(TRI_IO, "%s %s: cannot write to the folder %s: %s", output->option, output->path, folder,
                     strerror(errno));
}

int tri__output_replaces(const tri_settings *settings, const tri_output *output) {
    return settings->force || (output->own && tri__file_same(output->own, output->path));
}

tri_status tri__output_check(const tri_settings *settings, const tri_output *output) {
    tri_kind kind;
    if (!output->path) return TRI_OK;
    TRI_TRY(tri__path_kind(output->path, &kind));
    if (kind == TRI_KIND_NONE) return check_folder(output);
    if (kind == TRI_KIND_FOLDER)
        return tri__fail(TRI_IO, "%s %s: this is a folder; name a file", output->option, output->path);
    if (kind == TRI_KIND_OTHER || (output->own && tri__file_same(output->own, output->path))) return TRI_OK;
    TRI_TRY(check_inputs(settings, output));
    if (settings->force || output->appends || tri__path_is_open_file(output->path)) return TRI_OK;
    return tri__fail(TRI_BUSY, "%s %s: exists already; name another file, or give --force to replace it",
                     output->option, output->path);
}

tri_status tri__output_write(const tri_cli *cli, const tri_settings *settings, const char *what,
                             tri_status (*put)(void *context, FILE *out), void *context) {
    TRI_OWNED(tri__free_at) char *data = NULL;
    size_t size = 0;
    if (!settings->output) return put(context, cli->out);
    FILE *out = open_memstream(&data, &size);
    if (!out) return tri__fail(TRI_RESOURCE, "out of memory for %s", what);
    tri_status status = put(context, out);
    if (!tri__memstream_close(out, &data) && status == TRI_OK)
        status = tri__fail(TRI_RESOURCE, "out of memory for %s", what);
    if (status == TRI_OK) status = tri__file_deliver(settings->output, data, size, settings->force);
    return status;
}
