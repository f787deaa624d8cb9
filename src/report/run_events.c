/* run_events.c - metrics.jsonl as curves and lists. Lines that are not JSON, or whose step goes backwards, are damaged:
 * they are counted and left out. */
#include "report/run_line.h"
#include "report/run_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 32, KEY_BYTES = 40, WARNINGS = 50, FIELDS = 48 };

/* Train events as rows: one for each step. */
typedef struct events {
    char key[COLUMNS][KEY_BYTES];
    int n_keys;
    double *step, *time, *epoch; /* [n] */
    double *value;               /* [n, COLUMNS]; NaN: not in that event */
    int64_t n, room;
    double last_step;            /* of any event */
    int64_t lines, damaged;
    tri_json *run, *starts, *checkpoints, *warnings, *validations;
    const char *path;
    int64_t n_warnings;
    int ended;
} events;

static int grow(events *e) {
    if (e->n < e->room) return 1;
    int64_t room = e->room ? 2 * e->room : 1024;
    double **all[] = {&e->step, &e->time, &e->epoch, &e->value};
    for (int i = 0; i < 4; i++) {
        double *more = realloc(*all[i], (size_t)room * (i == 3 ? COLUMNS : 1) * sizeof *more);
        if (!more) return 0;
        *all[i] = more;
    }
    e->room = room;
    return 1;
}

/* The column of a key, made if it is new; -1: there are too many. `hint`: where it was in the last event. */
static int column_of(events *e, const tri_line_field *field, int hint) {
    size_t length = (size_t)field->key_length;
    if (length >= KEY_BYTES) return -1;
    if (hint < e->n_keys && memcmp(e->key[hint], field->key, length) == 0 && !e->key[hint][length]) return hint;
    for (int c = 0; c < e->n_keys; c++)
        if (memcmp(e->key[c], field->key, length) == 0 && !e->key[c][length]) return c;
    if (e->n_keys == COLUMNS) return -1;
    memcpy(e->key[e->n_keys], field->key, length);
    e->key[e->n_keys][length] = 0;
    return e->n_keys++;
}

static int is_coordinate(const tri_line_field *field) {
    static const char *const names[] = {"ts", "step", "epoch", "event"};
    for (int i = 0; i < 4; i++)
        if (strlen(names[i]) == (size_t)field->key_length && !memcmp(names[i], field->key, strlen(names[i]))) return 1;
    return 0;
}

static double number_of(const tri_line_field *fields, int n, const char *key) {
    const tri_line_field *field = tri__line_field(fields, n, key);
    return field && field->kind == 'n' ? field->number : NAN;
}

/* Steps rise. Of two lines that disagree, the one that fits its neighbours is right. 0: this one is damaged. */
static int accept_step(events *e, double step) {
    if (!(step >= 0) || step > 1e15) return 0;
    if (!e->n || step > e->step[e->n - 1]) return 1;
    if (e->n > 1 && step <= e->step[e->n - 2]) return 0;
    e->n--, e->damaged++;
    return 1;
}

static tri_status take_train(events *e, const tri_line_field *fields, int n) {
    double step = number_of(fields, n, "step");
    if (!accept_step(e, step)) {
        e->damaged++;
        return TRI_OK;
    }
    if (!grow(e)) return tri__fail(TRI_RESOURCE, "no memory for the events of %s", e->path);
    double *row = e->value + e->n * COLUMNS;
    for (int c = 0; c < COLUMNS; c++) row[c] = NAN;
    for (int i = 0, hint = 0; i < n; i++) {
        if (is_coordinate(&fields[i]) || (fields[i].kind != 'n' && fields[i].kind != '0')) continue;
        int c = column_of(e, &fields[i], hint);
        if (c >= 0) row[c] = fields[i].kind == 'n' ? fields[i].number : NAN, hint = c + 1;
    }
    e->step[e->n] = step;
    e->time[e->n] = number_of(fields, n, "ts");
    e->epoch[e->n++] = number_of(fields, n, "epoch");
    return TRI_OK;
}

/* Whole seconds: 9 digits, which is what JSON is written with, are not enough for more. */
static tri_json *time_json(double seconds) {
    return seconds > 0 && seconds < 1e15 ? tri__json_integer((tri_json_int)seconds) : tri__json_null();
}
static tri_json *time_of(const tri_json *event) {
    return time_json(tri__json_number_value(tri__json_get(event, "ts")));
}

