/* explain.c - `trident explain`: what moved a model's answers, as text, JSON lines, or a page with coloured words. */
#include "cli/launch.h"

#include "report/text/json_numbers.h"
#include "report/text/text_table.h"
#include "serve/explain/explain.h"
#include "web/pages.h"

typedef struct options {
    int64_t first, rows, repeats, seed;
    char *label;
    int importance, retrain;
} options;
#define ROW(kind, field, ...) TRI_OWN_ROW(options, "explain", kind, field, __VA_ARGS__)
const tri_option tri__explain_options[] = {
    ROW(INT, first, .value = "1", .min = 1, .max = 1e15, .help = "the first row to explain"),
    ROW(INT, rows, .value = "100", .min = 1, .max = 1e15, .help = "how many rows to explain, or to shuffle and score"),
    ROW(TEXT, label, .help = "the class whose probability is explained, or the number; default: what predict answers"),
    ROW(BOOL, importance, .value = "false",
        .help = "permutation importance instead: how much worse the figures get when an input's values are shuffled"),
    ROW(INT, repeats, .value = "3", .min = 1, .max = 1000, .help = "importance: permutations of each input"),
    ROW(INT, seed, .value = "42", .min = 0, .max = 4294967295.0, .help = "importance: seed of the permutations"),
    ROW(BOOL, retrain, .value = "false",
        .help = "importance: also train the run again without each input, and compare; --epochs, --max-steps: shorter"),
    TRI_OWN_END(options)};

typedef enum form { TEXT, LINES, PAGE } form;
enum { SHOWN_INPUTS = 20, SHOWN_WORDS = 8, SHOWN_WIDTH = 40 };

/* Where explanations go. */
typedef struct writer {
    tri_cli *cli;
    const tri_settings *settings;
    const tri_explain_options *options;
    const tri_log *log;
    form form;
    FILE *out;      /* of TEXT and LINES */
    tri_json *list; /* of PAGE */
} writer;

static tri_status choose_form(const tri_settings *settings, form *out) {
    const char *path = settings->output, *ending = path ? strrchr(path, '.') : NULL;
    *out = settings->json ? LINES : TEXT;
    if (!path) return TRI_OK;
    *out = ending && !strcmp(ending, ".html") ? PAGE : LINES;
    if (*out == PAGE || (ending && (!strcmp(ending, ".jsonl") || !strcmp(ending, ".json")))) return TRI_OK;
    return tri__fail(TRI_USAGE, "-o %s: explanations are written as .html, a page, or as .jsonl", path);
}

static int by_effect(const void *a, const void *b) {
    double x = fabs(tri__number_in(*(const tri_json *const *)a, "effect")),
           y = fabs(tri__number_in(*(const tri_json *const *)b, "effect"));
    return (x < y) - (x > y);
}

/* The entries of a list by falling size of their effect; the caller frees it. NULL: out of memory. */
static const tri_json **sorted(const tri_json *list, size_t *n) {
    *n = tri__json_size(list);
    const tri_json **entry = malloc((*n + 1) * sizeof *entry);
    for (size_t i = 0; entry && i < *n; i++) entry[i] = tri__json_at(list, i);
    if (entry) qsort(entry, *n, sizeof *entry, by_effect);
    return entry;
}

/* An effect that inputs or words have only together is marked: this is each one's share. form: of probabilities, or of
 * numbers in any units. */
static void print_effect(const writer *w, const char *form, const tri_json *entry) {
    double effect = tri__number_in(entry, "effect");
    long long sharers = (long long)tri__number_in(entry, "shared_by");
    const char *color = !w->cli->out_color || fabs(effect) < 5e-5 ? "" : effect > 0 ? "\033[32m" : "\033[31m";
    fputs(color, w->out);
    fprintf(w->out, form, effect);
    if (*color) fputs("\033[0m", w->out);
    if (!sharers) return;
    fprintf(w->out, " (1/%lld of ", sharers);
    fprintf(w->out, form, (double)sharers * effect);
    fputc(')', w->out);
}

