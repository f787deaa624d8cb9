/* folds.c - `trident train --folds K` and `--seeds N`: a training for each fold or seed, one after the other, and
 * their figures side by side. A training that had finished says so and is left as it was; one that was interrupted goes
 * on. */
#include "cli/run_spread.h"
#include "cli/signals.h"
#include "cli/trainings.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct several {
    tri_cli *cli;
    const tri_settings *settings;
    int n_args;
    const char *const *args;
    int n, folds;            /* trainings; folds: 1, or 0: seeds */
    tri_training *training;  /* [n] */
    tri_json *facts;         /* of summary.json or ensemble.json */
} several;

int tri__trains_several(const tri_settings *settings) {
    return (settings->folds && !settings->fold) || settings->seeds > 1;
}

/* One folder, one meaning: eval and predict take its ensemble, or its run. */
static tri_status refuse_run(const tri_settings *set, const char *option) {
    char path[TRI_PATH_MAX];
    int there;
    TRI_TRY(tri__path_join(path, set->output_dir, "metrics.jsonl"));
    TRI_TRY(tri__file_there(path, &there));
    if (!there) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s: %s is the folder of one run: give another --output-dir", option, set->output_dir);
}

tri_status tri__several_refuse(const tri_settings *set) {
    static const char *const of[][2] = {{"ensemble.json", "an ensemble (--seeds)"},
                                        {"fold-1", "a cross-validation (--folds)"}};
    for (int i = 0; i < 2; i++) {
        char path[TRI_PATH_MAX];
        TRI_TRY(tri__path_join(path, set->output_dir, of[i][0]));
        tri_kind kind;
        TRI_TRY(tri__path_kind(path, &kind));
        if (kind != TRI_KIND_NONE)
            return tri__fail(TRI_USAGE, "%s is the folder of %s: give another --output-dir for one run",
                             set->output_dir, of[i][1]);
    }
    return TRI_OK;
}

static tri_status accept(const several *s) {
    const tri_settings *set = s->settings;
    if (s->folds && set->seeds > 1)
        return tri__fail(TRI_USAGE,
                         "--folds %lld and --seeds %lld: give one of them; an ensemble of one fold is --folds %lld "
                         "--fold 1 --seeds %lld",
                         (long long)set->folds, (long long)set->seeds, (long long)set->folds, (long long)set->seeds);
    if (!s->folds && set->seed + set->seeds - 1 > UINT32_MAX)
        return tri__fail(TRI_USAGE, "--seeds %lld from --seed %lld on: seeds end at %lld", (long long)set->seeds,
                         (long long)set->seed, (long long)UINT32_MAX);
    if (!s->folds && !set->save_every && !set->save_steps)
        return tri__fail(TRI_USAGE,
                         "--seeds %lld with --save-every 0: an ensemble is its members' checkpoints, and none would be "
                         "saved: leave one of them out",
                         (long long)set->seeds);
    TRI_TRY(refuse_run(set, s->folds ? "--folds" : "--seeds"));
    return tri__trainings_accept(s->cli, s->folds ? "--folds" : "--seeds");
}

/* The number of training i: its fold, or its seed. */
static int64_t number_of(const several *s, int i) { return s->folds ? i + 1 : s->settings->seed + i; }

