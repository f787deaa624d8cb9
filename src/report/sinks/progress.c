/* progress.c - the progress display of a run. A terminal shows one line that is redrawn; a file or a pipe gets whole
 * lines, few enough that a log of days stays readable. Times are those of the events. */
#include "report/sinks/sinks.h"

#include "report/text/json_numbers.h"
#include "report/text/text_table.h"

#include <sys/ioctl.h>

static const double redraw_seconds = 0.1, line_seconds = 30, decay = 0.95;
enum { FIELDS = 9, BAR_MIN = 10, BAR_MAX = 20 };

/* Colour codes of a stream; empty without colour, so that callers need no condition. */
typedef struct paint {
    const char *good, *warn, *faint, *off;
} paint;
static const paint plain = {"", "", "", ""}, coloured = {"\033[32m", "\033[33m", "\033[2m", "\033[0m"};

typedef struct progress {
    tri_progress_out out;
    paint paint;
    int drawn;               /* a redrawn line is on the screen */
    int any;                 /* a step was shown */
    double shown_time;       /* of the last step shown */
    int64_t shown_step;
    double rows_begin;       /* time of the first event of a table's rows */
    /* Sums over past steps, each weighted by decay^age: their ratios are smoothed rates. */
    double steps, seconds, samples, tokens, flops, ideal; /* ideal: seconds at an MFU of 1 */
} progress;

/* A part of the line; parts of a high rank are omitted first if the window is narrow. */
typedef struct field {
    char text[48];
    int rank;
} field;

typedef struct line {
    field field[FIELDS];
    int n;
} line;

__attribute__((format(printf, 3, 4))) static void add(line *l, int rank, const char *format, ...) {
    TRI_ASSERT(l->n < FIELDS);
    TRI_FORMAT(l->field[l->n].text, sizeof l->field[l->n].text, format);
    l->field[l->n++].rank = rank;
}

static void add_epoch(line *l, int64_t index, int64_t epochs) {
    if (epochs > 0) add(l, 1, "epoch %lld/%lld", (long long)index, (long long)epochs);
    else add(l, 1, "epoch %lld", (long long)index);
}

static void fill(line *l, const progress *p, const tri_event *event) {
    char text[32];
    int64_t epoch = (int64_t)ceil(event->epoch - 1e-9); /* the current one */
    add_epoch(l, epoch < 1 ? 1 : epoch, event->epochs);
    add(l, 0, "step %lld/%lld", (long long)event->step, (long long)event->steps);
    add(l, 0, "loss %.4f", event->loss);
    add(l, 4, "lr %.2g", event->learning_rate);
    add(l, 3, "%s samples/s", tri__text_short(tri__rate(p->samples, p->seconds), text));
    add(l, 5, "%s tok/s", tri__text_short(tri__rate(p->tokens, p->seconds), text));
    if (p->flops > 0) add(l, 6, "%s GFLOP/s", tri__text_short(tri__rate(p->flops, p->seconds) / 1e9, text));
    if (p->ideal > 0) add(l, 6, "MFU %.1f %%", 100 * tri__rate(p->ideal, p->seconds));
    double left = (double)(event->steps - event->step) * tri__rate(p->seconds, p->steps);
    add(l, 2, "left %s", tri__text_seconds(left, text));
}

static int length_of(const line *l) {
    int length = 0;
    for (int i = 0; i < l->n; i++) length += (int)strlen(l->field[i].text) + (i ? 2 : 0);
    return length;
}

/* Omits fields, the least important first, until the line fits into `room` columns; keeps at least one. */
static void narrow(line *l, int room) {
    while (l->n > 1 && length_of(l) > room) {
        int least = 0;
        for (int i = 1; i < l->n; i++)
            if (l->field[i].rank >= l->field[least].rank) least = i;
        memmove(&l->field[least], &l->field[least + 1], (size_t)(l->n - 1 - least) * sizeof l->field[0]);
        l->n--;
    }
}

static void put_line(FILE *out, const line *l, int room) {
    for (int i = 0; i < l->n && room > 0; i++) {
        int wrote = fprintf(out, "%s%.*s", i ? "  " : "", room, l->field[i].text);
        room -= wrote > 0 ? wrote : 0;
    }
}

