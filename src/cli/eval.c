/* eval.c - `trident eval`: scores of a checkpoint, as tables or, with --json, one object. */
#include "cli/launch.h"
#include "job/several.h"

#include "report/text/text_table.h"
#include "serve/serve.h"

enum { NAME_WIDTH = 32, NAME_BYTES = 4 * NAME_WIDTH + 8, FIGURE_BYTES = 48 };
enum { SHOWN_MATRIX = 12 }; /* classes: larger matrices are only in --json */

#define ROW(kind, field, ...) TRI_OWN_ROW(tri_eval_options, "eval", kind, field, __VA_ARGS__)
const tri_option tri__eval_options[] = {
    ROW(INT, bootstrap, .value = "1000", .min = 0, .max = 100000,
        .help = "resamples of the rows for the 95 % interval of each figure; 0: no intervals"),
    ROW(TEXTS, by, .repeats = 1, .help = "also figures by group: of the rows of each value of these columns"),
    TRI_OWN_END(tri_eval_options)};

static const char *name_of(const tri_scores *s, int class, char out[static NAME_BYTES]) {
    return tri__text_brief(s->label[class], NAME_WIDTH, out, NAME_BYTES);
}

/* A dash if undefined (the area of a label without rows). */
static const char *area(double value, char out[static FIGURE_BYTES]) {
    snprintf(out, FIGURE_BYTES, !isfinite(value) ? "-" : fabs(value) < 1e4 ? "%.4f" : "%.6g", value);
    return out;
}

/* A figure's interval as a cell, a dash if it has none; "" if no intervals were asked for. */
static const char *interval(const tri_interval *i, char out[static FIGURE_BYTES]) {
    snprintf(out, FIGURE_BYTES, i ? "\t-" : "");
    if (i && isfinite(i->low)) snprintf(out, FIGURE_BYTES, "\t%.4f to %.4f", i->low, i->high);
    return out;
}

/* The figures of the whole table, one a line. */
static tri_status print_whole(const tri_cli *cli, const tri_evaluation *e) {
    const tri_scores *s = &e->scores;
    int with = e->intervals.resamples > 0;
    char name[NAME_BYTES], value[FIGURE_BYTES], range[FIGURE_BYTES];
    tri_text_table table = {0};
    tri__text_table_add(&table, "%lld rows\tvalue%s", (long long)s->rows, with ? "\t95 % interval" : "");
    for (int f = 0; f < TRI_FIGURES; f++)
        tri__text_table_add(&table, "%s\t%s%s", tri__figure_name[f], area(tri__figure_of(s, (tri_figure)f), value),
                            interval(with ? &e->intervals.of[f] : NULL, range));
    TRI_TRY(tri__print_table(cli, &table));
    if (s->positive >= 0)
        fprintf(cli->out, "PR AUC, average precision and ROC AUC are of label %s.\n", name_of(s, s->positive, name));
    else fputs("PR AUC, average precision and ROC AUC are means over all labels, each against the rest.\n", cli->out);
    if (with)
        fprintf(cli->out, "Intervals: shares of rows by Wilson's formula, ECE without its bias, others by %lld "
                "resamples of the rows (--bootstrap).\n", (long long)e->intervals.resamples);
    return TRI_OK;
}

static tri_status print_classes(const tri_cli *cli, const tri_evaluation *e) {
    const tri_scores *s = &e->scores;
    const tri_intervals *i = &e->intervals;
    char name[NAME_BYTES], text[FIGURE_BYTES];
    tri_text_table table = {0};
    int with = i->precision != NULL;
    const struct {
        const double *value;
        const tri_interval *range;
    } figures[] = {{s->precision, i->precision}, {s->recall, i->recall}, {s->f1, i->f1}};
    tri__text_table_add(&table, with ? "label\trows\tprecision\t95 %%\trecall\t95 %%\tF1\t95 %%"
                                     : "label\trows\tprecision\trecall\tF1");
    for (int c = 0; c < s->n_classes; c++) {
        tri__text_table_add(&table, "%s%s\t%lld", name_of(s, c, name), c == s->positive ? " (positive)" : "",
                            (long long)s->support[c]);
        for (int k = 0; k < 3; k++)
            tri__text_table_more(&table, "%.4f%s", figures[k].value[c],
                                 interval(with ? &figures[k].range[c] : NULL, text));
    }
    return tri__print_table(cli, &table);
}

