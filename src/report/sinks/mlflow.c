/* mlflow.c - MLflow's file store: FOLDER/EXPERIMENT/RUN/{meta.yaml, params/, tags/, metrics/}, a file for each
 * parameter, tag and metric; a line of a metric is "milliseconds value step". docs/reference/formats.md */
#include "report/sinks/log_to.h"

#include "base/text.h"
#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MLflow's ids of experiments are numbers; ours is always this one, so that a second run finds it. */
#define EXPERIMENT "741147051011110116"
enum { METRICS = 256, VALUE_MAX = 6000 }; /* MLflow's own limit of a parameter, in characters */

typedef struct metric {
    char *key;        /* "train/loss"; owned */
    tri_buffer lines; /* not yet written */
} metric;

typedef struct mlflow {
    char run[TRI_PATH_MAX]; /* folder */
    char id[40], *name;     /* name: as JSON, which is YAML too; owned */
    double begun;
    metric metric[METRICS];
    int n;
} mlflow;

__attribute__((format(printf, 3, 4))) static tri_status path_in(char out[static TRI_PATH_MAX], const char *folder,
                                                                 const char *format, ...) {
    char name[TRI_PATH_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return tri__path_join(out, folder, name);
}

/* One line of UTF-8, which is what readers expect. */
static tri_status write_word(const char *folder, const char *kind, const char *key, const char *text) {
    char path[TRI_PATH_MAX];
    tri_buffer clean = {0};
    size_t length = strlen(text), at = 0;
    TRI_TRY(path_in(path, folder, "%s/%s", kind, key));
    for (int n = 0; at < length && n < VALUE_MAX; n++) {
        size_t begin = at;
        int32_t code = tri__utf8_next(text, length, &at);
        if (code < 0) tri__buffer_add(&clean, "\xEF\xBF\xBD", 3);
        else if (code == '\n' || code == '\r') tri__buffer_add(&clean, " ", 1);
        else tri__buffer_add(&clean, text + begin, at - begin);
    }
    tri_status status = clean.failed ? tri__fail(TRI_RESOURCE, "out of memory")
                                     : tri__logged_write(path, TRI_OWN_FRESH, clean.text ? clean.text : "", clean.size);
    tri__buffer_free(&clean);
    return status;
}

static tri_status write_value(const char *folder, const char *kind, const char *key, const tri_json *value) {
    if (tri__json_is_string(value)) return write_word(folder, kind, key, tri__json_string_value(value));
    char *text = tri__json_text(value, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(9));
    if (!text) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_status status = write_word(folder, kind, key, text);
    free(text);
    return status;
}

static tri_status write_params(const mlflow *m, const tri_json *config) {
    const char *key;
    tri_json *value;
    tri__json_each_member((tri_json *)config, key, value) {
        if (tri__json_is_null(value)) continue;
        TRI_TRY(write_value(m->run, "params", key, value));
    }
    return TRI_OK;
}

static tri_status write_tags(const mlflow *m, const tri_logged_run *run) {
    static const char *const facts[] = {"version", "device", "parameters", "rows", "steps"};
    TRI_TRY(write_word(m->run, "tags", "mlflow.source.name", "trident train"));
    TRI_TRY(write_word(m->run, "tags", "mlflow.source.type", "LOCAL"));
    TRI_TRY(write_word(m->run, "tags", "mlflow.runName", run->name));
    TRI_TRY(write_word(m->run, "tags", "trident.run_folder", run->run_folder));
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        char key[64];
        const tri_json *value = tri__json_get(run->facts, facts[i]);
        snprintf(key, sizeof key, "trident.%s", facts[i]);
        if (value) TRI_TRY(write_value(m->run, "tags", key, value));
    }
    return TRI_OK;
}

/* A path as the text of a file URI in YAML: '/' and plain characters stand for themselves. */
static void put_uri(tri_buffer *out, const char *path) {
    tri__buffer_put(out, "\"file://");
    for (const unsigned char *c = (const unsigned char *)path; *c; c++) {
        int plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                    strchr("/-._~", *c);
        tri__buffer_put(out, plain ? "%c" : "%%%02X", *c);
    }
    tri__buffer_put(out, "\"");
}

static tri_status write_meta(const char *folder, tri_buffer *text) {
    char path[TRI_PATH_MAX];
    tri_status status = path_in(path, folder, "meta.yaml");
    if (status == TRI_OK)
        status = text->failed ? tri__fail(TRI_RESOURCE, "out of memory")
                              : tri__file_write(path, text->text, text->size);
    tri__buffer_free(text);
    return status;
}

static tri_status write_experiment(const char *folder, double time) {
    char path[TRI_PATH_MAX];
    tri_buffer text = {0};
    int there;
    TRI_TRY(path_in(path, folder, "meta.yaml"));
    TRI_TRY(tri__file_there(path, &there));
    if (there) return TRI_OK;
    tri__buffer_put(&text, "artifact_location: ");
    put_uri(&text, folder);
    tri__buffer_put(&text,
                    "\ncreation_time: %.0f\nexperiment_id: '" EXPERIMENT "'\nlast_update_time: %.0f\n"
                    "lifecycle_stage: active\nname: trident\n",
                    1e3 * time, 1e3 * time);
    return write_meta(folder, &text);
}