/* The event without its name, `ts` as `time`. */
static tri_json *listed(const tri_json *from) {
    tri_json *row = tri__json_object(), *value;
    const char *key;
    tri__json_set_new(row, "time", time_of(from));
    tri__json_each_member(from, key, value)
        if (strcmp(key, "event") && strcmp(key, "ts")) tri__json_set(row, key, value);
    return row;
}

/* {key: [was, now]} */
static tri_json *changes(const tri_json *was, const tri_json *now) {
    tri_json *all = tri__json_object(), *value;
    const char *key;
    tri__json_each_member(now, key, value) {
        const tri_json *before = tri__json_get(was, key);
        if (was && !tri__json_equal(before, value))
            tri__json_set_new(all, key, tri__json_pack("[O?, O?]", before, value));
    }
    return all;
}

static void take_start(events *e, const tri_json *event) {
    tri_json *facts = tri__json_object(), *value;
    const tri_json *config = tri__json_get(event, "config");
    const char *key;
    tri__json_each_member(event, key, value)
        if (strcmp(key, "config") && strcmp(key, "event") && strcmp(key, "ts")) tri__json_set(facts, key, value);
    tri__json_append_new(
        e->starts, tri__json_pack("{s:o, s:O?, s:O?, s:o}", "time", time_of(event), "step",
                                  tri__json_get(event, "step"), "version", tri__json_get(event, "version"), "changed",
                                  changes(tri__json_get(e->run, "config"), config)));
    tri__json_set_new(e->run, "facts", facts);
    if (tri__json_is_object(config)) {
        tri__json_set(e->run, "config", config);
        tri__json_set(e->run, "epochs", tri__json_get(config, "epochs"));
    }
    if (tri__json_is_number(tri__json_get(event, "steps")))
        tri__json_set(e->run, "steps", tri__json_get(event, "steps"));
    e->ended = 0;
}

static void take_other(events *e, const char *kind, const tri_json *event) {
    const tri_json *time = tri__json_get(event, "ts");
    double step = tri__json_number_value(tri__json_get(event, "step"));
    if (step > e->last_step && step < 1e15) e->last_step = step;
    if (tri__json_is_number(time)) {
        if (!tri__json_get(e->run, "started")) tri__json_set_new(e->run, "started", time_of(event));
        tri__json_set_new(e->run, "updated", time_of(event));
    }
    if (!strcmp(kind, "start")) take_start(e, event);
    else if (!strcmp(kind, "epoch")) tri__json_append_new(e->validations, listed(event));
    else if (!strcmp(kind, "checkpoint")) tri__json_append_new(e->checkpoints, listed(event));
    else if (!strcmp(kind, "end")) e->ended = 1;
    else if (!strcmp(kind, "warn") && ++e->n_warnings <= WARNINGS) tri__json_append_new(e->warnings, listed(event));
}

