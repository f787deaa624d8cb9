/* report.c - `trident report RUN...`: one page of one run, or of several side by side. The folder of a sweep, of folds
 * or seeds is all of its runs. */
#include "cli/cli.h"
#include "job/several.h"

#include "checkpoint/run_set.h"
#include "report/runs/run_data.h"

enum { MOST_RUNS = TRI_WORDS_RUNS };

typedef struct options {
    int64_t rows;
} options;
const tri_option tri__report_options[] = {
    TRI_OWN_ROW(options, "report", INT, rows, .value = "0", .min = 0, .max = 200,
                .help = "show so many of the worst and of the most uncertain validation rows, with their fields (they "
                        "contain your data)"),
    TRI_OWN_END(options)};

/* A page stays below 1 MB: several runs share the points that one would have. */
static tri_run_data_options options_of(int runs, int64_t rows) {
    int points = 2000 / runs, legs = 6000 / runs;
    return (tri_run_data_options){.points = points > 80 ? points : 80, .legs = legs > 400 ? legs : 400,
                                  .rows = (int)rows};
}

/* of: what kind of set each folder is in; NULL: none is in one. A trial of a sweep that did not begin is left out. */
static tri_status make_page(const tri_cli *cli, const char *const *folders, const tri_run_set_kind *of, int n,
                            int64_t rows, tri_json **runs, char **html, size_t *size) {
    const tri_run_data_options options = options_of(n, rows);
    *html = NULL;
    *runs = tri__json_array();
    for (int i = 0; i < n; i++) {
        tri_json *run;
        tri_status status = tri__run_data(folders[i], &options, &run);
        int left_out = status == TRI_DATA && of && of[i] == TRI_RUN_SET_SWEEP;
        if (left_out) fprintf(cli->err, "%s is left out: it has not begun\n", folders[i]);
        if (left_out && (i < n - 1 || tri__json_size(*runs))) continue;
        TRI_TRY(status);
        if (of && of[i]) tri__json_set_new(run, "set", tri__json_string(tri__run_set_words(of[i])));
        tri__json_append_new(*runs, run);
    }
    return tri__report_page(*runs, 0, html, size);
}

void tri__report_write(const tri_cli *cli, const char *folder) {
    char path[TRI_PATH_MAX];
    TRI_OWNED(tri__free_at) char *html = NULL;
    size_t size;
    TRI_OWNED(tri__json_drop) tri_json *runs = NULL;
    TRI_KEEP_WORDS();
    tri_status status = tri__path_join(path, folder, "report.html");
    if (status == TRI_OK) status = make_page(cli, &folder, NULL, 1, 0, &runs, &html, &size);
    if (status == TRI_OK) status = tri__file_write(path, html, size);
    int no_run = status == TRI_NOINPUT || status == TRI_DATA; /* what is missing or damaged in a run is no failure */
    if (status != TRI_OK && !no_run) fprintf(cli->err, "warning: there is no report: %s\n", tri_error());
}

/* One line for each run, and what is missing. */
static void print_runs(const tri_cli *cli, const tri_json *runs) {
    tri__json_items(runs, run) {
        fprintf(cli->err, "%s  %s\n", tri__text_in(run, "folder"), tri__text_in(run, "words"));
        tri__json_items(tri__json_get(run, "missing"), text)
            fprintf(cli->err, "  missing: %s\n", tri__json_string_value(text));
    }
}

/* The figures of several runs' best validations; of folds or seeds also their mean and spread. */
static tri_status print_figures(const tri_cli *cli, const tri_json *runs, tri_run_set_kind kind) {
    tri_json *members = tri__json_array();
    tri__json_items(runs, run) {
        const tri_json *best = tri__json_get(tri__json_get(run, "summary"), "best");
        tri__json_append_new(members, tri__json_pack("{s:O, s:O?}", "folder", tri__json_get(run, "folder"), "figures",
                                                     tri__json_get(best, "figures")));
    }
    TRI_OWNED(tri__json_drop) tri_json *facts = tri__members_json("runs", members);
    if (!facts) return tri__fail(TRI_RESOURCE, "out of memory");
    return tri__members_print(cli, facts, "runs", "folder", kind == TRI_RUN_SET_FOLDS || kind == TRI_RUN_SET_SEEDS);
}

/* The folders of a page. */
typedef struct shown {
    const char *folder[MOST_RUNS]; /* borrowed from the words and sets */
    tri_run_set_kind kind[MOST_RUNS];
    int n;
    tri_run_set set[MOST_RUNS];    /* [words] */
} shown;

/* Where there are too many, the first of each set, of a sweep the best: said aloud. */
static tri_status find_runs(tri_cli *cli, const char *const *words, int n_words, shown *to) {
    int left = MOST_RUNS;
    for (int i = 0; i < n_words; i++) {
        TRI_TRY(tri__run_set_read(words[i], &to->set[i]));
        const tri_run_set *set = &to->set[i];
        int n = set->n ? set->n : 1, most = left - (n_words - i - 1);
        if (n > most)
            fprintf(cli->err, "%s: %d %s, of which the %s %d are shown: a page has at most %d runs\n", words[i], n,
                    tri__run_set_words(set->kind), set->is_ranked ? "best" : "first", most, MOST_RUNS);
        for (int k = 0; k < n && k < most; k++, left--) {
            to->folder[to->n] = set->n ? set->folder[k] : words[i];
            to->kind[to->n++] = set->kind;
        }
    }
    return TRI_OK;
}

static tri_status report(tri_cli *cli, const tri_settings *settings, const options *own, const char *const *words,
                         int n, const shown *of) {
    char path[TRI_PATH_MAX], own_page[TRI_PATH_MAX], bytes[32];
    TRI_OWNED(tri__free_at) char *html = NULL;
    size_t size = 0;
    TRI_OWNED(tri__json_drop) tri_json *runs = NULL;
    TRI_TRY(tri__path_join(own_page, words[0], "report.html"));
    TRI_TRY(tri__path_join(path, "", settings->output ? settings->output : n == 1 ? own_page : "report.html"));
    const tri_output output = {.option = "-o", .path = path, .own = n == 1 ? own_page : NULL, .words = words,
                               .n_words = n};
    if (!settings->json && (settings->output || n > 1)) TRI_TRY(tri__output_check(settings, &output));
    TRI_TRY(make_page(cli, of->folder, of->kind, of->n, own->rows, &runs, &html, &size));
    if (settings->json) return tri__print_json_new(cli->out, tri__report_json(runs, 0));
    TRI_TRY(tri__file_deliver(path, html, size, tri__output_replaces(settings, &output)));
    if (settings->quiet) return TRI_OK;
    print_runs(cli, runs);
    if (of->n > 1) TRI_TRY(print_figures(cli, runs, n == 1 ? of->kind[0] : TRI_RUN_SET_NONE));
    fprintf(cli->out, "%s (%s)\n", path, tri__text_bytes((double)size, bytes));
    return TRI_OK;
}

tri_status tri__command_report(tri_cli *cli, tri_command_call *call) {
    shown of = {0};
    if (!call->n_words)
        return tri__fail(TRI_USAGE, "report needs a run folder: trident report RUN..., up to %d of them", MOST_RUNS);
    tri_status status = find_runs(cli, call->words, call->n_words, &of);
    if (status == TRI_OK) status = report(cli, &call->settings, call->own, call->words, call->n_words, &of);
    for (int i = 0; i < call->n_words; i++) tri__run_set_free(&of.set[i]);
    return status;
}
