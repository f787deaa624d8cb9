/* sweep.c - `trident sweep` (job/sweep.h): its options, what is refused, and at the end the table of trials, the best
 * one's configuration, and how to go on. */
#include "cli/launch.h"
#include "job/several.h"
#include "job/sweep.h"

#include "checkpoint/folders.h"
#include "data/dataset/data_files.h"
#include "report/text/text_table.h"
#include "score/best.h"

#include <unistd.h>

#define ROW(kind, field, ...) TRI_OWN_ROW(tri_sweep_options, "sweep", kind, field, __VA_ARGS__)
const tri_option tri__sweep_options[] = {
    ROW(TEXT, space, .help = "JSON file: keys of the configuration, and for each the values to search"),
    ROW(INT, trials, .value = "27", .min = 1, .max = 10000, .help = "configurations to draw and train"),
    ROW(INT, parallel, .value = "1", .min = 1, .max = 1024,
        .help = "trials that train at the same time; they share the cores unless --threads says how many each has"),
    ROW(INT, halving, .value = "3", .min = 1, .max = 1000,
        .help = "N: after each rung one in N trials goes on, to N times the epochs; 1: all train to the end"),
    TRI_OWN_END(tri_sweep_options)};
#undef ROW

/* ---- before it begins ---- */

static tri_status accept(const tri_sweep *s) {
    const tri_settings *set = s->settings;
    tri_data_files files;
    if (!set->data_path) return tri__fail(TRI_USAGE, "sweep needs --data-path");
    if (!s->own->space) return tri__fail(TRI_USAGE, "sweep needs --space: a JSON file of keys and their values");
    if (tri__trains_several(set))
        return tri__fail(TRI_USAGE, "--folds (without --fold), --seeds and --stack are several trainings, and a trial "
                                    "is one; search first, then train the best with them");
    if (!set->save_every)
        return tri__fail(TRI_USAGE, "--save-every 0: trials go on from their checkpoints, and need them");
    if (set->max_steps)
        return tri__fail(TRI_USAGE, "--max-steps %lld: rungs are whole epochs; give --epochs",
                         (long long)set->max_steps);
    if (set->until_epoch)
        return tri__fail(TRI_USAGE, "--until-epoch: a sweep decides how long each trial trains; give --epochs");
    if (strcmp(set->resume, "auto"))
        return tri__fail(TRI_USAGE, "--resume %s: trials are resumed from their own checkpoints", set->resume);
    TRI_TRY(tri__trainings_accept(s->parent->lookup, "sweep"));
    TRI_TRY(tri__data_files(set->data_path, &files));
    if (!set->split && !set->folds && (files.one || !files.valid[0]))
        return tri__fail(TRI_USAGE,
                         "%s: has no validation table to rank trials by; give a folder that has a valid table beside "
                         "train, or --split", set->data_path);
    return TRI_OK;
}

/* The command line less the options of the sweep alone, each of which takes a value. */
static tri_status take_arguments(tri_sweep *s, int n, const char *const *args) {
    TRI_TRY(TRI_NEW(s->args, (size_t)n + 1, "arguments"));
    for (int i = 0; i < n && strcmp(args[i], "--") != 0; i++) {
        char name[TRI_OPTION_FLAG] = "";
        if (tri__text_begins(args[i], "--"))
            snprintf(name, sizeof name, "%.*s", (int)strcspn(args[i] + 2, "="), args[i] + 2);
        if (tri__option_find(tri__sweep_options, name)) {
            i += !strchr(args[i], '=');
            continue;
        }
        const tri_option *row = tri__argument_row(args[i]);
        if (row && tri__search_find(&s->space, row))
            return tri__fail(TRI_USAGE, "%s is given, and %s has values of it to search: leave one out", args[i],
                             s->own->space);
        s->args[s->n_args++] = args[i];
    }
    return TRI_OK;
}

/* ---- best.json ---- */

