/* sweep_end.c - the end of a sweep: the table of trials, the best one's configuration, how to go on. */
#include "cli/sweep.h"

#include "base/text.h"
#include "checkpoint/folders.h"
#include "score/best.h"
#include "report/text/text_table.h"

#include <stdlib.h>
#include <string.h>

/* Whether a trial beats another: more rungs, then the figure, then the lower number. One that failed beats none. */
static int beats(const tri_sweep *s, const tri_sweep_trial *a, const tri_sweep_trial *b) {
    if (!a->code != !b->code) return !a->code;
    if (a->rungs != b->rungs) return a->rungs > b->rungs;
    double x = a->rungs ? a->figure[a->rungs - 1] : 0, y = b->rungs ? b->figure[b->rungs - 1] : 0;
    if (x == y) return a->number < b->number;
    return tri__best_beats((tri_best_by)s->settings->best_by, x, y);
}

/* All trials, best first; the caller frees it. */
static const tri_sweep_trial **ranked(const tri_sweep *s) {
    const tri_sweep_trial **order = calloc((size_t)s->n, sizeof *order);
    for (int i = 0; order && i < s->n; i++) {
        int at = i;
        for (; at > 0 && beats(s, &s->trial[i], order[at - 1]); at--) order[at] = order[at - 1];
        order[at] = &s->trial[i];
    }
    return order;
}

/* ---- best.json ---- */

/* The configuration that the trial's best checkpoint records, less what belongs to the trial. */
static tri_status best_config(const tri_sweep *s, const tri_sweep_trial *best, tri_json **out) {
    static const char *const of_trial[] = {"output_dir", "resume", "cache_dir", "threads"};
    char folder[TRI_PATH_MAX], checkpoint[TRI_PATH_MAX], path[TRI_PATH_MAX];
    int64_t step;
    TRI_TRY(tri__path_join(folder, s->settings->output_dir, best->folder));
    TRI_TRY(tri__checkpoint_best(folder, &step));
    if (step < 0) return tri__fail(TRI_DATA, "%s: has no best checkpoint", folder);
    TRI_TRY(tri__checkpoint_name(checkpoint, folder, step, ""));
    TRI_TRY(tri__path_join(path, checkpoint, "config.json"));
    TRI_TRY(tri__json_load(path, TRI_DATA, out));
    tri_json *asked = tri__settings_json(s->settings);
    tri_status status = asked ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
    for (size_t i = 0; i < sizeof of_trial / sizeof *of_trial; i++) tri__json_del(*out, of_trial[i]);
    if (s->settings->cache_dir) tri__json_set(*out, "cache_dir", tri__json_get(asked, "cache_dir"));
    if (asked) tri__json_set(*out, "threads", tri__json_get(asked, "threads"));
    tri__json_decref(asked);
    return status;
}

static tri_status write_best(const tri_sweep *s, const tri_sweep_trial *best, const char *path) {
    tri_json *config = NULL;
    tri_status status = best_config(s, best, &config);
    if (status == TRI_OK) status = tri__json_save(path, config);
    tri__json_decref(config);
    return status;
}

/* ---- the table ---- */

/* A value as a person reads it: texts without quotes. */
static void add_value(tri_text_table *table, const tri_json *value) {
    char brief[160];
    const char *word = tri__json_string_value(value);
    char *text = word ? strdup(word) : tri__json_line(value);
    table->failed |= !text;
    tri__text_table_more(table, "%s", text ? tri__text_brief(text, 32, brief, sizeof brief) : "");
    free(text);
}

static void add_row(const tri_sweep *s, tri_text_table *table, int rank, const tri_sweep_trial *t) {
    char figure[32] = "-", place[16] = "-";
    if (t->rungs) snprintf(figure, sizeof figure, "%.4f", t->figure[t->rungs - 1]);
    if (!t->code) snprintf(place, sizeof place, "%d", rank);
    tri__text_table_add(table, "%s\t%d\t%s\t%lld", place, t->number, figure,
                        t->rungs ? (long long)s->rung[t->rungs - 1].epochs : 0LL);
    for (int i = 0; i < s->space.n; i++) add_value(table, tri__json_get(t->values, s->space.key[i].row->name));
}

