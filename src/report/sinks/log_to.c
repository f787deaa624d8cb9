/* log_to.c - the sink behind --log-to. `log-to.json` in the run folder keeps the names under which other tools know the
 * run, so that a resumed run goes on under the same ones. */
#include "report/sinks/log_to.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "report/text/json_numbers.h"
#include "report/sinks/sinks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TARGETS = 8, ID = 33 };
static const double flush_seconds = 2;
static const tri_log_tool *const tools[] = {&tri__mlflow, &tri__wandb};
enum { TOOLS = sizeof tools / sizeof *tools };

typedef struct log_target {
    const tri_log_tool *tool;
    char *asked;          /* TOOL:FOLDER; owned */
    const char *folder;   /* in `asked` */
    void *state;          /* NULL before START */
} log_target;

typedef struct log_to {
    char folder[TRI_PATH_MAX]; /* the run folder */
    log_target target[TARGETS];
    int n, ended;
    double time;          /* of the last event */
    double flushed;       /* tri__clock() */
} log_to;

/* ---- helpers of tools ---- */

int tri__logged_next(const tri_logged_row *row, size_t *at, const char **key, double *value) {
    while ((*key = tri__json_object_key(row->line, *at))) {
        const tri_json *member = tri__json_object_value(row->line, (*at)++);
        if (!tri__json_is_number(member) || !strcmp(*key, "ts") || !strcmp(*key, "step")) continue;
        *value = tri__json_number_value(member);
        return 1;
    }
    return 0;
}

tri_status tri__logged_write(const char *path, tri_own_way way, const char *text, size_t size) {
    int fd;
    TRI_TRY(tri__file_own(path, way, &fd));
    tri_status status = tri__write_all(fd, text, size, path);
    close(fd);
    return status;
}

/* ---- targets ---- */

static tri_status find_tool(const char *asked, const tri_log_tool **tool, const char **folder) {
    const char *colon = strchr(asked, ':'), *names[TOOLS];
    char word[64];
    for (int i = 0; i < TOOLS; i++) {
        names[i] = tools[i]->name;
        size_t length = strlen(names[i]);
        if (strncmp(asked, names[i], length) || asked[length] != ':' || !asked[length + 1]) continue;
        *tool = tools[i], *folder = asked + length + 1;
        return TRI_OK;
    }
    snprintf(word, sizeof word, "%.*s", (int)(colon ? colon - asked : 60), asked);
    const char *near = tri__text_nearest(word, names, TOOLS);
    return tri__fail(TRI_USAGE,
                     "--log-to %s: mlflow:FOLDER or wandb:FOLDER is expected%s%s%s; TensorBoard's files are always "
                     "in the run folder",
                     asked, near ? ", as in " : "", near ? near : "", near ? ":runs" : "");
}

tri_status tri__log_to_check(char *const *asked, int n) {
    const tri_log_tool *tool;
    const char *folder;
    if (n > TARGETS) return tri__fail(TRI_USAGE, "--log-to: %d targets at most", TARGETS);
    for (int i = 0; i < n; i++) TRI_TRY(find_tool(asked[i], &tool, &folder));
    return TRI_OK;
}

/* ---- names that last ---- */