/* The configuration that the trial's best checkpoint records, less what belongs to the trial. */
static tri_status write_best(const tri_sweep *s, const tri_sweep_trial *best, const char *to) {
    static const char *const of_trial[] = {"output_dir", "resume", "cache_dir", "threads"};
    char folder[TRI_PATH_MAX], checkpoint[TRI_PATH_MAX], path[TRI_PATH_MAX];
    TRI_OWNED(tri__json_drop) tri_json *config = NULL;
    int64_t step;
    TRI_TRY(tri__path_join(folder, s->settings->output_dir, best->folder));
    TRI_TRY(tri__checkpoint_best(folder, &step));
    if (step < 0) return tri__fail(TRI_DATA, "%s: has no best checkpoint", folder);
    TRI_TRY(tri__checkpoint_name(checkpoint, folder, step, ""));
    TRI_TRY(tri__path_join(path, checkpoint, "config.json"));
    TRI_TRY(tri__json_load(path, TRI_DATA, &config));
    TRI_OWNED(tri__json_drop) tri_json *asked = tri__settings_json(s->settings);
    for (size_t i = 0; i < sizeof of_trial / sizeof *of_trial; i++) tri__json_del(config, of_trial[i]);
    if (s->settings->cache_dir) tri__json_set(config, "cache_dir", tri__json_get(asked, "cache_dir"));
    if (asked) tri__json_set(config, "threads", tri__json_get(asked, "threads"));
    if (!asked) return tri__fail(TRI_RESOURCE, "out of memory");
    return tri__json_save(to, config);
}

/* ---- the table ---- */

/* A value as a person reads it: texts without quotes. */
static void add_value(tri_text_table *table, const tri_json *value) {
    char brief[160];
    const char *word = tri__json_string_value(value);
    TRI_OWNED(tri__free_at) char *text = word ? strdup(word) : tri__json_line(value);
    table->failed |= !text;
    tri__text_table_more(table, "%s", text ? tri__text_brief(text, 32, brief, sizeof brief) : "");
}

static void add_row(const tri_sweep *s, tri_text_table *table, int rank, const tri_sweep_trial *t) {
    char figure[32] = "-", place[16] = "-";
    if (t->rungs) snprintf(figure, sizeof figure, "%.4f", t->figure[t->rungs - 1]);
    if (!t->code) snprintf(place, sizeof place, "%d", rank);
    tri__text_table_add(table, "%s\t%d\t%s\t%lld", place, t->number, figure,
                        t->rungs ? (long long)s->rung[t->rungs - 1].epochs : 0LL);
    for (int i = 0; i < s->space.n; i++) add_value(table, tri__json_get(t->values, s->space.key[i].row->name));
}

static tri_status print_table(const tri_cli *cli, const tri_sweep *s, const tri_sweep_trial *const *order) {
    tri_text_table table = {0};
    tri__text_table_add(&table, "rank\ttrial\t%s\tepochs", tri__best_key((tri_best_by)s->settings->best_by));
    for (int i = 0; i < s->space.n; i++) tri__text_table_more(&table, "%.60s", s->space.key[i].row->name);
    for (int i = 0; i < s->n; i++) add_row(s, &table, i + 1, order[i]);
    TRI_TRY(tri__print_table(cli, &table));
    for (int i = 0; i < s->n; i++)
        if (order[i]->code)
            fprintf(cli->out, "trial %d failed with exit code %d: %s\n", order[i]->number, order[i]->code,
                    order[i]->why);
    return TRI_OK;
}

/* The trials best first, and which is the best. */
static tri_status print_json(FILE *out, const tri_sweep *s, const tri_sweep_trial *const *order, const char *path) {
    tri_json *all = tri__sweep_json(s), *sorted = tri__json_array(), *trials = tri__json_get(all, "trials");
    for (int i = 0; i < s->n; i++) tri__json_append(sorted, tri__json_at(trials, (size_t)(order[i]->number - 1)));
    tri__json_set_new(all, "trials", sorted);
    tri__json_del(all, "config");
    tri__json_set_new(all, "best", tri__json_pack("{s:i, s:s, s:f, s:s}", "trial", order[0]->number, "folder",
                                                  order[0]->folder, "figure", order[0]->figure[order[0]->rungs - 1],
                                                  "config", path));
    return tri__print_json_new(out, all);
}