/* Of tri_evaluation.intervals: of numbers, of several labels. */
static const char *const interval_key[2][TRI_NUMBER_INTERVALS] = {{"r2", "rmse", "mae"},
                                                                  {"f1_micro", "f1_macro", "lrap"}};

/* The figures of predicted numbers, in the label's units. */
static tri_status print_numbers(const tri_cli *cli, const tri_evaluation *e) {
    char range[FIGURE_BYTES];
    const char *name;
    double value;
    tri_text_table table = {0};
    tri__text_table_add(&table, "%lld rows\tvalue\t95 %% interval", (long long)e->scores.rows);
    tri__text_table_add(&table, "loss\t%.6g\t", e->scores.loss);
    for (int at = 0; tri__number_figure(&e->scores.numbers, &at, &name, &value);) {
        int of = tri__text_index(name, interval_key[e->scores.n_classes > 0], TRI_NUMBER_INTERVALS);
        tri__text_table_add(&table, "%s\t%.6g%s", name, value, interval(of < 0 ? NULL : &e->intervals.of[of], range));
    }
    TRI_TRY(tri__print_table(cli, &table));
    if (e->promised > 0)
        fprintf(cli->out, "Intervals of predictions hold %.2f %% of these rows; they promise %g %%.\n", 100 * e->inside,
                100 * e->promised);
    if (!e->scores.n_classes) return TRI_OK;
    const char *chosen = tri__text_in(e->fitted, "chosen_for");
    fprintf(cli->out, chosen ? "Each label has its own threshold, chosen on validation for %s.\n\n"
                             : "All labels have the same threshold.\n\n", chosen);
    return print_classes(cli, e);
}

/* What the temperature does to the probabilities, and where the threshold is. */
static void print_decision(const tri_cli *cli, const tri_evaluation *e) {
    const tri_scores *s = &e->scores;
    const tri_decision *d = &e->decision;
    const char *chosen = tri__text_in(e->fitted, "chosen_for");
    int is_own = chosen && tri__json_is_number(tri__json_get(e->fitted, "threshold")) &&
                 tri__number_in(e->fitted, "threshold") == d->threshold;
    char name[NAME_BYTES];
    if (d->temperature != 1)
        fprintf(cli->out, "Temperature %.4g, fitted to validation: log loss %.4f to %.4f, ECE %.4f to %.4f, Brier "
                "score %.4f to %.4f.\n", d->temperature, e->before.log_loss, s->log_loss, e->before.ece,
                s->reliability.ece, e->before.brier, s->reliability.brier);
    if (d->has_threshold)
        fprintf(cli->out, "Threshold: label %s from a probability of %.6g on%s%s%s.\n", name_of(s, d->positive, name),
                d->threshold, is_own ? " (" : "", is_own ? chosen : "", is_own ? ")" : "");
    fputc('\n', cli->out);
}

/* Rows by the probability of their likeliest label. */
static tri_status print_reliability(const tri_cli *cli, const tri_reliability *r) {
    tri_text_table table = {0};
    tri__text_table_add(&table, "confidence\trows\tmean\taccuracy");
    for (int k = 0; k < TRI_RELIABILITY_BINS; k++)
        if (r->bin[k].rows > 0)
            tri__text_table_add(&table, "%.3f to %.3f\t%.0f\t%.4f\t%.4f", k / (double)TRI_RELIABILITY_BINS,
                                (k + 1) / (double)TRI_RELIABILITY_BINS, r->bin[k].rows, r->bin[k].confidence,
                                r->bin[k].accuracy);
    fputc('\n', cli->out);
    TRI_TRY(tri__print_table(cli, &table));
    fputs("Rows by the probability of their likeliest label. ECE: how far mean and accuracy are apart, by rows.\n",
          cli->out);
    return TRI_OK;
}