static void new_id(const log_to *l, double time, char id[static ID]) {
    const struct {
        double time, clock;
        long process;
    } now = {time, tri__clock(), (long)getpid()};
    uint64_t a = tri__hash64(1, &now, sizeof now), b = tri__hash64(a, l->folder, strlen(l->folder));
    snprintf(id, ID, "%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
}

static int is_id(const char *text) {
    return text && strlen(text) == ID - 1 && strspn(text, "0123456789abcdef") == ID - 1;
}

/* The names of an earlier start of this run, or new ones, which are added. */
static tri_status name_run(const log_to *l, const char *folder, const log_target *target, const tri_event *event,
                           tri_json *names, char id[static ID], double *begun) {
    char key[TRI_PATH_MAX + 16];
    snprintf(key, sizeof key, "%s:%s", target->tool->name, folder);
    const tri_json *kept = event->step > 0 ? tri__json_get(names, key) : NULL;
    const char *old = tri__json_string_value(tri__json_get(kept, "id"));
    if (is_id(old)) {
        memcpy(id, old, ID);
        *begun = (double)tri__json_integer_value(tri__json_get(kept, "begun_ms")) / 1e3;
        return TRI_OK;
    }
    new_id(l, event->time, id);
    tri_json_int ms = (tri_json_int)(1e3 * event->time);
    *begun = (double)ms / 1e3;
    tri__json_set_new(names, key, tri__json_pack("{s:s, s:I}", "id", id, "begun_ms", ms));
    return tri__json_is_whole(names) ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* ---- lines ---- */

static tri_status put_line(log_to *l, log_target *only, const tri_json *line) {
    const char *event = tri__json_string_value(tri__json_get(line, "event"));
    int is_train = event && !strcmp(event, "train"), is_epoch = event && !strcmp(event, "epoch");
    if (!is_train && !is_epoch) return TRI_OK;
    const tri_logged_row row = {.group = is_train ? "train" : "eval", .line = line,
                                .time = tri__json_number_value(tri__json_get(line, "ts")),
                                .step = tri__json_integer_value(tri__json_get(line, "step"))};
    for (log_target *t = l->target; t < l->target + l->n; t++)
        if (!only || t == only) TRI_TRY(t->tool->row(t->state, &row));
    return TRI_OK;
}

/* All lines of metrics.jsonl, which the run that goes on has cut to those that stay. */
static tri_status replay(log_to *l, log_target *target, int64_t step) {
    char path[TRI_PATH_MAX], *text;
    size_t size;
    int there;
    TRI_TRY(tri__path_join(path, l->folder, "metrics.jsonl"));
    TRI_TRY(tri__file_there(path, &there));
    if (!there) return TRI_OK;
    TRI_TRY(tri__file_read(path, SIZE_MAX / 2, &text, &size));
    tri_status status = TRI_OK;
    for (size_t at = 0, length; status == TRI_OK && at < size; at += length + 1) {
        const char *end = memchr(text + at, '\n', size - at);
        tri_json *line;
        length = end ? (size_t)(end - text) - at : size - at;
        if (!end || tri__json_parse(text + at, length, path, TRI_DATA, &line) != TRI_OK) continue; /* being written */
        if (tri__json_integer_value(tri__json_get(line, "step")) <= step) status = put_line(l, target, line);
        tri__json_decref(line);
    }
    free(text);
    return status;
}

static tri_status begin(log_to *l, log_target *target, const tri_event *event, tri_json *names) {
    char folder[TRI_PATH_MAX], run[TRI_PATH_MAX], id[ID];
    double begun;
    TRI_TRY(tri__folder_make(target->folder));
    if (!tri__path_real(target->folder, folder) || !tri__path_real(l->folder, run))
        return tri__fail_errno("find the folder of --log-to", target->asked, TRI_IO);
    TRI_TRY(name_run(l, folder, target, event, names, id, &begun));
    const char *slash = strrchr(run, '/');
    const tri_logged_run logged = {.folder = folder, .run_folder = run, .name = slash && slash[1] ? slash + 1 : "run",
                                   .id = id, .begun = begun, .facts = event->facts};
    TRI_TRY(target->tool->begin(&logged, &target->state));
    return event->step > 0 ? replay(l, target, event->step) : TRI_OK;
}

static tri_status start(log_to *l, const tri_event *event) {
    char path[TRI_PATH_MAX];
    tri_json *names = NULL;
    int there = 0;
    tri_status status = tri__path_join(path, l->folder, "log-to.json");
    if (status == TRI_OK && event->step > 0) status = tri__file_there(path, &there);
    if (status == TRI_OK && there) {
        status = tri__json_load(path, TRI_DATA, &names);
        if (status == TRI_DATA) status = TRI_OK; /* damaged: new names */
    }
    if (!names && status == TRI_OK && !(names = tri__json_object())) status = tri__fail(TRI_RESOURCE, "out of memory");
    for (int i = 0; i < l->n && status == TRI_OK; i++) status = begin(l, &l->target[i], event, names);
    if (status == TRI_OK) status = tri__json_save(path, names);
    tri__json_decref(names);
    return status;
}

static tri_status flush(log_to *l) {
    for (int i = 0; i < l->n; i++) TRI_TRY(l->target[i].tool->flush(l->target[i].state));
    l->flushed = tri__clock();
    return TRI_OK;
}

/* The event as its line of metrics.jsonl. */
static tri_status line_of(const tri_event *event, tri_json **line) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_status status = tri__metrics_line(out, event);
    if (!tri__memstream_close(out, &text)) status = tri__fail(TRI_RESOURCE, "out of memory");
    if (status == TRI_OK) status = tri__json_parse(text, size, "metrics.jsonl", TRI_INTERNAL, line);
    free(text);
    return status;
}

static tri_status emit(void *context, const tri_event *event) {
    log_to *l = context;
    tri_json *line;
    if (!l->n) return TRI_OK;
    l->time = event->time;
    if (event->kind == TRI_EVENT_START && !l->target[0].state) {
        TRI_TRY(start(l, event));
        return flush(l);
    }
    if (!l->target[0].state) return TRI_OK;
    l->ended |= event->kind == TRI_EVENT_END;
    int is_row = event->kind == TRI_EVENT_TRAIN || event->kind == TRI_EVENT_EPOCH;
    if (is_row) {
        TRI_TRY(line_of(event, &line));
        tri_status status = put_line(l, NULL, line);
        tri__json_decref(line);
        TRI_TRY(status);
    }
    int commits = event->kind == TRI_EVENT_EPOCH || event->kind == TRI_EVENT_SAVE ||
                  event->kind == TRI_EVENT_CHECKPOINT || event->kind == TRI_EVENT_END;
    return commits || tri__clock() - l->flushed > flush_seconds ? flush(l) : TRI_OK;
}

tri_status tri__log_to_open(const char *folder, char *const *asked, int n, tri_sink *sink) {
    *sink = (tri_sink){0};
    TRI_TRY(tri__log_to_check(asked, n));
    log_to *l = calloc(1, sizeof *l);
    if (!l) return tri__fail(TRI_RESOURCE, "out of memory");
    *sink = (tri_sink){.emit = emit, .context = l};
    tri_status status = tri__path_join(l->folder, folder, "");
    for (; l->n < n && status == TRI_OK; l->n++) {
        log_target *target = &l->target[l->n];
        if (!(target->asked = strdup(asked[l->n]))) status = tri__fail(TRI_RESOURCE, "out of memory");
        else status = find_tool(target->asked, &target->tool, &target->folder);
    }
    if (status != TRI_OK) (void)tri__log_to_close(sink, status);
    return status;
}

tri_status tri__log_to_close(tri_sink *sink, tri_status run) {
    log_to *l = sink->context;
    tri_status first = TRI_OK;
    for (int i = 0; l && i < l->n; i++) {
        log_target *target = &l->target[i];
        tri_logged_end how = l->ended && run == TRI_OK ? TRI_LOGGED_DONE
                             : run == TRI_STOPPED      ? TRI_LOGGED_STOPPED
                                                       : TRI_LOGGED_FAILED;
        tri_status status = target->state ? target->tool->end(target->state, how, l->time) : TRI_OK;
        if (first == TRI_OK) first = status;
        free(target->asked);
    }
    free(l);
    *sink = (tri_sink){0};
    return first;
}