static tri_status print_words(FILE *to, const tri_sweep *s, const tri_sweep_trial *best, const char *path) {
    char folder[TRI_PATH_MAX], again[TRI_PATH_MAX], *quoted[4];
    const char *const word[] = {folder, s->settings->output_dir, path, again};
    int whole = 1;
    TRI_TRY(tri__path_join(folder, s->settings->output_dir, best->folder));
    TRI_TRY(tri__path_join(again, s->settings->output_dir, "best"));
    for (int i = 0; i < 4; i++) whole &= (quoted[i] = tri__text_quoted(word[i])) != NULL;
    if (whole)
        fprintf(to,
                "best        %s (trial %d, validation %s %.4f: what eval, predict and serve take for %s)\n"
                "train it    trident train --config %s --output-dir %s\n",
                quoted[0], best->number, tri__best_name((tri_best_by)s->settings->best_by),
                best->figure[best->rungs - 1], quoted[1], quoted[2], quoted[3]);
    for (int i = 0; i < 4; i++) free(quoted[i]);
    return whole ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* The ranking lacks a trial that may have won. */
static tri_status say_lost(const tri_sweep *s) {
    int n = 0;
    const tri_sweep_trial *first = NULL;
    for (int i = s->n - 1; i >= 0; i--)
        if (tri__sweep_may_succeed(s->trial[i].code, 0)) first = &s->trial[i], n++;
    if (!n) return TRI_OK;
    return tri__fail((tri_status)first->code,
                     "%d trial%s ended twice before %s rung, trial %d with exit code %d: %s. The ranking lacks %s; run "
                     "the same command again to try once more", n, n == 1 ? "" : "s", n == 1 ? "its" : "their",
                     first->number, first->code, first->why, n == 1 ? "it" : "them");
}

static tri_status end(const tri_cli *cli, tri_sweep *s) {
    TRI_OWNED(tri__free_at) const tri_sweep_trial **order = tri__sweep_order(s);
    if (!order) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_PATH(path, s->settings->output_dir, "best.json");
    if (order[0]->code)
        return tri__fail((tri_status)s->trial[0].code, "all %d trials failed; the first: %s", s->n, s->trial[0].why);
    TRI_TRY(write_best(s, order[0], path));
    TRI_TRY(tri__sweep_rank(s, order));
    if (s->settings->json) TRI_TRY(print_json(cli->out, s, order, path));
    else TRI_TRY(print_table(cli, s, order));
    if (!s->settings->json) TRI_TRY(print_words(cli->out, s, order[0], path));
    return say_lost(s);
}

/* ---- the command ---- */

static tri_status sweep(tri_cli *cli, tri_sweep *s, int n, const char *const *args, int *lock) {
    const tri_settings *set = s->settings;
    TRI_TRY(accept(s));
    TRI_TRY(tri__search_read(s->own->space, &s->space));
    TRI_TRY(take_arguments(s, n, args));
    if (set->config) TRI_TRY(tri__json_load(set->config, TRI_USAGE, &s->config));
    else if (!(s->config = tri__json_object())) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(tri__sweep_draw(s));
    TRI_TRY(tri__folder_lock(set->output_dir, cli->stop, lock));
    TRI_PATH(best, set->output_dir, "best.json");
    if (set->config && tri__file_same(best, set->config))
        return tri__fail(TRI_USAGE, "--config %s: this sweep writes its best configuration there; copy it and name the "
                         "copy, or name another --output-dir", set->config);
    TRI_TRY(tri__sweep_run(s));
    return end(cli, s);
}

tri_status tri__command_sweep(tri_cli *cli, tri_command_call *call) {
    TRI_OWNED(tri__sweep_free) tri_sweep s = {.parent = tri__cli_parent(cli),
                                              .settings = &call->settings, .own = call->own};
    TRI_OWNED(tri__fd_drop) int lock = -1;
    return sweep(cli, &s, call->n, call->args, &lock);
}