static void put_bar(const progress *p, const tri_event *event, int room) {
    int cells = room - 4 < BAR_MAX ? room - 4 : BAR_MAX; /* two spaces, two brackets */
    if (cells < BAR_MIN || event->steps <= 0) return;
    int done = (int)((double)cells * (double)event->step / (double)event->steps);
    fprintf(p->out.file, "  %s[", p->paint.faint);
    for (int i = 0; i < cells; i++) fputc(i < done ? '#' : '-', p->out.file);
    fprintf(p->out.file, "]%s", p->paint.off);
}

static void erase(progress *p) {
    if (p->drawn) fputs("\r\033[K", p->out.file);
    p->drawn = 0;
}

/* Whether it is time to show this step. */
static int due(const progress *p, const tri_event *event) {
    double passed = event->time - p->shown_time;
    if (!p->any || passed < 0) return 1; /* the first, or the clock was set back */
    if (p->out.terminal) return passed >= redraw_seconds || event->step == event->steps;
    return passed >= line_seconds && event->step - p->shown_step >= event->steps / 100;
}

/* The window may have been resized since the last line. */
static int width_now(const progress *p) {
    struct winsize window = {0};
    return ioctl(fileno(p->out.file), TIOCGWINSZ, &window) == 0 && window.ws_col ? window.ws_col : p->out.width;
}

static void show_line(progress *p, line *l, const tri_event *event) {
    if (!p->out.terminal) {
        put_line(p->out.file, l, 1000);
        fputc('\n', p->out.file);
        return;
    }
    int room = width_now(p) - 1; /* the last column would wrap on some terminals */
    narrow(l, room);
    fputs("\r\033[K", p->out.file);
    put_line(p->out.file, l, room);
    put_bar(p, event, room - length_of(l));
    p->drawn = 1;
}

static void show_step(progress *p, const tri_event *event) {
    line l = {.n = 0};
    p->any = 1, p->shown_time = event->time, p->shown_step = event->step;
    fill(&l, p, event);
    show_line(p, &l, event);
}

static void take_step(progress *p, const tri_event *event) {
    double *const sums[] = {&p->steps, &p->seconds, &p->samples, &p->tokens, &p->flops, &p->ideal};
    const double now[] = {1,
                          event->step_seconds,
                          (double)event->samples,
                          (double)event->tokens,
                          event->flops,
                          event->mfu * event->step_seconds};
    for (int i = 0; i < 6; i++) *sums[i] = decay * *sums[i] + now[i];
    if (due(p, event)) show_step(p, event);
}

/* Rows of a table that is predicted or evaluated. A file or a pipe gets no line for one that takes half a minute. */
static void take_rows(progress *p, const tri_event *event) {
    line l = {.n = 0};
    char text[32];
    int64_t done = event->step, left = event->steps - done;
    if (!p->rows_begin || done == 0) p->rows_begin = p->shown_time = event->time;
    double passed = event->time - p->shown_time, seconds = event->time - p->rows_begin;
    if (done == 0 || passed < (p->out.terminal ? redraw_seconds : line_seconds)) return;
    p->shown_time = event->time;
    add(&l, 0, "%lld of %lld rows", (long long)done, (long long)event->steps);
    add(&l, 2, "%s rows/s", tri__text_short(tri__rate((double)done, seconds), text));
    add(&l, 1, "left %s", tri__text_seconds((double)left * seconds / (double)done, text));
    show_line(p, &l, event);
}

static void show_epoch(const progress *p, const tri_event *event) {
    FILE *out = p->out.file;
    line l = {.n = 0};
    add_epoch(&l, event->epoch_index, event->epochs);
    fprintf(out, "%s  train loss %.4f", l.field[0].text, event->train_loss);
    if (event->valid && event->valid->is_number && event->valid->n_classes)
        fprintf(out, "  valid loss %.4f  f1 %.4f (micro)  %.4f (macro)  lrap %.4f", event->valid->loss,
                event->valid->numbers.f1_micro, event->valid->f1_macro, event->valid->numbers.lrap);
    else if (event->valid && event->valid->is_number)
        fprintf(out, "  valid loss %.4f  r2 %.4f  rmse %.5g  mae %.5g", event->valid->loss, event->valid->numbers.r2,
                event->valid->numbers.rmse, event->valid->numbers.mae);
    else if (event->valid) {
        char label[64];
        const char *positive = tri__scores_positive(event->valid);
        fprintf(out, "  valid loss %.4f  accuracy %.4f  f1 %.4f  pr_auc", event->valid->loss, event->valid->accuracy,
                event->valid->f1_macro);
        if (positive) fprintf(out, " (%s)", tri__text_brief(positive, 20, label, sizeof label));
        fprintf(out, " %.4f", event->valid->pr_auc);
    }
    fprintf(out, "  %s", tri__text_seconds(event->seconds, (char[32]){0}));
    if (event->best)
        fprintf(out, "  %sbest%s%s%s", p->paint.good, event->best_by ? " by " : "",
                event->best_by ? event->best_by : "", p->paint.off);
    fputc('\n', out);
}

