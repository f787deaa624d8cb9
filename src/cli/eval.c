/* eval.c - `trident eval`: scores of a checkpoint, as a table or, with --json, one object. */
#include "cli/cli.h"
#include "cli/sinks.h"

#include "train/metrics.h"
#include "train/run.h"

static void print_scores(FILE *out, const tri_scores *s) {
    fprintf(out, "rows      %lld\nloss      %.6f\naccuracy  %.4f\nf1 macro  %.4f\npr_auc    %.4f\nroc_auc   %.4f\nlog_loss  %.6f\n",
            (long long)s->rows, s->loss, s->accuracy, s->f1_macro, s->pr_auc, s->roc_auc, s->log_loss);
    fprintf(out, "\nclass       rows  precision   recall       f1\n");
    for (int c = 0; c < s->n_classes; c++)
        fprintf(out, "%-6d %9lld     %.4f   %.4f   %.4f\n", c, (long long)s->support[c], s->precision[c], s->recall[c], s->f1[c]);
}

tri_status tri__command_eval(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    tri_scores scores = {0};
    int n_words = 0;
    tri_status status = tri__cli_settings(&settings, "eval", n, args, NULL, 0, &n_words);
    if (status != TRI_OK) goto done;
    if (!settings.checkpoint || !settings.data_path) {
        status = tri__fail(TRI_USAGE, "eval needs --checkpoint and --data-path");
        goto done;
    }
    tri_words say = tri__words(cli, &settings);
    tri_sink sink = {tri__words_emit, &say};
    status = tri__run_eval(&settings, &sink, &scores);
    if (status != TRI_OK) goto done;
    if (settings.json) {
        json_t *object = tri__scores_json(&scores);
        status = tri__print_json(cli->out, object);
        json_decref(object);
    } else {
        print_scores(cli->out, &scores);
    }
done:
    tri__scores_free(&scores);
    tri__settings_free(&settings);
    return status;
}