enum { RUNNING = 1, FINISHED = 3, FAILED = 4, KILLED = 5 }; /* MLflow's RunStatus */

static tri_status write_run(const mlflow *m, int run_status, double end) {
    tri_buffer text = {0};
    char artifacts[TRI_PATH_MAX];
    TRI_TRY(path_in(artifacts, m->run, "artifacts"));
    tri__buffer_put(&text, "artifact_uri: ");
    put_uri(&text, artifacts);
    if (run_status == RUNNING) tri__buffer_put(&text, "\nend_time: null");
    else tri__buffer_put(&text, "\nend_time: %.0f", 1e3 * end);
    tri__buffer_put(&text,
                    "\nentry_point_name: ''\nexperiment_id: '" EXPERIMENT "'\nlifecycle_stage: active\nrun_id: %s\n"
                    "run_name: %s\nrun_uuid: %s\nsource_name: ''\nsource_type: 4\nsource_version: ''\n"
                    "start_time: %.0f\nstatus: %d\ntags: []\nuser_id: ''\n",
                    m->id, m->name, m->id, 1e3 * m->begun, run_status);
    return write_meta(m->run, &text);
}

static void free_state(mlflow *m) {
    for (int i = 0; i < m->n; i++) {
        free(m->metric[i].key);
        tri__buffer_free(&m->metric[i].lines);
    }
    free(m->name);
    free(m);
}

static tri_status make_run(mlflow *m, const tri_logged_run *run) {
    static const char *const parts[] = {"params", "tags", "metrics", "artifacts"};
    char experiment[TRI_PATH_MAX], path[TRI_PATH_MAX];
    TRI_TRY(path_in(experiment, run->folder, EXPERIMENT));
    TRI_TRY(path_in(m->run, experiment, "%s", run->id));
    TRI_TRY(tri__folder_make(m->run));
    for (int i = 0; i < 4; i++) {
        TRI_TRY(path_in(path, m->run, "%s", parts[i]));
        if (i < 3) TRI_TRY(tri__folder_remove_all(path)); /* of an earlier start of the run */
        TRI_TRY(tri__folder_make(path));
    }
    TRI_TRY(write_experiment(experiment, run->begun));
    TRI_TRY(write_params(m, tri__json_get(run->facts, "config")));
    TRI_TRY(write_tags(m, run));
    return write_run(m, RUNNING, 0);
}

static tri_status begin(const tri_logged_run *run, void **state) {
    mlflow *m = calloc(1, sizeof *m);
    tri_buffer name = {0};
    size_t size;
    *state = NULL;
    tri__buffer_json(&name, run->name, strlen(run->name));
    if (m) m->name = tri__buffer_take(&name, &size);
    tri__buffer_free(&name);
    if (!m || !m->name) {
        free(m);
        return tri__fail(TRI_RESOURCE, "out of memory");
    }
    snprintf(m->id, sizeof m->id, "%s", run->id);
    m->begun = run->begun;
    tri_status status = make_run(m, run);
    if (status == TRI_OK) *state = m;
    else free_state(m);
    return status;
}

static metric *find_metric(mlflow *m, const char *group, const char *key) {
    char name[256];
    snprintf(name, sizeof name, "%s/%s", group, key);
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->metric[i].key, name)) return &m->metric[i];
    if (m->n == METRICS || !(m->metric[m->n].key = strdup(name))) return NULL;
    return &m->metric[m->n++];
}

static tri_status row(void *state, const tri_logged_row *row) {
    const char *key;
    double value;
    for (size_t at = 0; tri__logged_next(row, &at, &key, &value);) {
        metric *metric = find_metric(state, row->group, key);
        if (!metric) return tri__fail(TRI_RESOURCE, "no room for another metric of MLflow");
        tri__buffer_put(&metric->lines, "%.0f %.9g %lld\n", 1e3 * row->time, value, (long long)row->step);
    }
    return TRI_OK;
}

/* Whole lines at once: who reads meanwhile sees no half of one. */
static tri_status flush(void *state) {
    mlflow *m = state;
    for (int i = 0; i < m->n; i++) {
        char path[TRI_PATH_MAX], parent[TRI_PATH_MAX];
        tri_buffer *lines = &m->metric[i].lines;
        if (!lines->size && !lines->failed) continue;
        if (lines->failed) return tri__fail(TRI_RESOURCE, "out of memory");
        TRI_TRY(path_in(path, m->run, "metrics/%s", m->metric[i].key));
        snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
        TRI_TRY(tri__folder_make(parent));
        TRI_TRY(tri__logged_write(path, TRI_OWN_APPEND, lines->text, lines->size));
        lines->size = 0;
    }
    return TRI_OK;
}

static tri_status end(void *state, tri_logged_end how, double time) {
    static const int status_of[] = {[TRI_LOGGED_DONE] = FINISHED, [TRI_LOGGED_STOPPED] = KILLED,
                                    [TRI_LOGGED_FAILED] = FAILED};
    tri_status status = flush(state), meta = write_run(state, status_of[how], time);
    free_state(state);
    return status != TRI_OK ? status : meta;
}

const tri_log_tool tri__mlflow = {.name = "mlflow", .begin = begin, .row = row, .flush = flush, .end = end};
