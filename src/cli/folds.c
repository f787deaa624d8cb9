/* folds.c - `trident train --folds K`, `--seeds N` and `--stack` (job/several.h): what is refused, and the table at the
 * end. */
#include "cli/launch.h"
#include "data/dataset/data_files.h"
#include "job/several.h"
#include "report/text/text_table.h"
#include "serve/serve.h"
#include "stack/matrix.h"

/* One folder, one meaning: eval and predict take its ensemble, or its run. */
static tri_status refuse_run(const tri_settings *set, const char *option) {
    int there;
    TRI_PATH(path, set->output_dir, "metrics.jsonl");
    TRI_TRY(tri__file_there(path, &there));
    if (!there) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s: %s is the folder of one run: give another --output-dir", option, set->output_dir);
}

tri_status tri__several_refuse(const tri_settings *set) {
    static const char *const of[][2] = {{"ensemble.json", "an ensemble (--seeds)"},
                                        {"fold-1", "a cross-validation (--folds)"}};
    for (int i = 0; i < 2; i++) {
        TRI_PATH(path, set->output_dir, of[i][0]);
        tri_kind kind;
        TRI_TRY(tri__path_kind(path, &kind));
        if (kind != TRI_KIND_NONE)
            return tri__fail(TRI_USAGE, "%s is the folder of %s: give another --output-dir for one run",
                             set->output_dir, of[i][1]);
    }
    return TRI_OK;
}

static tri_status accept(const tri_cli *cli, const tri_several *s) {
    const tri_settings *set = s->settings;
    if (s->folds && set->seeds > 1)
        return tri__fail(TRI_USAGE, "--folds %lld and --seeds %lld: give one of them; an ensemble of one fold is "
                         "--folds %lld --fold 1 --seeds %lld", (long long)set->folds, (long long)set->seeds,
                         (long long)set->folds, (long long)set->seeds);
    if (!s->folds && set->seed + set->seeds - 1 > UINT32_MAX)
        return tri__fail(TRI_USAGE, "--seeds %lld from --seed %lld on: seeds end at %lld", (long long)set->seeds,
                         (long long)set->seed, (long long)UINT32_MAX);
    if (!s->folds && !set->save_every && !set->save_steps)
        return tri__fail(TRI_USAGE, "--seeds %lld with --save-every 0: an ensemble is its members' checkpoints, and "
                         "none would be saved: leave one of them out", (long long)set->seeds);
    TRI_TRY(refuse_run(set, s->folds ? "--folds" : "--seeds"));
    return tri__trainings_accept(cli->lookup, s->folds ? "--folds" : "--seeds");
}

/* ---- --stack ---- */

enum { STACK_FOLDS = 5 }; /* where --folds does not say how many */

/* TRI_USAGE for what a head is not trained for, or could not be chosen by. */
static tri_status accept_stack(const tri_cli *cli, const tri_settings *set, const tri_data_files *files) {
    const struct {
        int is_so;
        const char *why;
    } rows[] = {
        {set->fold > 0, "--fold: all folds are trained, since every row needs an output of a model that was not "
                        "trained on it"},
        {set->seeds > 1, "--seeds: a stacked head is for one model; give one of them"},
        {set->folds == 1, "--folds 1: at least 2 are needed"},
        {set->model.task == TRI_TASK_QUANTILES, "task quantiles: heads predict classes or one number"},
        {set->model.task == TRI_TASK_LABELS, "task multilabel: heads predict classes or one number"},
        {set->loss == TRI_LOSS_POISSON, "--loss poisson: a head's numbers may be negative"},
        {set->model.task == TRI_TASK_CLASSES && set->model.num_classes > TRI_STACK_CLASSES,
         "num_classes: heads predict at most 1000 classes"},
        {!set->save_every && !set->save_steps, "--save-every 0: the head is kept in a checkpoint, and none is saved"},
        {set->until_epoch > 0, "--until-epoch: heads are trained after whole runs"},
        {strcmp(set->resume, "auto") && strcmp(set->resume, "never"), "--resume FOLDER: each run resumes from its own"},
        {!set->split && (files->one || !files->valid[0]),
         "a head is chosen on validation rows: give a folder that has a valid table beside train, or --split"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].is_so) return tri__fail(TRI_USAGE, "--stack with %s", rows[i].why);
    return tri__trainings_accept(cli->lookup, "--stack");
}

