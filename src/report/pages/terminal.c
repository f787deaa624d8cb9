/* terminal.c - what stands on the screen. A line's rank says what goes first in a small window: first the state and the
 * loss stay, then rates, the validation, ranks, warnings, advice. */
#include "report/pages/terminal_lines.h"

#include "report/text/json_numbers.h"

#include <time.h>

enum { STATE, LOSS, PROGRESS, CURVE, SPEED = 5, VALID, MEMORY, TIME, WARNING, RANKS = 20, ADVICE = 90, BLANK = 100 };
enum { LABEL = 9 };
static const double silent_seconds = 60; /* without news, a run is said to be silent */

typedef struct view {
    const tri_json *run;
    const tri_screen *screen;
    double now;
    tri_lines *lines;
} view;

/* The last value of a curve; NaN: none. */
static double last_of(const view *v, const char *key) {
    const tri_json *values = tri__json_get(tri__json_get(tri__json_get(v->run, "curves"), key), "value");
    size_t n = tri__json_size(values);
    return n ? tri__json_number_value(tri__json_at(values, n - 1)) : NAN;
}

/* A line that begins with a word in a column of its own. */
static tri_buffer *labelled(const view *v, int rank, const char *word) {
    tri_buffer *line = tri__lines_new(v->lines, rank);
    tri__buffer_put(line, TRI_FAINT "%-*s" TRI_PLAIN, LABEL, word);
    return line;
}

/* "  12.3 words", after the first one; nothing of a NaN. */
static void put_figure(tri_buffer *line, const char *format, double value, const char *words) {
    if (!isfinite(value)) return;
    tri__buffer_put(line, "%s%s  ", TRI_TEXT(64, format, value), words);
}

static void put_brief(tri_buffer *line, double value, const char *words) {
    if (isfinite(value)) tri__buffer_put(line, "%s%s  ", tri__text_short(value, (char[32]){0}), words);
}

/* ---- lines ---- */

static void put_state(const view *v) {
    const char *state = tri__shown_in(v->run, "state");
    const char *paint = !strcmp(state, "running") || !strcmp(state, "finished") ? TRI_GOOD
                        : !strcmp(state, "failed")                              ? TRI_BAD
                                                                                : TRI_WARN;
    tri_buffer *line = tri__lines_new(v->lines, STATE);
    tri__buffer_put(line, TRI_BOLD);
    tri__lines_text(line, tri__shown_in(v->run, "name"), v->screen->width / 2);
    tri__buffer_put(line, TRI_PLAIN "  %s", paint);
    tri__lines_text(line, tri__shown_in(v->run, "words"), 400);
    tri__buffer_put(line, TRI_PLAIN);
    double silent = v->now - tri__real_in(v->run, "updated"),
           usual = tri__real_in(tri__json_get(v->run, "rates"), "step_seconds");
    if (!strcmp(state, "running") && silent > silent_seconds && !(silent < 10 * usual))
        tri__buffer_put(line, TRI_WARN "  no news for %s" TRI_PLAIN, tri__text_seconds(silent, (char[32]){0}));
}

static void put_progress(const view *v) {
    double step = tri__real_in(v->run, "step"), steps = tri__real_in(v->run, "steps");
    double epoch = tri__real_in(v->run, "epoch"), of = tri__real_in(v->run, "epochs");
    double each = tri__real_in(tri__json_get(v->run, "rates"), "step_seconds");
    if (!(steps > 0) || !(step >= 0)) return;
    tri_buffer *line = labelled(v, PROGRESS, "");
    int cells = v->screen->width - LABEL - 44;
    if (cells >= 8) {
        tri__lines_bar(line, step / steps, cells < 40 ? cells : 40, v->screen->utf8);
        tri__buffer_put(line, "  ");
    }
    tri__buffer_put(line, "%.0f %%  ", floor(100 * step / steps));
    if (isfinite(epoch) && of > 0) tri__buffer_put(line, "epoch %.2f of %.0f  ", epoch, of);
    if (!strcmp(tri__shown_in(v->run, "state"), "running") && isfinite(each) && step < steps)
        tri__buffer_put(line, "left %s", tri__text_seconds((steps - step) * each, (char[32]){0}));
}

