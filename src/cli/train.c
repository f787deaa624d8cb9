/* train.c - `trident train`: settings from the command line and the configuration file, sinks, the run; at the end,
 * where the model is and how to use it. */
#include "cli/launch.h"
#include "checkpoint/folders.h"
#include "report/text/json_numbers.h"
#include "score/best.h"
#include "data/dataset/data_files.h"
#include "job/several.h"
#include "settings/forms.h"
#include "study/study.h"

#include <unistd.h>

/* The best checkpoint of a folder; 0 when there is none. */
static int find_best(const char *folder, char path[static TRI_PATH_MAX]) {
    int64_t step;
    return tri__checkpoint_best(folder, &step) == TRI_OK && step >= 0 &&
           tri__checkpoint_name(path, folder, step, "") == TRI_OK && tri__is_folder(path);
}

/* Prints where the model is, and which checkpoint the run folder resolves to. */
static void print_model(FILE *out, const char *folder, tri_best_by by, const char *last) {
    static const char taken[] = "what eval, predict and export take";
    char best[TRI_PATH_MAX];
    if (!find_best(folder, best)) {
        fprintf(out, "checkpoint  %s (last: %s)\n", last, taken);
    } else if (strcmp(best, last) == 0) {
        fprintf(out, "checkpoint  %s (last and best: %s)\n", last, taken);
    } else {
        fprintf(out, "checkpoint  %s (last)\nbest        %s (by validation %s: %s)\n", last, best,
                tri__best_name(by), taken);
    }
}

/* Prints the temperature and the threshold of the checkpoint that the run folder resolves to. */
static void print_decision(FILE *out, const tri_json *summary) {
    const tri_json *best = tri__json_get(tri__json_get(tri__json_get(summary, "best"), "figures"), "decision"),
                   *d = best ? best : tri__json_get(summary, "decision"), *losses = tri__json_get(d, "log_loss");
    const char *fit = tri__text_in(d, "fit"), *asked = tri__text_in(d, "chosen_for");
    if (!fit) return;
    fprintf(out, "decision    temperature %.4g", tri__real_in(d, "temperature"));
    if (!strcmp(fit, "none")) fputs(" (--calibration none)", out);
    else
        fprintf(out, " (%svalidation log loss %.4f to %.4f)", !strcmp(fit, "bounded")     ? "the end of its range; "
                : !strcmp(fit, "separated") ? "every validation row is right, fitted with smoothed labels; "
                                            : "",
                tri__json_number_value(tri__json_at(losses, 0)), tri__json_number_value(tri__json_at(losses, 1)));
    if (asked && tri__json_is_number(tri__json_get(d, "threshold")))
        fprintf(out, ", %s from a probability of %.4g (%s%s: precision %.4f, recall %.4f, F1 %.4f)",
                tri__text_in(d, "positive"), tri__real_in(d, "threshold"), asked,
                tri__json_is_true(tri__json_get(d, "reached")) ? "" : ", not reached", tri__real_in(d, "precision"),
                tri__real_in(d, "recall"), tri__real_in(d, "f1"));
    else if (asked) fprintf(out, ", no threshold (%s: no validation row is of the positive label)", asked);
    fputc('\n', out);
}

/* Which rows of a table that the run divided were not trained on, as an option; "": it divided none. */
static const char *held_out_part(const tri_settings *settings) {
    double share[3];
    if (settings->folds) return " --part valid";
    if (!settings->split || tri__split_parse(settings->split, share) != TRI_OK) return "";
    return share[2] > 0 ? " --part test" : " --part valid";
}