static tri_status print_stack(const tri_cli *cli, const tri_settings *set, const tri_json *facts) {
    const char *chosen = tri__text_in(facts, "chosen");
    tri_text_table table = {0};
    if (set->json) return tri__print_json(cli->out, facts);
    tri__text_table_add(&table, "head\tvalidation %s", tri__text_in(facts, "by"));
    for (int i = 0; i < TRI_STACK_HEADS; i++) {
        const char *name = tri__stack_heads[i];
        const tri_json *figure = tri__json_get(facts, name);
        if (tri__json_is_number(figure) && isfinite(tri__json_number_value(figure)))
            tri__text_table_add(&table, "%s\t%.6g%s", i ? name : "none", tri__json_number_value(figure),
                                strcmp(name, chosen) ? "" : "\t(taken)");
    }
    TRI_TRY(tri__print_table(cli, &table));
    TRI_OWNED(tri__free_at) char *folder = tri__text_quoted(set->output_dir);
    if (folder) fprintf(cli->out, "model       %s (what eval, predict, serve and export take)\n", folder);
    return folder ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* The runs, then the heads. stack/summary.json says which was taken. */
static tri_status train_stack(tri_cli *cli, const tri_command_call *call) {
    const tri_settings *set = &call->settings;
    tri_data_files files;
    int folds = set->folds ? (int)set->folds : STACK_FOLDS;
    TRI_OWNED(tri__several_free) tri_several s = {.settings = set, .n = folds + 1, .folds = 1, .table = files.train};
    TRI_OWNED(tri__json_drop) tri_json *facts = NULL;
    tri_log log = call->log;
    log.stop = cli->stop;
    TRI_TRY(tri__data_files(set->data_path, &files));
    TRI_TRY(accept_stack(cli, set, &files));
    TRI_PATH(folder, set->output_dir, "stack");
    TRI_PATH(path, folder, "summary.json");
    TRI_TRY(tri__several_run(tri__cli_parent(cli), &s, call->n, call->args));
    TRI_TRY(tri__serve_stack(set, folds, folder, &log, &facts));
    TRI_TRY(tri__json_save(path, facts));
    return print_stack(cli, set, facts);
}

static tri_status print_end(const tri_cli *cli, const tri_several *s) {
    FILE *out = cli->out;
    if (s->settings->json) return tri__print_json(out, s->facts);
    TRI_TRY(tri__members_print(cli, s->facts, s->list, s->title, 1));
    if (s->folds) {
        fprintf(out, "Figures are of each fold's best validation; spread is their standard deviation. All are in %s.\n",
                s->path);
        return TRI_OK;
    }
    TRI_OWNED(tri__free_at) char *folder = tri__text_quoted(s->settings->output_dir);
    if (folder)
        fprintf(out, "ensemble    %s (%d members: what eval, predict and serve take, and average)\n", folder, s->n);
    return folder ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

tri_status tri__train_several(tri_cli *cli, const tri_command_call *call) {
    const tri_settings *settings = &call->settings;
    int folds = settings->folds && !settings->fold;
    TRI_OWNED(tri__several_free) tri_several s = {.settings = settings, .folds = folds,
                                                  .n = (int)(folds ? settings->folds : settings->seeds)};
    TRI_TRY(tri__cli_alone(cli, settings->stack ? "--stack" : folds ? "--folds" : "--seeds"));
    if (settings->stack) return train_stack(cli, call);
    TRI_TRY(accept(cli, &s));
    TRI_TRY(tri__several_run(tri__cli_parent(cli), &s, call->n, call->args));
    return print_end(cli, &s);
}