static tri_status print_table(const tri_sweep *s, const tri_sweep_trial *const *order) {
    tri_text_table table = {0};
    tri__text_table_add(&table, "rank\ttrial\t%s\tepochs", tri__best_key((tri_best_by)s->settings->best_by));
    for (int i = 0; i < s->space.n; i++) tri__text_table_more(&table, "%.60s", s->space.key[i].row->name);
    for (int i = 0; i < s->n; i++) add_row(s, &table, i + 1, order[i]);
    TRI_TRY(tri__print_table(s->cli, &table));
    for (int i = 0; i < s->n; i++)
        if (order[i]->code)
            fprintf(s->cli->out, "trial %d failed with exit code %d: %s\n", order[i]->number, order[i]->code,
                    order[i]->why);
    return TRI_OK;
}

/* The trials best first, and which is the best. */
static tri_status print_json(const tri_sweep *s, const tri_sweep_trial *const *order, const char *path) {
    tri_json *all = tri__sweep_json(s), *sorted = tri__json_array(), *trials = tri__json_get(all, "trials");
    for (int i = 0; i < s->n; i++) tri__json_append(sorted, tri__json_at(trials, (size_t)(order[i]->number - 1)));
    tri__json_set_new(all, "trials", sorted);
    tri__json_del(all, "config");
    tri__json_set_new(all, "best", tri__json_pack("{s:i, s:s, s:f, s:s}", "trial", order[0]->number, "folder",
                                                  order[0]->folder, "figure", order[0]->figure[order[0]->rungs - 1],
                                                  "config", path));
    return tri__print_json_new(s->cli->out, all);
}

static tri_status print_words(const tri_sweep *s, const tri_sweep_trial *best, const char *path) {
    char folder[TRI_PATH_MAX], again[TRI_PATH_MAX];
    TRI_TRY(tri__path_join(folder, s->settings->output_dir, best->folder));
    TRI_TRY(tri__path_join(again, s->settings->output_dir, "best"));
    char *model = tri__text_quoted(folder), *sweep = tri__text_quoted(s->settings->output_dir),
         *config = tri__text_quoted(path), *out = tri__text_quoted(again);
    tri_status status = model && sweep && config && out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
    if (status == TRI_OK)
        fprintf(s->cli->out,
                "best        %s (trial %d, validation %s %.4f: what eval, predict and serve take for %s)\n"
                "train it    trident train --config %s --output-dir %s\n",
                model, best->number, tri__best_name((tri_best_by)s->settings->best_by), best->figure[best->rungs - 1],
                sweep, config, out);
    free(model);
    free(sweep);
    free(config);
    free(out);
    return status;
}

/* In sweep.json: the folder of the sweep stands for its best trial (checkpoint/run_set.h). */
static tri_status save_ranks(const tri_sweep *s, const tri_sweep_trial *const *order) {
    for (int i = 0; i < s->n; i++)
        if (!order[i]->code) s->trial[order[i]->number - 1].rank = i + 1;
    return tri__sweep_save(s);
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

tri_status tri__sweep_end(const tri_sweep *s) {
    char path[TRI_PATH_MAX];
    const tri_sweep_trial **order = ranked(s);
    tri_status status = order ? tri__path_join(path, s->settings->output_dir, "best.json")
                              : tri__fail(TRI_RESOURCE, "out of memory");
    if (status == TRI_OK && order[0]->code)
        status = tri__fail((tri_status)s->trial[0].code, "all %d trials failed; the first: %s", s->n, s->trial[0].why);
    if (status == TRI_OK) status = write_best(s, order[0], path);
    if (status == TRI_OK) status = save_ranks(s, order);
    if (status == TRI_OK && s->settings->json) status = print_json(s, order, path);
    else if (status == TRI_OK) status = print_table(s, order);
    if (status == TRI_OK && !s->settings->json) status = print_words(s, order[0], path);
    free(order);
    return status == TRI_OK ? say_lost(s) : status;
}
