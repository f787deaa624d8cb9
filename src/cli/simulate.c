/* simulate.c - `trident simulate`: simulates a training step of all ranks on described hardware, from a plan or from
 * printed programs. */
#include "cli/cli.h"

#include "engine/accept_settings.h"
#include "study/study.h"

static tri_status print(const tri_cli *cli, const tri_settings *settings, const tri_json *simulation) {
    TRI_TRY(tri__write_timeline(settings, simulation));
    if (settings->json) return tri__print_json(cli->out, simulation);
    if (settings->timeline) TRI_TRY(tri__print_timeline(cli, simulation));
    return tri__print_spent(cli, simulation);
}

static tri_status simulate_plan(const tri_cli *cli, const tri_settings *settings, const tri_log *log) {
    TRI_OWNED(tri__json_drop) tri_json *facts = NULL;
    char *program = NULL;
    TRI_TRY(tri__engine_accept(settings));
    TRI_TRY(tri__study_plan(settings, log, &facts, &program));
    return print(cli, settings, tri__json_get(facts, "simulation"));
}

/* Files are the value of --program and bare words: a shell expands `--program rank*.txt` to both. */
static tri_status simulate_files(const tri_cli *cli, const tri_settings *settings, const char *const *words,
                                 int n_words) {
    TRI_OWNED(tri__json_drop) tri_json *simulation = NULL;
    int n = 0;
    TRI_OWNED(tri__free_at) const char **paths = calloc((size_t)(settings->program.n + n_words), sizeof *paths);
    if (!paths) return tri__fail(TRI_RESOURCE, "out of memory");
    for (int i = 0; i < settings->program.n; i++) paths[n++] = settings->program.at[i];
    for (int i = 0; i < n_words; i++) paths[n++] = words[i];
    TRI_TRY(tri__study_simulate(settings, paths, n, &simulation));
    return print(cli, settings, simulation);
}

tri_status tri__command_simulate(tri_cli *cli, tri_command_call *call) {
    const tri_settings *settings = &call->settings;
    TRI_TRY(tri__cli_hardware(&call->settings, 1));
    TRI_TRY(tri__pictures_check(settings, call->words, call->n_words));
    if (settings->program.n && settings->config)
        return tri__fail(TRI_USAGE, "simulate takes --config, to plan a step, or --program, not both");
    if (settings->program.n) return simulate_files(cli, settings, call->words, call->n_words);
    if (call->n_words)
        return tri__fail(TRI_USAGE, "simulate: \"%s\" belongs to no option; files of programs follow --program",
                         call->words[0]);
    if (!settings->config) return tri__fail(TRI_USAGE, "simulate needs --config, or printed programs with --program");
    return simulate_plan(cli, settings, &call->log);
}