static tri_status print_row(const writer *w, const tri_json *row) {
    char brief[4 * SHOWN_WIDTH + 8];
    const char *explained = tri__shown_in(row, "explained"), *label = tri__shown_in(row, "label");
    int is_number = tri__json_get(row, "number") != NULL;
    const char *form = is_number ? "%+.5g" : "%+.4f";
    size_t n;
    fprintf(w->out, is_number ? "row %lld: %s %.6g" : "row %lld: %s, probability %.4f",
            (long long)tri__number_in(row, "row"), explained,
            tri__number_in(row, is_number ? "number" : "probability"));
    if (!is_number && strcmp(explained, label)) fprintf(w->out, " (predicted: %s)", label);
    fputc('\n', w->out);
    const tri_json **entry = sorted(tri__json_get(row, "inputs"), &n);
    for (size_t i = 0; entry && i < n && i < SHOWN_INPUTS; i++) {
        fputs("  ", w->out);
        print_effect(w, form, entry[i]);
        fprintf(w->out, "  %s", tri__shown_in(entry[i], "input"));
        if (tri__json_get(entry[i], "value"))
            fprintf(w->out, " = %s",
                    tri__text_brief(tri__shown_in(entry[i], "value"), SHOWN_WIDTH, brief, sizeof brief));
        if (tri__json_get(entry[i], "attention"))
            fprintf(w->out, " (attention %.3f)", tri__number_in(entry[i], "attention"));
        fputc('\n', w->out);
    }
    if (entry && n > SHOWN_INPUTS)
        fprintf(w->out, "  and %zu further inputs with smaller effects (--json has all)\n", n - SHOWN_INPUTS);
    free(entry);
    if (entry) entry = sorted(tri__json_get(row, "words"), &n);
    if (!entry) return tri__fail(TRI_RESOURCE, "out of memory for an explanation");
    if (n) fputs("  words:", w->out);
    for (size_t i = 0; i < n && i < SHOWN_WORDS; i++) {
        fprintf(w->out, "%s %s ", i ? "," : "", tri__text_brief(tri__shown_in(entry[i], "word"), SHOWN_WIDTH, brief,
                                                                sizeof brief));
        print_effect(w, form, entry[i]);
    }
    if (n) fputc('\n', w->out);
    free(entry);
    return TRI_OK;
}

/* tri_explained */
static tri_status put(void *context, const tri_json *row) {
    writer *w = context;
    if (w->form == PAGE) {
        tri__json_append(w->list, row);
        return TRI_OK;
    }
    return w->form == LINES ? tri__print_json(w->out, row) : print_row(w, row);
}

enum { FIGURE_BYTES = 32 };

/* A figure of the table; one that is not defined, such as the ROC AUC of rows of one class, is a dash. */
static const char *figure(const tri_json *object, const char *key, const char *format, int sign,
                          char out[static FIGURE_BYTES]) {
    int is_defined = tri__json_is_number(tri__json_get(object, key));
    snprintf(out, FIGURE_BYTES, is_defined ? format : "-", is_defined ? 0 + sign * tri__number_in(object, key) : 0);
    return out;
}

/* How sure a change of a figure is: its interval, or its deviation. sign: of what is printed. */
static const char *range_of(const tri_json *change, int sign, char out[static 2 * FIGURE_BYTES]) {
    const tri_json *interval = tri__json_get(change, "interval");
    double low = sign * tri__json_number_value(tri__json_at(interval, sign < 0)),
           high = sign * tri__json_number_value(tri__json_at(interval, sign > 0));
    if (!interval) return figure(change, "spread", "%.4f", 1, out);
    snprintf(out, 2 * FIGURE_BYTES, tri__json_size(interval) ? "%+.4f to %+.4f" : "-", low + 0, high + 0);
    return out;
}

static void print_retrained(const tri_cli *cli, const tri_json *list, const tri_json *how) {
    tri__json_items(list, input) {
        const char *why = tri__text_in(tri__json_get(input, "retrained"), "why");
        if (why) fprintf(cli->out, "%s was not left out of training: %s.\n", tri__shown_in(input, "input"), why);
    }
    fprintf(cli->out, "Trained without an input: the models in %s; with all: %s.\n"
                      "Intervals are of other rows; another seed of training moves figures, too.\n",
            tri__shown_in(how, "folder"), tri__shown_in(how, "whole"));
    tri__json_members(tri__json_get(how, "changed"), m)
        fprintf(cli->out, "All were trained with %s %lld in place of the run's.\n", m->key,
                (long long)tri__json_integer_value(m->value));
}

/* Each input permuted; left out of training. */
static tri_status print_importance(const tri_cli *cli, const tri_json *facts) {
    static const struct shown {
        const char *key, *name;
        int sign; /* of what is printed: the change of the figure */
    } of_classes[] = {{"log_loss", "log loss", 1}, {"accuracy", "accuracy", -1}, {"roc_auc", "ROC AUC", -1}},
      of_numbers[] = {{"rmse", "RMSE", 1}, {"r2", "R2", -1}, {"mae", "MAE", 1}};
    const struct shown *row = tri__json_get(tri__json_get(facts, "figures"), "rmse") ? of_numbers : of_classes;
    const tri_json *list = tri__json_get(facts, "inputs"), *how = tri__json_get(facts, "retrained");
    char value[FIGURE_BYTES], range[2 * FIGURE_BYTES];
    long long repeats = (long long)tri__number_in(facts, "repeats");
    for (int again = 0; again <= (how != NULL); again++) {
        tri_text_table table = {0};
        tri__text_table_add(&table, again ? "trained without" : "input permuted");
        for (int f = 0; f < 3; f++) tri__text_table_more(&table, "%s\t%s", row[f].name, how ? "95 % interval" : "+-");
        tri__text_table_add(&table, "(none)");
        for (int f = 0; f < 3; f++)
            tri__text_table_more(&table, "%s\t", figure(tri__json_get(facts, "figures"), row[f].key, "%.4f", 1, value));
        tri__json_items(list, input) {
            tri__text_table_add(&table, "%s", tri__shown_in(input, "input"));
            for (int f = 0; f < 3; f++) {
                const tri_json *change = tri__json_get(again ? tri__json_get(input, "retrained") : input, row[f].key);
                tri__text_table_more(&table, "%s\t%s", figure(change, "worse", "%+.4f", row[f].sign, value),
                                     range_of(change, row[f].sign, range));
            }
        }
        TRI_TRY(tri__print_table(cli, &table));
        if (how) fputc('\n', cli->out);
    }
    fprintf(cli->out, "%lld rows, %lld permutation%s of each input.\n", (long long)tri__number_in(facts, "rows"),
            repeats, repeats == 1 ? "" : "s");
    if (how) print_retrained(cli, list, how);
    return TRI_OK;
}