/* A row per label, a column per prediction. */
static tri_status print_confusion(const tri_cli *cli, const tri_scores *s) {
    char name[NAME_BYTES];
    tri_text_table table = {0};
    if (s->n_classes > SHOWN_MATRIX) return TRI_OK;
    tri__text_table_add(&table, "label \\ predicted");
    for (int c = 0; c < s->n_classes; c++) tri__text_table_more(&table, "%s", name_of(s, c, name));
    for (int row = 0; row < s->n_classes; row++) {
        tri__text_table_add(&table, "%s", name_of(s, row, name));
        for (int c = 0; c < s->n_classes; c++)
            tri__text_table_more(&table, "%lld", (long long)s->confusion[row * s->n_classes + c]);
    }
    fputc('\n', cli->out);
    return tri__print_table(cli, &table);
}

/* ---- by group ---- */

/* Figures, and below each its interval. */
static void add_group(tri_text_table *table, const tri_group_form *form, const char *name,
                      const tri_group_scores *group) {
    char text[NAME_BYTES];
    name = tri__text_brief(name, NAME_WIDTH, text, NAME_BYTES);
    tri__text_table_add(table, "%s\t%lld", name, (long long)group->rows);
    for (int s = 0; s < form->n_shown; s++)
        tri__text_table_more(table, "%s", area(group->figure[form->shown[s]], text));
    if (!group->intervals.resamples) return;
    tri__text_table_add(table, "\t");
    for (int s = 0; s < form->n_shown; s++)
        tri__text_table_more(table, "%s", interval(&group->intervals.of[form->shown[s]], text) + 1);
}

/* A group that is worse than the whole; NULL: none is. */
static const tri_group_scores *worst_of(const tri_grouped *by, int f) {
    return by->worst[f] < 0 ? NULL : &by->group[by->worst[f]];
}

static tri_status print_groups(const tri_cli *cli, const tri_evaluation *e, const tri_grouped *by) {
    char name[NAME_BYTES];
    const tri_group_form *form = by->form;
    int with = e->intervals.resamples > 0;
    TRI_OWNED(tri__text_table_free) tri_text_table groups = {0}, worst = {0};
    tri__text_table_add(&groups, "%s\trows", tri__text_brief(by->column, NAME_WIDTH, name, NAME_BYTES));
    tri__text_table_add(&worst, "figure\tworst %s\tfrom (all)%s", name, with ? "\tinterval excludes (all)" : "");
    for (int s = 0; s < form->n_shown; s++) {
        int f = form->shown[s];
        const tri_group_scores *group = worst_of(by, f);
        tri__text_table_more(&groups, "%s", form->name[f]);
        if (!group) continue;
        int excludes = tri__interval_excludes(group->intervals.of[f], by->whole.figure[f]);
        tri__text_table_add(&worst, "%s\t%s\t%+.4f%s", form->name[f],
                            tri__text_brief(group->name, NAME_WIDTH, name, NAME_BYTES),
                            group->figure[f] - by->whole.figure[f], !with ? "" : excludes ? "\tyes" : "\tno");
    }
    add_group(&groups, form, "(all)", &by->whole);
    for (int g = 0; g < by->n; g++) add_group(&groups, form, by->group[g].name, &by->group[g]);
    fputc('\n', cli->out);
    TRI_TRY(tri__print_table(cli, &groups));
    if (worst.n > 1) fputc('\n', cli->out);
    return worst.n > 1 ? tri__print_table(cli, &worst) : TRI_OK;
}