/* How a pipeline's ranks spent their time; prints nothing without a pipeline. */
static void show_stages(const progress *p, const tri_json *pipeline) {
    TRI_OWNED(tri__text_table_free) tri_text_table table = {0};
    if (!pipeline) return;
    fprintf(p->out.file, "bubble %.1f %% of the ranks' time (predicted with these times: %.1f %%)\n",
            100 * tri__number_in(pipeline, "bubble"), 100 * tri__number_in(pipeline, "predicted_bubble"));
    tri__text_table_add(&table, "stage\tbusy ms\twaiting ms\tcommunication ms\tunits");
    tri__json_each(tri__json_get(pipeline, "stages"), index, stage)
        tri__text_table_add(&table, "%d\t%.2f\t%.2f\t%.2f\t%s", (int)index, 1e3 * tri__number_in(stage, "busy_seconds"),
                            1e3 * tri__number_in(stage, "waiting_seconds"),
                            1e3 * tri__number_in(stage, "communication_seconds"), tri__shown_in(stage, "units"));
    (void)tri__text_table_print(&table, p->out.file, p->out.color);
}

static void show_other(const progress *p, const tri_event *event) {
    FILE *out = p->out.file;
    if (event->kind == TRI_EVENT_MESSAGE && event->level == TRI_LOG_WARN)
        fprintf(out, "%swarning:%s %s\n", p->paint.warn, p->paint.off, event->text);
    else if (event->kind == TRI_EVENT_MESSAGE) fprintf(out, "%s\n", event->text);
    else if (event->kind == TRI_EVENT_CHECKPOINT)
        fprintf(out, "%ssaved %s%s\n", p->paint.faint, event->text, p->paint.off);
    else if (event->kind == TRI_EVENT_EPOCH) show_epoch(p, event);
    else if (event->kind == TRI_EVENT_END) {
        show_stages(p, tri__json_get(event->facts, "pipeline"));
        fprintf(out, "%s  step %lld/%lld  %s\n", event->step >= event->steps ? "finished" : "stopped early",
                (long long)event->step, (long long)event->steps, tri__text_seconds(event->seconds, (char[32]){0}));
    }
}

/* Write errors are ignored: they must not stop a run. */
static tri_status emit(void *context, const tri_event *event) {
    progress *p = context;
    int warning = event->kind == TRI_EVENT_MESSAGE && event->level == TRI_LOG_WARN;
    if (p->out.quiet && !warning) return TRI_OK;
    if (event->kind == TRI_EVENT_TRAIN) {
        take_step(p, event);
    } else if (event->kind == TRI_EVENT_ROWS) {
        take_rows(p, event);
    } else {
        erase(p);
        show_other(p, event);
    }
    fflush(p->out.file);
    return TRI_OK;
}

tri_status tri__progress_open(const tri_progress_out *out, tri_sink *sink) {
    *sink = (tri_sink){0};
    progress *p = calloc(1, sizeof *p);
    if (!p) return tri__fail(TRI_RESOURCE, "no memory for the progress line");
    p->out = *out;
    if (p->out.width <= 0) p->out.width = 80;
    p->paint = out->color ? coloured : plain;
    *sink = (tri_sink){.emit = emit, .context = p};
    return TRI_OK;
}

void tri__progress_close(tri_sink *sink) {
    progress *p = sink->context;
    if (p) {
        erase(p);
        fflush(p->out.file);
    }
    tri__sink_close(sink);
}
