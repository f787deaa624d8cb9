/* eval.c - `trident eval`: scores of a checkpoint, as tables or, with --json, one object. */
#include "cli/launch.h"
#include "cli/sinks.h"

#include "base/text.h"
#include "report/sinks.h"
#include "report/table.h"
#include "engine/metrics.h"
#include "serve/serve.h"

#include <math.h>
#include <stdlib.h>

enum { NAME_WIDTH = 32, NAME_BYTES = 4 * NAME_WIDTH + 8 };
enum { SHOWN_MATRIX = 12 }; /* classes: larger matrices are only in --json */

static tri_status print_table(const tri_cli *cli, tri_text_table *table) {
    tri_status status = tri__text_table_print(table, cli->out, cli->out_color);
    tri__text_table_free(table);
    return status;
}

static const char *name_of(const tri_scores *s, int class, char out[static NAME_BYTES]) {
    return tri__text_brief(s->label[class], NAME_WIDTH, out, NAME_BYTES);
}

/* A dash if undefined (the area of a label without rows). */
static const char *area(double value, char out[static 32]) {
    snprintf(out, 32, isfinite(value) ? "%.4f" : "-", value);
    return out;
}

static tri_status print_whole(const tri_cli *cli, const tri_scores *s) {
    char name[NAME_BYTES], pr[32], average[32], roc[32];
    tri_text_table table = {0};
    tri__text_table_add(&table, "rows\tloss\taccuracy\tF1 macro\tPR AUC\tavg precision\tROC AUC\tlog loss");
    tri__text_table_add(&table, "%lld\t%.6f\t%.4f\t%.4f\t%s\t%s\t%s\t%.6f", (long long)s->rows, s->loss, s->accuracy,
                        s->f1_macro, area(s->pr_auc, pr), area(s->average_precision, average), area(s->roc_auc, roc),
                        s->log_loss);
    TRI_TRY(print_table(cli, &table));
    if (s->positive >= 0)
        fprintf(cli->out, "PR AUC, average precision and ROC AUC are of label %s.\n\n", name_of(s, s->positive, name));
    else fputs("PR AUC, average precision and ROC AUC are means over all labels, each against the rest.\n\n", cli->out);
    return TRI_OK;
}

static tri_status print_classes(const tri_cli *cli, const tri_scores *s) {
    char name[NAME_BYTES];
    tri_text_table table = {0};
    tri__text_table_add(&table, "label\trows\tprecision\trecall\tF1");
    for (int c = 0; c < s->n_classes; c++)
        tri__text_table_add(&table, "%s%s\t%lld\t%.4f\t%.4f\t%.4f", name_of(s, c, name),
                            c == s->positive ? " (positive)" : "", (long long)s->support[c], s->precision[c],
                            s->recall[c], s->f1[c]);
    return print_table(cli, &table);
}

/* A row per label, a column per prediction. */
static tri_status print_confusion(const tri_cli *cli, const tri_scores *s) {
    char name[NAME_BYTES], *line = NULL;
    size_t size;
    tri_text_table table = {0};
    if (s->n_classes > SHOWN_MATRIX) return TRI_OK;
    for (int row = -1; row < s->n_classes; row++) {
        FILE *text = open_memstream(&line, &size);
        if (!text) return tri__fail(TRI_RESOURCE, "no memory for a table");
        fputs(row < 0 ? "label \\ predicted" : name_of(s, row, name), text);
        for (int c = 0; c < s->n_classes; c++)
            if (row < 0) fprintf(text, "\t%s", name_of(s, c, name));
            else fprintf(text, "\t%lld", (long long)s->confusion[row * s->n_classes + c]);
        int failed = fclose(text);
        if (!failed) tri__text_table_add(&table, "%s", line);
        free(line);
        if (failed) return tri__fail(TRI_RESOURCE, "no memory for a table");
    }
    fputc('\n', cli->out);
    return print_table(cli, &table);
}

static tri_status print_scores(const tri_cli *cli, const tri_scores *s) {
    TRI_TRY(print_whole(cli, s));
    TRI_TRY(print_classes(cli, s));
    return print_confusion(cli, s);
}

static tri_status print_object(const tri_cli *cli, const tri_evaluation *e) {
    tri_json *object = tri__scores_json(&e->scores);
    tri__json_set_new(object, "rows_trained_on",
                      e->trained_on < 0 ? tri__json_null() : tri__json_integer(e->trained_on));
    tri_status status = tri__print_json(cli->out, object);
    tri__json_decref(object);
    return status;
}

/* On each rank; the first one prints. */
static tri_status eval_here(tri_cli *cli, const tri_settings *settings, tri_world *world, void *context) {
    (void)context;
    tri_evaluation made = {0};
    tri_sink sink = {0};
    const tri_log log = tri__sink_log(&sink);
    int prints = !world || tri_world_rank(world) == 0;
    tri_status status = tri__cli_progress(cli, settings->quiet || !prints, &sink);
    if (status == TRI_OK) status = tri__serve_eval(settings, world, &log, &made);
    if (status == TRI_OK && prints)
        status = settings->json ? print_object(cli, &made) : print_scores(cli, &made.scores);
    tri__progress_close(&sink);
    tri__scores_free(&made.scores);
    return status;
}

tri_status tri__command_eval(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    int n_words = 0;
    tri_status status = tri__cli_settings(&settings, "eval", n, args, NULL, 0, &n_words);
    if (status == TRI_OK && (!settings.checkpoint || !settings.data_path))
        status = tri__fail(TRI_USAGE, "eval needs --checkpoint and --data-path");
    if (status == TRI_OK) status = tri__launch_infer(cli, &settings, eval_here, NULL);
    tri__settings_free(&settings);
    return status;
}
