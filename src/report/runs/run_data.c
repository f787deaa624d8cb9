/* run_data.c - a run folder as one object: its files, its checkpoints, how it stands. */
#include "report/runs/run_data.h"

#include "checkpoint/folders.h"
#include "checkpoint/checkpoint.h"
#include "report/runs/run_parts.h"

#include <unistd.h>

enum { MANIFESTS = 24, RANKS = 64, SMALL_FILE = 64 << 20 };

void tri__run_missing(tri_json *run, const char *format, ...) {
    char text[1024];
    TRI_FORMAT(text, sizeof text, format);
    tri_json *all = tri__json_get(run, "missing");
    tri__json_items(all, one) if (!strcmp(tri__json_string_value(one), text)) return;
    tri__json_append_new(all, tri__json_string(text));
}

tri_status tri__run_load(const char *folder, const char *name, int expected, tri_json *run, tri_json **out) {
    TRI_OWNED(tri__free_at) char *text = NULL;
    size_t size;
    *out = NULL;
    TRI_PATH(path, folder, name);
    tri_status status = tri__file_read(path, SMALL_FILE, &text, &size);
    if (status == TRI_NOINPUT && !expected) return TRI_OK;
    if (status == TRI_OK) status = tri__json_parse(text, size, name, TRI_DATA, out);
    if (status == TRI_RESOURCE) return status;
    if (status != TRI_OK) tri__run_missing(run, "%s cannot be read: %s", name, tri_error());
    return TRI_OK;
}

/* ---- checkpoints ---- */

/* The row of a step among those that events named; made if there is none. */
static tri_json *row_of(tri_json *rows, int64_t step) {
    tri__json_items(rows, row) if (tri__whole_in(row, "step") == step) return row;
    tri_json *row = tri__json_pack("{s:I}", "step", (tri_json_int)step);
    return tri__json_append_new(rows, row) ? NULL : row;
}

static tri_status describe(const char *folder, int64_t step, int64_t best, tri_json *rows) {
    char path[TRI_PATH_MAX];
    TRI_OWNED(tri__json_drop) tri_json *manifest = NULL;
    tri_json *row = row_of(rows, step);
    TRI_TRY(tri__checkpoint_name(path, folder, step, ""));
    tri_status status = tri__manifest_load(path, &manifest);
    if (status == TRI_OK) status = tri__manifest_check(path, manifest, 0, 0);
    if (status == TRI_RESOURCE || !row) return tri__fail(TRI_RESOURCE, "no memory for the checkpoints of %s", folder);
    tri__json_set_new(row, "valid", tri__json_boolean(status == TRI_OK));
    if (status != TRI_OK) tri__json_set_new(row, "reason", tri__json_string(tri_error()));
    tri__json_set_new(row, "best", tri__json_boolean(step == best));
    if (manifest) {
        tri__json_set_new(row, "bytes", tri__json_integer(tri__manifest_bytes(manifest)));
        const tri_json *mesh = tri__json_get(tri__json_get(manifest, "state"), "mesh");
        if (mesh) tri__json_set(row, "mesh", mesh);
    }
    return TRI_OK;
}

/* -1: the name is not that of a checkpoint. */
static int64_t step_of(const char *name) {
    const char *rest = "";
    int64_t step = tri__checkpoint_named(name, &rest);
    return *rest ? -1 : step;
}

static tri_status find_checkpoints(const char *folder, const tri_names *names, tri_json *run) {
    int64_t best = -1;
    int n = 0;
    tri_status status = tri__checkpoint_best(folder, &best);
    if (status == TRI_RESOURCE) return status;
    if (status != TRI_OK) tri__run_missing(run, "best_checkpoint.json cannot be read: %s", tri_error());
    for (int i = names->n - 1; i >= 0; i--) {
        int64_t step = step_of(names->name[i]);
        if (step < 0) continue;
        if (++n > MANIFESTS) break;
        TRI_TRY(describe(folder, step, best, tri__json_get(run, "checkpoints")));
    }
    return TRI_OK;
}

/* ---- how it stands ---- */

