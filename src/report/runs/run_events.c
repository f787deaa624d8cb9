/* run_events.c - the lines of metrics.jsonl. Lines that are not JSON, or whose step goes backwards, are damaged:
 * they are counted and left out. */
#include "report/runs/run_parts.h"

enum { FIRST_WARNINGS = 10, LAST_WARNINGS = 40, LAST_CHECKPOINTS = 100 };

static int grow(tri_run_lines *e) {
    return tri__grow(&e->value, &e->room, (size_t)e->n + 1, TRI_RUN_COLUMNS * sizeof *e->value);
}

/* The column of a key, made if it is new; -1: there are too many. `hint`: where it was in the last event. */
static int column_of(tri_run_lines *e, const char *key, size_t length, int hint) {
    if (length >= TRI_RUN_KEY) return -1;
    if (hint < e->n_keys && memcmp(e->key[hint], key, length) == 0 && !e->key[hint][length]) return hint;
    for (int c = 0; c < e->n_keys; c++)
        if (memcmp(e->key[c], key, length) == 0 && !e->key[c][length]) return c;
    if (e->n_keys == TRI_RUN_COLUMNS) return -1;
    memcpy(e->key[e->n_keys], key, length);
    e->key[e->n_keys][length] = 0;
    return e->n_keys++;
}

/* A value of a line that was checked; NaN: it is none that a curve has. What follows ends a number for strtod. */
static double number_of(const tri_jsonl_line *line, const tri_jsonl_member *m) {
    const char *text = line->text + m->begin;
    return m->end && (*text == '-' || (*text >= '0' && *text <= '9')) ? strtod(text, NULL) : NAN;
}

static int is_train(const tri_jsonl_line *line) {
    for (uint32_t i = 0; i < line->n; i++) {
        const tri_jsonl_member *m = &line->member[i];
        if (m->key_end - m->key_begin == 5 && !memcmp(line->text + m->key_begin, "event", 5))
            return m->end - m->begin == 7 && !memcmp(line->text + m->begin, "\"train\"", 7);
    }
    return 0;
}

static double step_of(const tri_run_lines *e, int64_t row) { return e->value[row * TRI_RUN_COLUMNS + TRI_RUN_STEP]; }

/* Steps rise. Of two lines that disagree, the one that fits its neighbours is right. 0: this one is damaged. */
static int accept_step(tri_run_lines *e, double step) {
    if (!(step >= 0) || step > 1e15) return 0;
    if (!e->n || step > step_of(e, e->n - 1)) return 1;
    if (e->n > 1 && step <= step_of(e, e->n - 2)) return 0;
    e->n--, e->damaged++;
    return 1;
}

static tri_status take_train(tri_run_lines *e, const tri_jsonl_line *line) {
    double row[TRI_RUN_COLUMNS];
    int hint = 0;
    for (int c = 0; c < TRI_RUN_COLUMNS; c++) row[c] = NAN;
    for (uint32_t i = 0; i < line->n; i++) {
        const tri_jsonl_member *m = &line->member[i];
        if (m->end && strchr("\"tf", line->text[m->begin])) continue;
        int c = column_of(e, line->text + m->key_begin, m->key_end - m->key_begin, hint);
        if (c >= 0) row[c] = number_of(line, m), hint = c + 1;
    }
    if (!accept_step(e, row[TRI_RUN_STEP])) {
        e->damaged++;
        return TRI_OK;
    }
    if (!grow(e)) return tri__fail(TRI_RESOURCE, "no memory for the events of %s", "metrics.jsonl");
    memcpy(e->value + e->n++ * TRI_RUN_COLUMNS, row, sizeof row);
    return TRI_OK;
}

tri_json *tri__run_time(double seconds) {
    return seconds > 0 && seconds < 1e15 ? tri__json_integer((tri_json_int)seconds) : tri__json_null();
}
static tri_json *time_of(const tri_json *event) { return tri__run_time(tri__number_in(event, "ts")); }

/* The event without its name, `ts` as `time`. */
static tri_json *listed(const tri_json *from) {
    tri_json *row = tri__json_object();
    tri__json_set_new(row, "time", time_of(from));
    tri__json_members(from, m)
        if (strcmp(m->key, "event") && strcmp(m->key, "ts")) tri__json_set(row, m->key, m->value);
    return row;
}

/* {key: [was, now]} */
static tri_json *changes(const tri_json *was, const tri_json *now) {
    tri_json *all = tri__json_object();
    tri__json_members(now, m) {
        const tri_json *before = tri__json_get(was, m->key);
        if (was && !tri__json_equal(before, m->value))
            tri__json_set_new(all, m->key, tri__json_pack("[O?, O?]", before, m->value));
    }
    return all;
}