/* Suggests rows other than those of the training. model: a run folder or a checkpoint. */
static tri_status print_hint(FILE *out, const tri_settings *settings, const char *model) {
    tri_data_files files;
    const char *part = held_out_part(settings);
    int held_out = *part || (tri__data_files(settings->data_path, &files) == TRI_OK && !files.one &&
                             (files.test[0] || files.valid[0]));
    TRI_OWNED(tri__free_at) char *folder = tri__text_quoted(model), *data = tri__text_quoted(settings->data_path);
    if (folder && data)
        fprintf(out, "evaluate    trident eval --checkpoint %s --data-path %s%s\n", folder,
                held_out ? data : "TABLE (of rows that were not trained on)", part);
    return folder && data ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

static tri_status print_end(FILE *out, const tri_settings *settings, const tri_outcome *outcome) {
    if (settings->json) return tri__print_json(out, outcome->summary);
    if (!outcome->checkpoint) {
        fprintf(out, "no checkpoint: --save-every is 0; metrics are in %s\n", settings->output_dir);
        return TRI_OK;
    }
    if (outcome->unchanged) fprintf(out, "this run had finished: %s is left as it was\n", settings->output_dir);
    int elsewhere = !tri__text_begins(outcome->checkpoint,
                                      settings->output_dir); /* --resume DIR, and no step was left to take */
    if (elsewhere) fprintf(out, "checkpoint  %s (nothing was left to train)\n", outcome->checkpoint);
    else print_model(out, settings->output_dir, (tri_best_by)settings->best_by, outcome->checkpoint);
    print_decision(out, outcome->summary);
    return print_hint(out, settings, elsewhere ? outcome->checkpoint : settings->output_dir);
}

/* The settings for a world: as asked, or with the mesh of one that was regrouped. */
static tri_settings settings_of(const tri_settings *asked, const tri_world *world) {
    const tri_control *control = world ? world->segment.control : NULL;
    if (!control || !control->stages) return *asked;
    return tri__elastic_settings(asked, control->stages, control->replicas);
}

static tri_status set_resume(tri_settings *settings, const char *value) {
    return tri__option_set_text(tri__option_find(tri__run_options, "resume"), settings, "--resume", value);
}

/* When the world failed; now, if it did not. */
static double failed_at(const tri_world *world) {
    tri_failure failure;
    return world->failed != TRI_OK && tri__control_failure(world->segment.control, &failure) ? failure.time
                                                                                             : tri__clock();
}

/* In one world after another, as long as ranks die or join. threads: of a rank, as asked. *speaks: whether this rank
 * was the first of the last one. */
static tri_status train_on(tri_cli *cli, tri_settings *asked, int64_t threads, const tri_launch *launch,
                           tri_world **world, tri_outcome *outcome, int *speaks) {
    tri_status status;
    int again;
    do {
        const tri_settings settings = settings_of(asked, *world);
        again = 0;
        status = tri__train_with_sinks(cli, &settings, *world, outcome);
        *speaks = !*world || tri_world_rank(*world) == 0;
        if (!tri__goes_on(asked, *world) && !(*world && (*world)->outlives)) continue;
        double since = failed_at(*world);
        status = tri__rank_regroup(tri__cli_parent(cli), asked, launch, status, world, &again);
        if (again) {
            (*world)->since = since;
            asked->threads = threads;
            tri__launch_threads(cli, asked, *world);
            /* from what it has committed, whatever the command line says about resuming */
            if (atomic_load(&(*world)->segment.control->committed)) TRI_TRY(set_resume(asked, "auto"));
        }
    } while (again);
    return status;
}

/* As one rank of several, or alone. */
static tri_status train_here(tri_cli *cli, tri_settings *settings, const tri_launch *launch) {
    tri_world *world;
    tri_outcome outcome = {0};
    int64_t threads = settings->threads; /* as asked; 0: as many as each world allows */
    TRI_TRY(tri__launch_join(cli, settings, launch, &world));
    int alone = launch->launcher == TRI_LAUNCHER_NONE;
    if (!world && !alone) return TRI_OK; /* it was started to join, and the run ended before */
    int speaks;
    tri_status status = train_on(cli, settings, threads, launch, &world, &outcome, &speaks);
    if (status == TRI_OK && speaks) status = print_end(cli->out, settings, &outcome);
    tri__outcome_free(&outcome);
    return tri__rank_leave(tri__cli_parent(cli), launch, world, status);
}

/* Refuses a folder that another run is writing. Rank 0 locks it later; nothing is made here. */
static tri_status check_free(tri_cli *cli, const char *folder) {
    int there, lock;
    TRI_PATH(path, folder, ".lock");
    TRI_TRY(tri__file_there(path, &there));
    if (!there) return TRI_OK;
    TRI_TRY(tri__folder_lock(folder, cli->stop, &lock));
    close(lock);
    return TRI_OK;
}

/* Rank 0 writes the report; after a failure so does the launcher, since rank 0 may be dead, and only the launcher knows
 * the whole cause. */
static tri_status start_ranks(tri_cli *cli, const tri_settings *settings) {
    TRI_TRY(check_free(cli, settings->output_dir));
    TRI_TRY(tri__study_prepare(settings, cli->stop));
    tri_status status = tri__launch_start(cli, settings, settings->output_dir, 0);
    int failed = status != TRI_OK && status != TRI_STOPPED && status != TRI_USAGE && status != TRI_BUSY;
    if (failed && !settings->no_report) tri__report_write(cli, settings->output_dir);
    return status;
}

/* Settles the settings, and refuses what cannot be run. A restarted rank resumes from the last checkpoint that its run
 * committed, whatever the command line says about resuming. */
static tri_status prepare(tri_cli *cli, tri_settings *settings, tri_launch *launch) {
    if (!settings->data_path) return tri__fail(TRI_USAGE, "train needs --data-path");
    TRI_TRY(tri__several_refuse(settings));
    TRI_TRY(tri__cli_hardware(settings, 0));
    if (settings->log_to.n)
        return tri__fail(TRI_USAGE, "--log-to %s: Trident writes no files of other tools; metrics.jsonl and "
                         "TensorBoard's files, which are always in the run folder, have all figures: log them "
                         "through the tool's own client", settings->log_to.at[0]);
    TRI_TRY(tri__launch_resolve(cli, settings, launch));
    const char *again = launch->launcher == TRI_LAUNCHER_OWN ? cli->lookup(TRI_RESUME_VARIABLE) : NULL;
    if (again) TRI_TRY(set_resume(settings, again));
    TRI_TRY(tri__cli_layout(cli, settings, launch, NULL));
    TRI_TRY(tri__model_config_check(&settings->model));
    return tri__elastic_check(cli, settings, launch);
}

tri_status tri__command_train(tri_cli *cli, tri_command_call *call) {
    tri_settings *settings = &call->settings;
    tri_launch launch;
    tri_status status;
    if (settings->data_path && tri__trains_several(settings)) {
        status = tri__train_several(cli, call);
        return status == TRI_USAGE ? tri__rank_refuse(tri__cli_parent(cli), status) : status;
    }
    status = prepare(cli, settings, &launch);
    if (status != TRI_OK) status = tri__rank_refuse(tri__cli_parent(cli), status);
    else if (tri__launch_starts(settings, &launch)) status = start_ranks(cli, settings);
    else status = train_here(cli, settings, &launch);
    if (!cli->caller) tri__signals_end(0, 0);
    return status;
}