static int64_t newest_saved(const tri_json *run) {
    int64_t newest = -1;
    tri__json_items(tri__json_get(run, "checkpoints"), row)
        if (tri__json_is_true(tri__json_get(row, "valid")) && tri__whole_in(row, "step") > newest)
            newest = tri__whole_in(row, "step");
    return newest;
}

/* Of a run that neither ended nor failed nor goes on. */
static const char *broken_off(int64_t step, const char *of, int64_t saved, char words[static 512]) {
    if (saved == step && step > 0) {
        snprintf(words, 512, "stopped at step %lld%s; its state is saved: the same command continues", (long long)step,
                 of);
        return "stopped";
    }
    snprintf(words, 512, "ended at step %lld%s without a word: it was killed, or the machine went down",
             (long long)step, of);
    if (saved >= 0) tri__text_append(words, 512, "; ", "the same command continues from step %lld", (long long)saved);
    else tri__text_append(words, 512, "; ", "there is no checkpoint to continue from");
    return "ended";
}

static void judge(const tri_run_reader *reader, tri_json *run) {
    char words[512], of[40] = "", time[32];
    const tri_json *error = tri__json_get(run, "error"), *summary = tri__json_get(run, "summary");
    int64_t step = tri__whole_in(run, "step"), steps = tri__whole_in(run, "steps"), saved = newest_saved(run);
    const char *state;
    if (steps > 0) snprintf(of, sizeof of, " of %lld", (long long)steps);
    if (tri__lock_held(reader->folder)) {
        state = "running";
        snprintf(words, sizeof words, "running: step %lld%s", (long long)step, of);
    } else if (error) {
        const char *message = tri__text_in(error, "message");
        state = "failed";
        snprintf(words, sizeof words, "failed at step %lld%s: %s", (long long)step, of,
                 message ? message : "error.json does not say why");
    } else if (reader->lines.ended || (summary && (tri__whole_in(summary, "steps") == steps || !reader->lines.lines))) {
        double seconds = tri__number_in(summary, "seconds");
        state = "finished";
        int early = tri__json_is_true(tri__json_get(summary, "stopped_early"));
        snprintf(words, sizeof words, "finished%s: %lld%s steps%s%s", early ? " early" : "",
                 (long long)(step ? step : tri__whole_in(summary, "steps")), early ? of : "", seconds > 0 ? " in " : "",
                 seconds > 0 ? tri__text_seconds(seconds, time) : "");
    } else {
        state = broken_off(step, of, saved, words);
    }
    tri__json_set_new(run, "state", tri__json_string(state));
    tri__json_set_new(run, "words", tri__json_string(words));
    if (reader->torn && strcmp(state, "running"))
        tri__run_missing(run, "metrics.jsonl ends in the middle of a line, which is left out");
    if (reader->found && !tri__json_get(run, "facts"))
        tri__run_missing(run, "metrics.jsonl has no start event: settings and machine are unknown");
    if (summary && step > tri__whole_in(summary, "steps"))
        tri__run_missing(run, "summary.json is of step %lld, before the run went on",
                         (long long)tri__whole_in(summary, "steps"));
    if (!summary && !strcmp(state, "finished")) tri__run_missing(run, "summary.json: no such file");
}

/* ---- the folder ---- */

static tri_status take_summary(const char *folder, tri_json *run) {
    tri_json *summary;
    TRI_TRY(tri__run_load(folder, "summary.json", 0, run, &summary));
    tri_json *ranks = tri__json_get(summary, "ranks"), *first = tri__json_array();
    tri__json_each(ranks, i, one) if (i < RANKS) tri__json_append(first, one);
    tri__json_set_filled(run, "ranks", first);
    if (ranks) tri__json_set_new(run, "n_ranks", tri__json_integer((tri_json_int)tri__json_size(ranks)));
    if (summary) {
        tri__json_del(summary, "ranks");
        tri__json_set_new(run, "summary", summary);
    }
    return TRI_OK;
}

/* Whether any name in the folder is one that a run writes. */
static int is_run(const tri_names *names) {
    static const char *const files[] = {"metrics.jsonl", "summary.json", "error.json", "best_checkpoint.json"};
    for (int i = 0; i < names->n; i++)
        if (step_of(names->name[i]) >= 0 ||
            tri__text_index(names->name[i], files, sizeof files / sizeof *files) >= 0)
            return 1;
    return 0;
}