static void take_start(tri_run_lines *e, const tri_json *event) {
    tri_json *facts = tri__json_object();
    const tri_json *config = tri__json_get(event, "config");
    tri__json_members(event, m)
        if (strcmp(m->key, "config") && strcmp(m->key, "event") && strcmp(m->key, "ts"))
            tri__json_set(facts, m->key, m->value);
    tri__json_append_new(
        e->starts, tri__json_pack("{s:o, s:O?, s:O?, s:o}", "time", time_of(event), "step",
                                  tri__json_get(event, "step"), "version", tri__json_get(event, "version"), "changed",
                                  changes(tri__json_get(e->head, "config"), config)));
    tri__json_set_new(e->head, "facts", facts);
    if (tri__json_is_object(config)) {
        tri__json_set(e->head, "config", config);
        if (tri__json_is_number(tri__json_get(config, "epochs")))
            tri__json_set(e->head, "epochs", tri__json_get(config, "epochs"));
    }
    if (tri__json_is_number(tri__json_get(event, "steps")))
        tri__json_set(e->head, "steps", tri__json_get(event, "steps"));
    e->ended = 0;
}

/* Appends; of a long list the first ones and the last ones stay. */
static void take_listed(tri_json **list, const tri_json *event, size_t first, size_t last) {
    tri__json_append_new(*list, listed(event));
    size_t n = tri__json_size(*list);
    if (n < 2 * (first + last)) return;
    tri_json *kept = tri__json_array();
    tri__json_each(*list, i, one)
        if (i < first || i >= n - last) tri__json_append(kept, one);
    tri__json_decref(*list);
    *list = kept;
}

static void take_other(tri_run_lines *e, const char *kind, const tri_json *event) {
    const tri_json *time = tri__json_get(event, "ts");
    double step = tri__number_in(event, "step");
    if (step > e->last_step && step < 1e15) e->last_step = step;
    if (tri__json_is_number(time)) {
        if (!tri__json_get(e->head, "started")) tri__json_set_new(e->head, "started", time_of(event));
        tri__json_set_new(e->head, "updated", time_of(event));
    }
    if (!strcmp(kind, "start")) take_start(e, event);
    else if (!strcmp(kind, "epoch")) tri__json_append_new(e->validations, listed(event));
    else if (!strcmp(kind, "checkpoint")) take_listed(&e->checkpoints, event, 0, LAST_CHECKPOINTS);
    else if (!strcmp(kind, "end")) e->ended = 1;
    else if (!strcmp(kind, "warn")) e->n_warnings++, take_listed(&e->warnings, event, FIRST_WARNINGS, LAST_WARNINGS);
}

tri_status tri__run_lines_take(tri_run_lines *e, const char *line, size_t length) {
    e->flat.text = line, e->flat.size = length;
    if (!tri__jsonl_line(&e->flat)) return tri__fail(TRI_RESOURCE, "no memory for the events of %s", "metrics.jsonl");
    e->lines++;
    if (!e->flat.why[0] && is_train(&e->flat)) {
        memcpy(e->last, line, length < sizeof e->last ? length : 0);
        e->last[length < sizeof e->last ? length : 0] = 0;
        return take_train(e, &e->flat);
    }
    TRI_OWNED(tri__json_drop) tri_json *event = NULL;
    tri_status status = tri__json_parse(line, length, "metrics.jsonl", TRI_DATA, &event);
    const char *name = tri__text_in(event, "event");
    if (status == TRI_OK && name) take_other(e, name, event);
    else if (status != TRI_RESOURCE) e->damaged++;
    return status == TRI_RESOURCE ? status : TRI_OK;
}

tri_status tri__run_lines_last(const tri_run_lines *e, tri_json **out) {
    *out = NULL;
    if (!e->last[0]) return TRI_OK;
    tri_status status = tri__json_parse(e->last, strlen(e->last), "metrics.jsonl", TRI_DATA, out);
    if (status == TRI_OK) tri__json_set_new(*out, "ts", time_of(*out));
    return status == TRI_RESOURCE ? status : TRI_OK;
}

void tri__run_lines_open(tri_run_lines *e) {
    *e = (tri_run_lines){.key = {[TRI_RUN_STEP] = "step", [TRI_RUN_TIME] = "ts", [TRI_RUN_EPOCH] = "epoch"},
                         .n_keys = TRI_RUN_FIGURES, .head = tri__json_object(), .starts = tri__json_array(),
                         .checkpoints = tri__json_array(), .warnings = tri__json_array(),
                         .validations = tri__json_array()};
}

void tri__run_lines_close(tri_run_lines *e) {
    TRI_FREE(e->value, e->flat.member);
    tri__json_decref(e->head);
    tri__json_decref(e->starts);
    tri__json_decref(e->checkpoints);
    tri__json_decref(e->warnings);
    tri__json_decref(e->validations);
    *e = (tri_run_lines){0};
}
