/* supervise.c - `trident supervise -- COMMAND...` (job/launcher.h): its options, and which run the command is. */
#include "cli/launch.h"
#include "job/launcher.h"

/* Ranks whose launcher has gone may regroup, for as long as two progress timeouts, before they give a sign again. */
static const double QUIET_LEAST = 5, QUIET_TIMEOUTS = 2.5;

typedef struct supervise_options {
    double restart_delay, start_timeout;
} supervise_options;

#define ROW(kind, field, ...) TRI_OWN_ROW(supervise_options, "supervise", kind, field, __VA_ARGS__)
const tri_option tri__supervise_options[] = {
    ROW(REAL, restart_delay, .value = "1", .min = 0, .max = 86400,
        .help = "seconds before the command is started again; doubled each time, up to 60, until a checkpoint is "
                "saved"),
    ROW(REAL, start_timeout, .value = "600", .min = 0, .max = 1e9,
        .help = "seconds in which the ranks must have met, else the command is ended and started again; 0: any time, "
                "as for a job that waits in a queue"),
    TRI_OWN_END(supervise_options)};

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The run folder: of --output-dir, or of the `trident train ...` inside the command. */
static tri_status find_run(const tri_cli *cli, tri_launcher_job *j, const tri_settings *own) {
    TRI_OWNED(tri__settings_free) tri_settings inner = {0};
    int n = 0, at = 0, n_words = 0;
    tri_status status = TRI_OK;
    j->quiet = QUIET_LEAST + QUIET_TIMEOUTS * own->progress_timeout;
    if (tri__settings_given(own, &own->output_dir)) status = tri__run_open(&j->signs, own->output_dir);
    while (j->argv[n]) n++;
    for (at = 1; at < n; at++)
        if (!strcmp(j->argv[at], "train") && !strncmp(last_part(j->argv[at - 1]), "trident", 7)) break;
    if (at >= n || status != TRI_OK) return status;
    if (tri__cli_settings(cli, &inner, "train", NULL, n - at - 1, (const char *const *)j->argv + at + 1, NULL, 0,
                          &n_words) == TRI_OK) {
        j->saves = inner.save_every || inner.save_steps;
        j->quiet = QUIET_LEAST + QUIET_TIMEOUTS * inner.progress_timeout;
        if (!j->signs.folder[0]) status = tri__run_open(&j->signs, inner.output_dir);
    }
    return status;
}

tri_status tri__command_supervise(tri_cli *cli, tri_command_call *call) {
    TRI_OWNED(tri__settings_free) tri_settings settings = {0};
    int split = 0, n_words = 0;
    const supervise_options *own = call->own;
    tri_launcher_job j = {.argv = (char *const *)call->args};
    while (split < call->n && strcmp(call->args[split], "--") != 0) split++;
    tri_status status = tri__cli_settings(cli, &settings, "supervise", call->own, split, call->args, NULL, 0, &n_words);
    if (status == TRI_OK && split + 1 >= call->n)
        status = tri__fail(
            TRI_USAGE, "supervise what? e.g. `trident supervise --max-restarts 3 -- mpirun -np 4 trident train ...`");
    j.argv += split + 1;
    if (status == TRI_OK) status = find_run(cli, &j, &settings);
    if (status == TRI_OK) {
        tri__signals_take(cli, TRI_SIGNAL_PASSED_ON);
        j.restart_delay = own->restart_delay, j.start_timeout = own->start_timeout;
        j.parent = tri__cli_parent(cli);
        status = tri__launcher_run(&j, settings.max_restarts);
    }
    tri__run_close(&j.signs);
    return status;
}
