/* metrics_file.c - metrics.jsonl: everything measured, one flat JSON object per line, append-only. A run that resumes
 * after `step` steps first drops incomplete lines and those of later steps, which it will write again. */
#include "report/sinks/sinks.h"

#include "report/sinks/run_file.h"
#include "report/text/json_numbers.h"

typedef struct metrics {
    tri_run_file to;
    FILE *early;        /* a stream into text: lines written before START */
    char *text;
    size_t size;
    int eager;          /* 1: flushed after each line, which then survives this process */
} metrics;

static void put_key(FILE *out, const char *key) { fprintf(out, ",\"%s\":", key); }
static void put_integer(FILE *out, const char *key, int64_t value) {
    put_key(out, key);
    fprintf(out, "%lld", (long long)value);
}
static void put_words(FILE *out, const char *key, const char *text) {
    put_key(out, key);
    tri__put_text(out, text ? text : "");
}

static tri_status put_facts(FILE *out, const tri_json *facts) {
    if (facts && !tri__json_is_whole(facts)) return tri__fail(TRI_RESOURCE, "no memory for the facts of a run");
    tri__json_members(facts, m) {
        if (strcmp(m->key, "ts") == 0 || strcmp(m->key, "event") == 0 || strcmp(m->key, "step") == 0) continue;
        TRI_OWNED(tri__free_at) char *text = tri__json_text(m->value, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(9));
        if (!text) return tri__fail(TRI_RESOURCE, "no memory for the facts of a run");
        fputc(',', out);
        tri__put_text(out, m->key);
        fprintf(out, ":%s", text);
    }
    return TRI_OK;
}

static void put_train(FILE *out, const tri_event *event) {
    double seconds = event->step_seconds;
    tri__put_field(out, "epoch", event->epoch);
    tri__put_field(out, "loss", event->loss);
    tri__put_field(out, "learning_rate", event->learning_rate);
    tri__put_field(out, "grad_norm", event->grad_norm);
    tri__put_field(out, "samples_per_second", tri__rate((double)event->samples, seconds));
    tri__put_field(out, "tokens_per_second", tri__rate((double)event->tokens, seconds));
    tri__put_field(out, "step_ms", 1e3 * seconds);
    tri__put_field(out, "loader_share", tri__rate(event->loader_seconds, seconds));
    tri__put_field(out, "comm_share", tri__rate(event->comm_seconds, seconds));
    tri__put_field(out, "idle_share", tri__rate(event->idle_seconds, seconds));
    put_integer(out, "mem_bytes", event->mem_bytes);
    if (event->device_seconds > 0) tri__put_field(out, "device_share", tri__rate(event->device_seconds, seconds));
    if (event->device_bytes > 0) put_integer(out, "device_bytes", event->device_bytes);
    tri__put_field(out, "gflops", tri__rate(event->flops, seconds) / 1e9);
    if (event->mfu > 0) tri__put_field(out, "mfu", event->mfu);
    if (event->experts) tri__put_field(out, "balance_loss", event->balance_loss);
    if (event->experts) put_integer(out, "dropped_tokens", (int64_t)event->dropped_tokens);
    if (event->loss_scale <= 0) return;
    tri__put_field(out, "loss_scale", event->loss_scale);
    put_integer(out, "skipped_steps", event->skipped_steps);
}

static void put_epoch(FILE *out, const tri_event *event) {
    tri__put_field(out, "epoch", event->epoch);
    tri__put_field(out, "train_loss", event->train_loss);
    const char *name;
    double value;
    if (event->valid) tri__put_field(out, "valid_loss", event->valid->loss);
    for (int at = 0; event->valid && event->valid->is_number &&
                     tri__number_figure(&event->valid->numbers, &at, &name, &value);)
        tri__put_field(out, name, value);
    if (event->valid && !event->valid->is_number) {
        tri__put_field(out, "accuracy", event->valid->accuracy);
        tri__put_field(out, "f1_macro", event->valid->f1_macro);
        tri__put_field(out, "pr_auc", event->valid->pr_auc);
        tri__put_field(out, "average_precision", event->valid->average_precision);
        tri__put_field(out, "roc_auc", event->valid->roc_auc);
        const char *positive = tri__scores_positive(event->valid);
        if (positive) put_words(out, "positive_label", positive);
        tri__put_field(out, "ece", event->valid->reliability.ece);
        tri__put_field(out, "brier", event->valid->reliability.brier);
    }
    const tri_json *threshold = tri__json_get(event->decision, "threshold");
    if (event->decision && !event->valid->is_number)
        tri__put_field(out, "temperature", tri__number_in(event->decision, "temperature"));
    if (tri__json_is_number(threshold)) tri__put_field(out, "threshold", tri__json_number_value(threshold));
    tri__put_field(out, "seconds", event->seconds);
    put_key(out, "best");
    fputs(event->best ? "true" : "false", out);
    if (event->best_by) put_words(out, "best_by", event->best_by);
}