static tri_status fill(tri_run_reader *reader, const tri_names *names, const tri_run_data_options *options,
                       tri_json *run) {
    const char *folder = reader->folder;
    tri_json *error;
    TRI_TRY(tri__run_follow(reader, options, run));
    TRI_TRY(take_summary(folder, run));
    TRI_TRY(tri__run_load(folder, "error.json", 0, run, &error));
    if (error) tri__json_set_new(run, "error", error);
    TRI_TRY(find_checkpoints(folder, names, run));
    TRI_TRY(tri__run_predictions(folder, options, run));
    TRI_TRY(tri__run_profiles(folder, names, options, run));
    judge(reader, run);
    tri__run_binding(run);
    return tri__json_is_whole(run) ? TRI_OK : tri__fail(TRI_RESOURCE, "no memory for the data of %s", folder);
}

/* The last part of a path: "run" of "some/run/". */
static tri_json *name_of(const char *path) {
    char real[TRI_PATH_MAX];
    if (!tri__path_real(path, real)) return tri__json_string(path);
    const char *slash = strrchr(real, '/');
    return tri__json_string(slash && slash[1] ? slash + 1 : real);
}

static void reader_drop(tri_run_reader **at) { tri__run_reader_close(*at); }

tri_status tri__run_reader_open(const char *folder, tri_run_reader **out) {
    TRI_OWNED(reader_drop) tri_run_reader *reader = calloc(1, sizeof *reader);
    *out = NULL;
    if (!reader) return tri__fail(TRI_RESOURCE, "no memory for the data of %s", folder);
    tri__run_lines_open(&reader->lines);
    TRI_TRY(tri__path_join(reader->path, folder, "metrics.jsonl"));
    snprintf(reader->folder, sizeof reader->folder, "%s", folder);
    *out = TRI_GIVE(reader);
    return TRI_OK;
}

void tri__run_reader_close(tri_run_reader *reader) {
    if (reader) tri__run_lines_close(&reader->lines);
    free(reader);
}

tri_status tri__run_data(const char *folder, const tri_run_data_options *options, tri_json **out) {
    TRI_OWNED(reader_drop) tri_run_reader *reader = NULL;
    *out = NULL;
    TRI_TRY(tri__run_reader_open(folder, &reader));
    return tri__run_reader_data(reader, options, out);
}

tri_status tri__run_reader_data(tri_run_reader *reader, const tri_run_data_options *options, tri_json **out) {
    const char *folder = reader->folder;
    TRI_OWNED(tri__names_free) tri_names names = {0};
    tri_kind kind;
    *out = NULL;
    TRI_TRY(tri__path_kind(folder, &kind));
    if (kind == TRI_KIND_NONE) return tri__fail(TRI_NOINPUT, "%s: no such folder; a run folder is expected", folder);
    if (kind != TRI_KIND_FOLDER) return tri__fail(TRI_DATA, "%s is not a folder; a run folder is expected", folder);
    TRI_TRY(tri__folder_list(folder, &names));
    if (!is_run(&names))
        return tri__fail(TRI_DATA, "%s is not a run folder: it has no metrics.jsonl, summary.json, error.json or "
                                   "checkpoint-<step>; --output-dir of `trident train` names one", folder);
    TRI_OWNED(tri__json_drop) tri_json *run = tri__json_pack("{s:o, s:s, s:o}", "name", name_of(folder), "folder",
                                                             folder, "missing", tri__json_array());
    if (!run) return tri__fail(TRI_RESOURCE, "no memory for the data of %s", folder);
    TRI_TRY(fill(reader, &names, options, run));
    *out = TRI_GIVE(run);
    return TRI_OK;
}

tri_json *tri__report_json(const tri_json *runs, int live) {
    return tri__json_pack("{s:i, s:s, s:b, s:I, s:O}", "format", 1, "version", tri_version(), "live", live, "made",
                          (tri_json_int)tri__clock_wall(), "runs", runs);
}

char *tri__report_text(const tri_json *runs, int live) {
    TRI_OWNED(tri__json_drop) tri_json *all = tri__report_json(runs, live);
    return all ? tri__json_text(all, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(9)) : NULL;
}
