/* simulate.c - `trident simulate`: a training step of all ranks on described hardware, without any of it. */
#include "cli/cli.h"
#include "cli/plan_views.h"
#include "cli/sinks.h"

#include "engine/accept.h"
#include "report/sinks.h"
#include "sim/hardware.h"
#include "study/study.h"

static tri_status simulate(const tri_cli *cli, const tri_settings *settings, const tri_log *log) {
    tri_json *facts = NULL;
    char *program = NULL;
    TRI_TRY(tri__study_plan(settings, log, &facts, &program));
    const tri_json *simulation = tri__json_get(facts, "simulation");
    tri_status status = tri__write_timeline(settings, simulation);
    if (status == TRI_OK && settings->json) status = tri__print_json(cli->out, simulation);
    else if (status == TRI_OK && settings->timeline) status = tri__print_timeline(cli, simulation);
    if (status == TRI_OK && !settings->json) status = tri__print_spent(cli, simulation);
    tri__json_decref(facts);
    return status;
}

tri_status tri__command_simulate(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    tri_sink sink = {0};
    const tri_log log = tri__sink_log(&sink);
    int n_words = 0;
    tri_status status = tri__cli_settings(&settings, "simulate", n, args, NULL, 0, &n_words);
    if (status == TRI_OK && !settings.config) status = tri__fail(TRI_USAGE, "simulate needs --config");
    if (status == TRI_OK && !settings.hardware)
        status = tri__fail(TRI_USAGE, "simulate needs --hardware: one of %s, or a JSON file", tri__hardware_names());
    if (status == TRI_OK) status = tri__engine_accept(&settings);
    if (status == TRI_OK) status = tri__cli_progress(cli, settings.quiet, &sink);
    if (status == TRI_OK) status = simulate(cli, &settings, &log);
    tri__progress_close(&sink);
    tri__settings_free(&settings);
    return status;
}