static tri_json *group_json(const tri_group_form *form, const tri_group_scores *group) {
    tri_json *one = tri__json_pack("{s:s, s:I}", "group", group->name, "rows", (tri_json_int)group->rows);
    for (int f = 0; f < form->n; f++) tri__json_set_new(one, form->key[f], tri__json_real(group->figure[f]));
    if (group->intervals.resamples)
        tri__json_set_new(one, "intervals", tri__intervals_json(form->key, form->n, &group->intervals, NULL));
    return one;
}

static tri_json *groups_json(const tri_evaluation *e, const tri_grouped *by) {
    tri_json *groups = tri__json_array(), *worst = tri__json_object();
    for (int g = 0; g < by->n; g++) tri__json_append_new(groups, group_json(by->form, &by->group[g]));
    for (int s = 0; s < by->form->n_shown; s++) {
        int f = by->form->shown[s];
        const tri_group_scores *group = worst_of(by, f);
        double whole = by->whole.figure[f];
        tri_json *one = group ? tri__json_pack("{s:s, s:f}", "group", group->name, "difference",
                                               group->figure[f] - whole) : tri__json_null();
        if (group && e->intervals.resamples)
            tri__json_set_new(one, "excludes_whole",
                              tri__json_boolean(tri__interval_excludes(group->intervals.of[f], whole)));
        tri__json_set_new(worst, by->form->key[f], one);
    }
    return tri__json_pack("{s:s, s:o, s:o}", "column", by->column, "groups", groups, "worst", worst);
}

static tri_status print_decided(const tri_cli *cli, const tri_evaluation *e) {
    TRI_TRY(print_whole(cli, e));
    print_decision(cli, e);
    TRI_TRY(print_classes(cli, e));
    TRI_TRY(print_confusion(cli, &e->scores));
    return print_reliability(cli, &e->scores.reliability);
}

static tri_status print_scores(const tri_cli *cli, const tri_evaluation *e) {
    TRI_TRY(e->scores.is_number ? print_numbers(cli, e) : print_decided(cli, e));
    for (int i = 0; i < e->n_by; i++) TRI_TRY(print_groups(cli, e, &e->by[i]));
    if (e->n_by)
        fprintf(cli->out, "(rare): groups of fewer than %d rows, together.%s\n", TRI_GROUP_LEAST,
                e->intervals.resamples ? " Of equally good groups, one interval in twenty excludes (all)." : "");
    return TRI_OK;
}

/* The temperature, and figures before it; the threshold and how it was found. */
static tri_json *decision_json(const tri_evaluation *e) {
    const tri_decision *d = &e->decision;
    tri_json *all = tri__json_pack("{s:f, s:o, s:o, s:{s:f, s:f, s:f}}", "temperature", d->temperature, "threshold",
                                   d->has_threshold ? tri__json_real(d->threshold) : tri__json_null(), "positive",
                                   d->has_threshold ? tri__json_string(e->scores.label[d->positive]) : tri__json_null(),
                                   "before_temperature", "log_loss", e->before.log_loss, "ece", e->before.ece, "brier",
                                   e->before.brier);
    if (e->fitted) tri__json_set(all, "fitted", e->fitted);
    return all;
}

static tri_json *members_json(const tri_evaluation *e) {
    tri_json *members = tri__json_array();
    for (int i = 0; i < e->n_members; i++)
        tri__json_append_new(members, tri__json_pack("{s:s, s:o}", "folder", e->member[i].folder, "figures",
                                                     tri__scores_figures(&e->member[i].scores)));
    return members;
}