/* A curve of the run's data as arrays, x from 0 to 1; the number of its points, 0 if there is none. */
static size_t take_curve(const view *v, const char *key, double **x, double **value) {
    const tri_json *curve = tri__json_get(tri__json_get(v->run, "curves"), key);
    const tri_json *steps = tri__json_get(curve, "step"), *values = tri__json_get(curve, "value");
    size_t n = tri__json_size(steps) < tri__json_size(values) ? tri__json_size(steps) : tri__json_size(values);
    *x = malloc((n + 1) * sizeof **x), *value = malloc((n + 1) * sizeof **value);
    if (!*x || !*value || !n) return 0;
    double first = tri__json_number_value(tri__json_at(steps, 0));
    double range = tri__json_number_value(tri__json_at(steps, n - 1)) - first;
    for (size_t i = 0; i < n; i++) {
        (*x)[i] = range > 0 ? (tri__json_number_value(tri__json_at(steps, i)) - first) / range : 0;
        (*value)[i] = tri__json_number_value(tri__json_at(values, i));
    }
    return n;
}

static void put_loss(const view *v) {
    TRI_OWNED(tri__free_at) double *x = NULL, *value = NULL;
    size_t n = take_curve(v, "loss", &x, &value);
    int height = v->screen->height, rows = !height || height >= 24 ? 6 : height >= 16 ? 3 : 1;
    if (n) {
        tri_buffer *line = labelled(v, LOSS, "loss");
        put_figure(line, "%.4f", value[n - 1], "");
        put_figure(line, "learning rate %.3g", last_of(v, "learning_rate"), "");
        put_figure(line, "gradient norm %.4g", last_of(v, "grad_norm"), "");
        put_figure(line, "loss scale %.6g", last_of(v, "loss_scale"), "");
        put_figure(line, "%.0f", last_of(v, "skipped_steps"), " steps skipped");
        int columns = n < (size_t)(v->screen->width - LABEL) ? (int)n + LABEL : v->screen->width;
        tri__lines_curve(v->lines, CURVE, x, value, n, rows, columns, v->screen->utf8);
    }
}

static void put_speed(const view *v) {
    const tri_json *rates = tri__json_get(v->run, "rates");
    if (!tri__json_object_size(rates)) return;
    tri_buffer *line = labelled(v, SPEED, "speed");
    double mfu = tri__real_in(rates, "mfu");
    put_brief(line, tri__real_in(rates, "samples_per_second"), " samples/s");
    put_brief(line, tri__real_in(rates, "tokens_per_second"), " tokens/s");
    put_brief(line, 1e3 * tri__real_in(rates, "step_seconds"), " ms a step");
    if (mfu > 0) put_figure(line, "MFU %.1f %%", 100 * mfu, "");
    put_brief(line, tri__real_in(rates, "gflops"), " GFLOP/s");
}

static void put_memory(const view *v) {
    double planned = last_of(v, "mem_bytes"), device = last_of(v, "device_bytes");
    char bytes[32];
    if (!isfinite(planned) && !isfinite(device)) return;
    tri_buffer *line = labelled(v, MEMORY, "memory");
    if (isfinite(planned)) tri__buffer_put(line, "%s planned a rank  ", tri__text_bytes(planned, bytes));
    if (isfinite(device)) tri__buffer_put(line, "%s in use on the device  ", tri__text_bytes(device, bytes));
    double most = 0;
    tri__json_items(tri__json_get(tri__json_get(v->run, "profile"), "ranks"), rank) {
        double held = tri__real_in(tri__json_get(tri__json_get(rank, "memory"), "process"), "max_rss");
        if (held > most) most = held;
    }
    if (most > 0) tri__buffer_put(line, "%s resident at most", tri__text_bytes(most, bytes));
}

static void put_shares(const view *v) {
    static const char *const parts[][2] = {
        {"compute", "computing"}, {"comm", "transfers"}, {"idle", "waiting"}, {"loader", "loading"}};
    const tri_json *shares = tri__json_get(v->run, "shares");
    if (!tri__json_object_size(shares)) return;
    tri_buffer *line = labelled(v, TIME, "time");
    for (int i = 0; i < 4; i++) {
        double share = tri__real_in(shares, parts[i][0]);
        if (isfinite(share)) tri__buffer_put(line, "%s %.0f %%  ", parts[i][1], 100 * share);
    }
}

static void put_validation(const view *v) {
    static const char *const keys[][2] = {{"valid_loss", "loss"}, {"accuracy", "accuracy"}, {"f1_macro", "f1"},
                                          {"pr_auc", "pr_auc"},   {"roc_auc", "roc_auc"},   {"r2", "r2"},
                                          {"rmse", "rmse"},       {"mae", "mae"}};
    const tri_json *all = tri__json_get(v->run, "validations");
    size_t n = tri__json_size(all);
    const tri_json *last = n ? tri__json_at(all, n - 1) : NULL;
    if (!isfinite(tri__real_in(last, "valid_loss"))) return;
    tri_buffer *line = labelled(v, VALID, "valid");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double value = tri__real_in(last, keys[i][0]);
        if (isfinite(value)) tri__buffer_put(line, "%s %.4f  ", keys[i][1], value);
    }
    tri__buffer_put(line, "at step %.0f", tri__real_in(last, "step"));
    const char *by = tri__text_in(last, "best_by");
    if (tri__json_is_true(tri__json_get(last, "best")))
        tri__buffer_put(line, "  " TRI_GOOD "best%s%.40s" TRI_PLAIN, by ? " by " : "", by ? by : "");
}