/* The page's data: {explanations | importance, checkpoint, table}. */
static tri_status write_page(const tri_settings *settings, const char *key, tri_json *value) {
    TRI_OWNED(tri__json_drop) tri_json *data = tri__json_pack("{s:s, s:s, s:O}", "checkpoint", settings->checkpoint,
                                                              "table", settings->data_path, key, value);
    TRI_OWNED(tri__free_at) char *json = NULL, *html = NULL;
    if (data) json = tri__json_text(data, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(6));
    tri_buffer out = {0};
    size_t size = 0;
    if (json) {
        tri__page_fill(tri__page_explain, json, &out);
        html = tri__buffer_take(&out, &size);
    }
    if (!html) return tri__fail(TRI_RESOURCE, "no memory for the page");
    return tri__file_deliver(settings->output, html, size, settings->force);
}

static tri_status explain_to(void *context, FILE *out) {
    writer *w = context;
    w->out = out;
    return tri__serve_explain(w->settings, w->options, w->log, w->cli->stop, put, w);
}

static tri_status explain_rows(writer *w) {
    if (w->form != PAGE) return tri__output_write(w->cli, w->settings, "explanations", explain_to, w);
    TRI_OWNED(tri__json_drop) tri_json *list = w->list = tri__json_array();
    if (!list) return tri__fail(TRI_RESOURCE, "out of memory for explanations");
    TRI_TRY(explain_to(w, NULL));
    return write_page(w->settings, "explanations", list);
}

/* how: of tri__retrain; NULL: nothing is trained. */
static tri_status explain_table(const writer *w, tri_json *how) {
    tri_settings settings = *w->settings; /* borrows its texts */
    tri_explain_options options = *w->options;
    TRI_OWNED(tri__json_drop) tri_json *facts = NULL;
    options.retrained = tri__json_get(how, "inputs");
    if (how) settings.checkpoint = (char *)tri__text_in(how, "whole");
    TRI_TRY(tri__serve_importance(&settings, &options, w->log, w->cli->stop, &facts));
    for (int i = 0; how && i < 2; i++) tri__json_del(how, i ? "inputs" : "config"); /* those are in the facts */
    if (how) tri__json_set(facts, "retrained", how);
    if (w->form == PAGE) return write_page(w->settings, "importance", facts);
    if (settings.output) return tri__json_deliver(settings.output, facts, settings.force);
    return w->form == LINES ? tri__print_json(w->cli->out, facts) : print_importance(w->cli, facts);
}

tri_status tri__command_explain(tri_cli *cli, tri_command_call *call) {
    const tri_settings *settings = &call->settings;
    const options *own = call->own;
    const tri_explain_options options = {.first = own->first, .rows = own->rows, .label = own->label,
                                         .repeats = own->repeats, .seed = own->seed};
    writer w = {.cli = cli, .settings = settings, .options = &options, .log = &call->log};
    if (!settings->checkpoint || !settings->data_path)
        return tri__fail(TRI_USAGE, "explain needs --checkpoint and --data-path");
    if (own->importance && own->label)
        return tri__fail(TRI_USAGE, "--label %s: figures of --importance are of all classes: leave one of them out",
                         own->label);
    int lasts = tri__settings_given(settings, &settings->epochs) || tri__settings_given(settings, &settings->max_steps);
    if (!own->retrain ? lasts : !own->importance)
        return tri__fail(TRI_USAGE, lasts ? "--epochs and --max-steps are of --importance --retrain"
                                          : "--retrain is of --importance: give it too");
    TRI_TRY(choose_form(settings, &w.form));
    TRI_TRY(tri__output_check(settings, &(tri_output){.option = "-o", .path = settings->output}));
    TRI_OWNED(tri__json_drop) tri_json *how = own->retrain ? tri__json_object() : NULL, *tried = NULL;
    const tri_explain_options none = {.first = own->first, .rows = own->rows}; /* a table that would be refused then */
    if (how) TRI_TRY(tri__serve_importance(settings, &none, &(tri_log){0}, cli->stop, &tried));
    if (how) TRI_TRY(tri__cli_alone(cli, "--retrain"));
    if (how) TRI_TRY(tri__retrain(tri__cli_parent(cli), settings, how));
    TRI_TRY(own->importance ? explain_table(&w, how) : explain_rows(&w));
    if (settings->output && !settings->quiet) fprintf(cli->err, "wrote %s\n", settings->output);
    return TRI_OK;
}