static tri_status take_line(events *e, const char *line, size_t length) {
    tri_line_field fields[FIELDS];
    int n = tri__line_fields(line, length, fields, FIELDS);
    const tri_line_field *kind = n < 0 ? NULL : tri__line_field(fields, n, "event");
    e->lines++;
    if (kind && kind->kind == 's' && kind->length == 5 && !memcmp(kind->text, "train", 5))
        return take_train(e, fields, n);
    tri_json *event = NULL;
    tri_status status = tri__json_parse(line, length, e->path, TRI_DATA, &event);
    const char *name = tri__json_string_value(tri__json_get(event, "event"));
    if (status == TRI_OK && name) take_other(e, name, event);
    else if (status != TRI_RESOURCE) e->damaged++;
    tri__json_decref(event);
    return status == TRI_RESOURCE ? status : TRI_OK;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of a column over the last half of the steps; NaN: none. values: [n] scratch. */
static double median(const events *e, const char *key, double *values) {
    int column = 0;
    int64_t n = 0;
    while (column < e->n_keys && strcmp(e->key[column], key)) column++;
    for (int64_t i = e->n / 2; i < e->n && column < e->n_keys; i++)
        if (isfinite(e->value[i * COLUMNS + column])) values[n++] = e->value[i * COLUMNS + column];
    if (!n) return NAN;
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

static void set_real(tri_json *object, const char *key, double value) {
    if (isfinite(value)) tri__json_set_new(object, key, tri__json_real(value));
}

static tri_status put_rates(const events *e) {
    static const char *const keys[] = {"samples_per_second", "tokens_per_second", "gflops", "mfu", "mem_bytes"};
    double *values = malloc((size_t)(e->n + 1) * sizeof *values), used = 0;
    if (!values) return tri__fail(TRI_RESOURCE, "no memory for the events of %s", e->path);
    tri_json *rates = tri__json_object(), *shares = tri__json_object();
    set_real(rates, "step_seconds", median(e, "step_ms", values) / 1e3);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) set_real(rates, keys[i], median(e, keys[i], values));
    static const char *const parts[] = {"comm", "idle", "loader"};
    for (int i = 0; i < 3; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_share", parts[i]);
        double share = median(e, key, values);
        share = share < 0 ? 0 : share > 1 ? 1 : share;
        set_real(shares, parts[i], share);
        if (isfinite(share)) used += share;
    }
    if (tri__json_object_size(shares)) set_real(shares, "compute", used < 1 ? 1 - used : 0);
    free(values);
    tri__json_set_filled(e->run, "rates", rates);
    tri__json_set_filled(e->run, "shares", shares);
    return TRI_OK;
}

static tri_status put_all(events *e, int points) {
    tri_json *curves = tri__json_object();
    for (int c = 0; c < e->n_keys; c++) {
        tri_json *curve = tri__thin_curve(e->step, e->value + c, e->n, COLUMNS, points);
        if (tri__json_size(tri__json_get(curve, "step"))) tri__json_set_new(curves, e->key[c], curve);
        else tri__json_decref(curve);
    }
    tri__json_set_new(e->run, "curves", curves);
    if (e->n) {
        int64_t last = e->n - 1;
        if (e->step[last] > e->last_step) e->last_step = e->step[last];
        set_real(e->run, "epoch", e->epoch[last]);
        if (e->time[last] > tri__json_number_value(tri__json_get(e->run, "updated")))
            tri__json_set_new(e->run, "updated", time_json(e->time[last]));
    }
    tri__json_set_new(e->run, "step", tri__json_integer((tri_json_int)e->last_step));
    tri__json_set(e->run, "starts", e->starts);
    tri__json_set(e->run, "checkpoints", e->checkpoints);
    tri__json_set(e->run, "warnings", e->warnings);
    tri__json_set_new(e->run, "n_warnings", tri__json_integer(e->n_warnings));
    tri__json_set(e->run, "validations", e->validations);
    if (e->damaged)
        tri__run_missing(e->run, "metrics.jsonl: %lld of %lld lines are damaged and left out", (long long)e->damaged,
                         (long long)e->lines);
    return put_rates(e);
}

static void close_events(events *e) {
    free(e->step);
    free(e->time);
    free(e->epoch);
    free(e->value);
    tri__json_decref(e->starts);
    tri__json_decref(e->checkpoints);
    tri__json_decref(e->warnings);
    tri__json_decref(e->validations);
}

tri_status tri__run_events(const char *folder, const tri_run_data_options *options, tri_json *run,
                           tri_run_tail *tail) {
    char path[TRI_PATH_MAX], *text = NULL;
    size_t size = 0;
    *tail = (tri_run_tail){0};
    TRI_TRY(tri__path_join(path, folder, "metrics.jsonl"));
    tri_status status = tri__file_read(path, SIZE_MAX / 2, &text, &size);
    if (status == TRI_RESOURCE) return status;
    if (status != TRI_OK) tri__run_missing(run, "metrics.jsonl: %s", status == TRI_NOINPUT ? "no such file" : tri_error());
    else tail->found = 1;
    events e = {.run = run, .path = path, .starts = tri__json_array(), .checkpoints = tri__json_array(),
                .warnings = tri__json_array(), .validations = tri__json_array()};
    status = TRI_OK;
    for (size_t at = 0; at < size && status == TRI_OK;) {
        const char *end = memchr(text + at, '\n', size - at);
        if (!end) {
            tail->torn = 1;
            break;
        }
        status = take_line(&e, text + at, (size_t)(end - (text + at)));
        at = (size_t)(end - text) + 1;
    }
    free(text);
    if (status == TRI_OK) status = put_all(&e, options->points ? options->points : 2000);
    tail->ended = e.ended, tail->lines = e.lines, tail->damaged = e.damaged;
    close_events(&e);
    return status;
}