/* Whether a line is a complete object of a step that will not be repeated. */
static int keeps(const char *line, size_t length, const char *path, int64_t step) {
    TRI_OWNED(tri__json_drop) tri_json *object = NULL;
    if (tri__json_parse(line, length, path, TRI_DATA, &object) != TRI_OK) return 0;
    const tri_json *at = tri__json_get(object, "step");
    return tri__json_is_integer(at) && tri__json_integer_value(at) <= step;
}

static tri_status drop_later(const char *path, int64_t step) {
    TRI_OWNED(tri__free_at) char *text = NULL;
    size_t size, kept = 0;
    TRI_TRY(tri__file_read(path, SIZE_MAX / 2, &text, &size));
    for (size_t at = 0; at < size;) {
        char *end = memchr(text + at, '\n', size - at);
        if (!end) break; /* incomplete */
        size_t length = (size_t)(end - (text + at)) + 1;
        if (keeps(text + at, length, path, step)) {
            memmove(text + kept, text + at, length);
            kept += length;
        }
        at += length;
    }
    return tri__file_write(path, text, kept); /* a new file: a hard-linked copy of the folder keeps the old content */
}

/* Creates the file, or reopens it to append, and adds the lines from before START. */
static tri_status start(metrics *m, int64_t step, int again) {
    const char *path = m->to.path;
    tri_kind kind;
    if (m->to.file) return TRI_OK;
    TRI_TRY(tri__file_check_own(path));
    TRI_TRY(tri__path_kind(path, &kind));
    int resumed = step > 0 && kind == TRI_KIND_FILE;
    if (resumed) TRI_TRY(drop_later(path, again ? step - 1 : step));
    TRI_TRY(tri__run_file_start(&m->to, resumed ? TRI_OWN_APPEND : TRI_OWN_FRESH));
    if (fflush(m->early) || ferror(m->early) || !m->text) return tri__fail(TRI_RESOURCE, "no memory for %s", path);
    fwrite(m->text, 1, m->size, m->to.file);
    return TRI_OK;
}

tri_status tri__metrics_line(FILE *out, const tri_event *event) {
    static const char *const names[] = {[TRI_EVENT_START] = "start", [TRI_EVENT_REGROUP] = "regroup",
                                        [TRI_EVENT_TRAIN] = "train", [TRI_EVENT_EPOCH] = "epoch",
                                        [TRI_EVENT_CHECKPOINT] = "checkpoint", [TRI_EVENT_MESSAGE] = "warn",
                                        [TRI_EVENT_END] = "end"};
    tri_event_kind kind = event->kind;
    const char *name = kind < sizeof names / sizeof *names ? names[kind] : NULL;
    if (!name || (kind == TRI_EVENT_MESSAGE && event->level != TRI_LOG_WARN)) return TRI_OK;
    fprintf(out, "{\"ts\":%.3f", event->time);
    put_words(out, "event", name);
    put_integer(out, "step", event->step);
    if (kind == TRI_EVENT_START || kind == TRI_EVENT_END) TRI_TRY(put_facts(out, event->facts));
    if (kind == TRI_EVENT_REGROUP) put_integer(out, "ranks", event->world);
    if (kind == TRI_EVENT_REGROUP) tri__put_field(out, "seconds", event->seconds);
    if (kind == TRI_EVENT_TRAIN) put_train(out, event);
    if (kind == TRI_EVENT_EPOCH) put_epoch(out, event);
    if (kind == TRI_EVENT_CHECKPOINT) put_words(out, "path", event->text);
    if (kind == TRI_EVENT_MESSAGE) put_words(out, "message", event->text);
    fputs("}\n", out);
    return TRI_OK;
}

static tri_status emit(void *context, const tri_event *event) {
    metrics *m = context;
    if (event->kind == TRI_EVENT_START) TRI_TRY(start(m, event->step, event->again));
    TRI_TRY(tri__metrics_line(m->to.file ? m->to.file : m->early, event));
    TRI_TRY(tri__run_file_commit(&m->to, event, m->eager));
    int ended = m->to.file && event->kind == TRI_EVENT_END; /* before summary.json says so */
    return ended && tri__file_sync(m->to.fd, m->to.path) ? tri__fail_errno("write", m->to.path, TRI_IO) : TRI_OK;
}

tri_status tri__metrics_open(const char *folder, int eager, tri_sink *sink) {
    *sink = (tri_sink){0};
    metrics *m = calloc(1, sizeof *m);
    if (m) m->eager = eager, m->early = open_memstream(&m->text, &m->size);
    if (!m || !m->early) {
        free(m);
        return tri__fail(TRI_RESOURCE, "no memory for metrics");
    }
    *sink = (tri_sink){.emit = emit, .context = m};
    tri_status status = tri__path_join(m->to.path, folder, "metrics.jsonl");
    if (status == TRI_OK) status = tri__file_check_own(m->to.path); /* fail now, not after reading the data */
    if (status != TRI_OK) tri__metrics_close(sink);
    return status;
}

tri_status tri__metrics_close(tri_sink *sink) {
    metrics *m = sink->context;
    tri_status status = TRI_OK;
    if (m) {
        status = tri__run_file_close(&m->to);
        fclose(m->early);
        free(m->text);
    }
    tri__sink_close(sink);
    return status;
}
