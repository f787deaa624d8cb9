/* folds.c - `trident train --folds K` and `--seeds N` (job/several.h): what is refused, and the table at the end. */
#include "cli/launch.h"
#include "job/several.h"

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

static tri_status accept(const tri_cli *cli, const tri_several *s) {
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
    return tri__trainings_accept(cli->lookup, s->folds ? "--folds" : "--seeds");
}

static tri_status print_end(const tri_cli *cli, const tri_several *s) {
    FILE *out = cli->out;
    if (s->settings->json) return tri__print_json(out, s->facts);
    TRI_TRY(tri__members_print(cli, s->facts, s->list, s->title, 1));
    if (s->folds) {
        fprintf(out,
                "Figures are of each fold's best validation; spread is their standard deviation. All are in %s.\n",
                s->path);
        return TRI_OK;
    }
    TRI_OWNED(tri__free_at) char *folder = tri__text_quoted(s->settings->output_dir);
    if (folder)
        fprintf(out, "ensemble    %s (%d members: what eval, predict and serve take, and average)\n", folder, s->n);
    return folder ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

tri_status tri__train_several(tri_cli *cli, const tri_settings *settings, int n, const char *const *args) {
    int folds = settings->folds && !settings->fold;
    TRI_OWNED(tri__several_free) tri_several s = {.settings = settings, .folds = folds};
    s.n = (int)(folds ? settings->folds : settings->seeds);
    TRI_TRY(tri__cli_alone(cli, folds ? "--folds" : "--seeds"));
    TRI_TRY(accept(cli, &s));
    TRI_TRY(tri__several_run(tri__cli_parent(cli), &s, n, args));
    return print_end(cli, &s);
}