static tri_status prepare(several *s, int i) {
    tri_training *t = &s->training[i];
    const tri_settings *set = s->settings;
    char number[24], name[48], cache[TRI_PATH_MAX];
    snprintf(number, sizeof number, "%lld", (long long)number_of(s, i));
    snprintf(name, sizeof name, s->folds ? "fold-%s" : "seed-%s", number);
    snprintf(t->name, sizeof t->name, s->folds ? "fold %s of %d" : "seed %s", number, s->n);
    TRI_TRY(tri__path_join(t->folder, set->output_dir, name));
    TRI_TRY(tri__path_join(cache, set->output_dir, "cache")); /* what is the same for all is made once */
    const tri_change changes[] = {{s->folds ? "fold" : "seed", number},
                                  {"output_dir", t->folder},
                                  {"cache_dir", set->cache_dir ? set->cache_dir : cache},
                                  {"seeds", "1"},
                                  {"json", "false"}};
    t->silent = set->quiet || set->json;
    t->argv = tri__training_argv(s->cli, s->n_args, s->args, changes, 5);
    return t->argv ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

static tri_status run_all(several *s) {
    for (int i = 0; i < s->n; i++) {
        tri_training *t = &s->training[i];
        TRI_TRY(tri__stop_check_kept(s->cli->stop, "%s was next", t->name));
        if (!s->settings->quiet) fprintf(s->cli->err, "---- %s, in %s\n", t->name, t->folder);
        TRI_TRY(tri__training_begin(s->cli, t));
        (void)tri__training_wait(s->cli, t, 1);
        TRI_TRY(tri__training_status(t));
    }
    return TRI_OK;
}

/* ---- figures ---- */

static const char *list_of(const several *s) { return s->folds ? "folds" : "members"; }
static const char *title_of(const several *s) { return s->folds ? "fold" : "seed"; }

/* {folds or members: [{fold or seed, folder, figures}], mean, spread}: names of figures are those of an epoch's event
 * in metrics.jsonl. */
static tri_status collect(several *s) {
    tri_json *runs = tri__json_array();
    tri_status status = runs ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
    for (int i = 0; i < s->n && status == TRI_OK; i++) {
        tri_json *figures, *run;
        status = tri__training_figures(&s->training[i], &figures);
        if (status != TRI_OK) break;
        run = tri__json_pack("{s:I, s:s}", title_of(s), (tri_json_int)number_of(s, i), "folder",
                             strrchr(s->training[i].folder, '/') + 1);
        if (figures) tri__json_set_new(run, "figures", figures);
        tri__json_append_new(runs, run);
    }
    s->facts = tri__members_json(list_of(s), runs);
    tri__json_set_new(s->facts, "format", tri__json_string(s->folds ? "trident-folds" : "trident-ensemble"));
    tri__json_set_new(s->facts, "version", tri__json_integer(1));
    if (status == TRI_OK && !tri__json_is_whole(s->facts)) status = tri__fail(TRI_RESOURCE, "out of memory");
    return status;
}

static tri_status print_end(const several *s, const char *path) {
    FILE *out = s->cli->out;
    if (s->settings->json) return tri__print_json(out, s->facts);
    TRI_TRY(tri__members_print(s->cli, s->facts, list_of(s), title_of(s), 1));
    if (s->folds) {
        fprintf(out,
                "Figures are of each fold's best validation; spread is their standard deviation. All are in %s.\n",
                path);
        return TRI_OK;
    }
    char *folder = tri__text_quoted(s->settings->output_dir);
    if (folder)
        fprintf(out, "ensemble    %s (%d members: what eval, predict and serve take, and average)\n", folder, s->n);
    tri_status status = folder ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
    free(folder);
    return status;
}

static tri_status train(several *s) {
    char path[TRI_PATH_MAX];
    TRI_TRY(accept(s));
    s->training = calloc((size_t)s->n, sizeof *s->training);
    if (!s->training) return tri__fail(TRI_RESOURCE, "out of memory");
    for (int i = 0; i < s->n; i++) TRI_TRY(prepare(s, i));
    tri__signals_say(TRI_SIGNAL_PASSED_ON);
    TRI_TRY(run_all(s));
    TRI_TRY(collect(s));
    TRI_TRY(tri__path_join(path, s->settings->output_dir, s->folds ? "summary.json" : "ensemble.json"));
    TRI_TRY(tri__json_save(path, s->facts));
    return print_end(s, path);
}

tri_status tri__train_several(tri_cli *cli, const tri_settings *settings, int n, const char *const *args) {
    int folds = settings->folds && !settings->fold;
    several s = {.cli = cli, .settings = settings, .n_args = n, .args = args, .folds = folds,
                 .n = (int)(folds ? settings->folds : settings->seeds)};
    tri_status status = train(&s);
    for (int i = 0; s.training && i < s.n; i++) free(s.training[i].argv);
    free(s.training);
    tri__json_decref(s.facts);
    return status;
}