/* The members of an ensemble, and the ensemble itself. */
static tri_status print_members(const tri_cli *cli, const tri_evaluation *e) {
    if (!e->n_members) return TRI_OK;
    tri_json *rows = members_json(e);
    tri__json_append_new(rows, tri__json_pack("{s:s, s:o}", "folder", "mean of all", "figures",
                                              tri__scores_figures(&e->scores)));
    TRI_OWNED(tri__json_drop) tri_json *all = tri__members_json("members", rows);
    if (!all) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(tri__members_print(cli, all, "members", "folder", 0));
    fputc('\n', cli->out);
    return TRI_OK;
}

static tri_status print_object(const tri_cli *cli, const tri_evaluation *e) {
    tri_json *object = tri__scores_json(&e->scores);
    tri__json_set_new(object, "rows_trained_on",
                      e->trained_on < 0 ? tri__json_null() : tri__json_integer(e->trained_on));
    tri__json_set(object, "unseen", e->unseen);
    int several = e->scores.is_number && e->scores.n_classes;
    if (e->scores.is_number) {
        if (several) tri__json_set_new(object, "decision", e->fitted ? tri__json_incref(e->fitted) : tri__json_null());
        else
            tri__json_set_new(object, "interval",
                              tri__json_pack("{s:f, s:f}", "promised", e->promised, "inside", e->inside));
        tri__json_set_new(object, "intervals",
                          tri__intervals_json(interval_key[several], TRI_NUMBER_INTERVALS, &e->intervals, NULL));
    } else tri__json_set_new(object, "decision", decision_json(e));
    if (e->intervals.resamples && !e->scores.is_number)
        tri__json_set_new(object, "intervals", tri__intervals_json(tri__figure_key, TRI_FIGURES, &e->intervals,
                                                                   e->scores.label));
    if (e->n_members) tri__json_set_new(object, "members", members_json(e));
    tri_json *by = e->n_by ? tri__json_array() : NULL;
    for (int i = 0; i < e->n_by; i++) tri__json_append_new(by, groups_json(e, &e->by[i]));
    if (by) tri__json_set_new(object, "by", by);
    return tri__print_json_new(cli->out, object);
}

/* The models of folds: a table of them, or {folds, mean, spread}. */
static tri_status print_folds(const tri_cli *cli, const tri_evaluation *e, int as_json) {
    tri_json *rows = members_json(e);
    for (int i = 0; i < e->n_members; i++)
        tri__json_set_new(tri__json_at(rows, (size_t)i), "rows", tri__json_integer(e->member[i].scores.rows));
    TRI_OWNED(tri__json_drop) tri_json *all = tri__members_json("folds", rows);
    if (!all) return tri__fail(TRI_RESOURCE, "out of memory");
    if (as_json) return tri__print_json(cli->out, all);
    TRI_TRY(tri__members_print(cli, all, "folds", "folder", 1));
    fputs("Each fold's own model; spread is their standard deviation. --part valid: the rows that it was not trained "
          "on.\n", cli->out);
    return TRI_OK;
}

static tri_status print(const tri_cli *cli, const tri_evaluation *e, int as_json) {
    if (e->folds) return print_folds(cli, e, as_json);
    if (as_json) return print_object(cli, e);
    TRI_TRY(print_members(cli, e));
    return print_scores(cli, e);
}

/* On each rank; the first one prints. */
static tri_status eval_here(tri_cli *cli, const tri_settings *settings, tri_world *world, int rank, const tri_log *log,
                            void *context) {
    TRI_OWNED(tri__evaluation_free) tri_evaluation made = {0};
    tri_log stoppable = *log;
    stoppable.stop = cli->stop;
    TRI_TRY(tri__serve_eval(settings, context, world, &stoppable, &made));
    return rank ? TRI_OK : print(cli, &made, settings->json);
}

tri_status tri__command_eval(tri_cli *cli, tri_command_call *call) {
    if (!call->settings.checkpoint || !call->settings.data_path)
        return tri__fail(TRI_USAGE, "eval needs --checkpoint and --data-path");
    return tri__launch_infer(cli, &call->settings, eval_here, call->own);
}