/* ---- ranks ---- */

/* The share of waiting of a rank: of all its steps so far, or of the recorded ones. */
static double waiting_of(const tri_json *rank) {
    double share = tri__real_in(tri__json_get(rank, "shares"), "waiting"), seconds = tri__real_in(rank, "seconds");
    if (isfinite(share)) return share;
    return seconds > 0 ? tri__real_in(tri__json_get(rank, "parts"), "waiting") / seconds : NAN;
}

/* Cells of "rank  bar  share", as many beside each other as fit. */
static void put_ranks(const view *v) {
    enum { CELL = 26, BAR = 12 };
    const tri_json *ranks = tri__json_get(tri__json_get(v->run, "profile"), "ranks");
    size_t n = tri__json_size(ranks);
    int beside = (v->screen->width - LABEL) / CELL;
    tri_buffer *line = NULL;
    if (n < 2) return;
    if (beside < 1) beside = 1;
    for (size_t i = 0; i < n; i++) {
        const tri_json *rank = tri__json_at(ranks, i);
        double waiting = waiting_of(rank);
        if (i % (size_t)beside == 0) {
            int row = (int)(i / (size_t)beside);
            line = labelled(v, RANKS + (row < 60 ? row : 60), row ? "" : "waiting");
        }
        tri__buffer_put(line, "%4.0f ", tri__real_in(rank, "rank"));
        tri__buffer_put(line, "%s", waiting > 0.5 ? TRI_BAD : waiting > 0.25 ? TRI_WARN : "");
        tri__lines_bar(line, waiting, BAR, v->screen->utf8);
        if (isfinite(waiting)) tri__buffer_put(line, TRI_PLAIN " %3.0f %%   ", 100 * waiting);
        else tri__buffer_put(line, TRI_PLAIN "         ");
    }
}

/* ---- words ---- */

static void put_warnings(const view *v) {
    const tri_json *all = tri__json_get(v->run, "warnings");
    size_t n = tri__json_size(all), from = n > 4 ? n - 4 : 0;
    for (size_t i = from; i < n; i++) {
        const tri_json *one = tri__json_at(all, i);
        tri_buffer *line = labelled(v, WARNING + (int)(n - 1 - i), i == from ? "warnings" : "");
        time_t at = (time_t)tri__real_in(one, "time");
        struct tm local;
        char clock[16] = "";
        if (isfinite(tri__real_in(one, "time")) && localtime_r(&at, &local))
            strftime(clock, sizeof clock, "%H:%M:%S ", &local);
        tri__buffer_put(line, TRI_FAINT "%s" TRI_WARN, clock);
        tri__lines_text(line, tri__shown_in(one, "message"), v->screen->width - LABEL - 9);
        tri__buffer_put(line, TRI_PLAIN);
    }
}

/* Words over as many lines as they need, at most four. */
static void put_advice(const view *v) {
    const char *words = tri__shown_in(tri__json_get(v->run, "binding"), "words");
    int width = v->screen->width - LABEL;
    for (int row = 0; row < 4 && *words && width > 20; row++) {
        size_t length = strlen(words), cut = length;
        if (length > (size_t)width) {
            cut = (size_t)width;
            while (cut > 0 && words[cut] != ' ') cut--;
            if (!cut) cut = (size_t)width;
        }
        const char *part = TRI_TEXT(512, "%.*s", (int)(cut < 500 ? cut : 500), words);
        tri__lines_text(labelled(v, ADVICE + row, row ? "" : "limit"), part, width);
        words += cut;
        while (*words == ' ') words++;
    }
}

void tri__terminal_draw(const tri_json *run, const tri_screen *screen, double now, tri_buffer *out) {
    TRI_OWNED(tri__free_at) tri_lines *lines = calloc(1, sizeof *lines);
    const view v = {.run = run, .screen = screen, .now = now, .lines = lines};
    if (!lines) {
        out->failed = 1;
        return;
    }
    put_state(&v);
    put_progress(&v);
    tri__lines_new(lines, BLANK);
    put_loss(&v);
    put_speed(&v);
    put_shares(&v);
    put_memory(&v);
    put_validation(&v);
    tri__lines_new(lines, BLANK);
    put_ranks(&v);
    put_advice(&v);
    put_warnings(&v);
    tri__lines_print(lines, screen, out);
}
