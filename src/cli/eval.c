/* eval.c - `trident eval`: scores of a checkpoint, as a table or, with --json, one object. */
#include "cli/cli.h"
#include "cli/sinks.h"

#include "report/sinks.h"
#include "report/table.h"
#include "train/metrics.h"
#include "train/run.h"

static tri_status print_scores(const tri_cli *cli, const tri_scores *s) {
    tri_text_table whole = {0}, classes = {0};
    tri__text_table_add(&whole, "rows\tloss\taccuracy\tF1 macro\tPR AUC\tROC AUC\tlog loss");
    tri__text_table_add(&whole, "%lld\t%.6f\t%.4f\t%.4f\t%.4f\t%.4f\t%.6f", (long long)s->rows, s->loss, s->accuracy,
                   s->f1_macro, s->pr_auc, s->roc_auc, s->log_loss);
    tri__text_table_add(&classes, "class\trows\tprecision\trecall\tF1");
    for (int c = 0; c < s->n_classes; c++)
        tri__text_table_add(&classes, "%d\t%lld\t%.4f\t%.4f\t%.4f", c, (long long)s->support[c], s->precision[c],
                       s->recall[c], s->f1[c]);
    tri_status status = tri__text_table_print(&whole, cli->out, cli->out_color);
    fputc('\n', cli->out);
    if (status == TRI_OK) status = tri__text_table_print(&classes, cli->out, cli->out_color);
    tri__text_table_free(&classes);
    tri__text_table_free(&whole);
    return status;
}

tri_status tri__command_eval(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    tri_scores scores = {0};
    tri_sink sink = {0};
    int n_words = 0;
    tri_status status = tri__cli_settings(&settings, "eval", n, args, NULL, 0, &n_words);
    if (status != TRI_OK) goto done;
    if (!settings.checkpoint || !settings.data_path) {
        status = tri__fail(TRI_USAGE, "eval needs --checkpoint and --data-path");
        goto done;
    }
    status = tri__cli_progress(cli, settings.quiet, &sink);
    if (status != TRI_OK) goto done;
    status = tri__run_eval(&settings, &sink, &scores);
    if (status != TRI_OK) goto done;
    if (settings.json) {
        json_t *object = tri__scores_json(&scores);
        status = tri__print_json(cli->out, object);
        json_decref(object);
    } else {
        status = print_scores(cli, &scores);
    }
done:
    tri__progress_close(&sink);
    tri__scores_free(&scores);
    tri__settings_free(&settings);
    return status;
}
