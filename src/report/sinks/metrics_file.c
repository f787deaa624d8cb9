/* metrics_file.c - metrics.jsonl: everything measured, one flat JSON object per line, append-only. A run that resumes
 * after `step` steps first drops incomplete lines and those of later steps, which it will write again. */
#include "report/sinks/sinks.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/file_call.h"
#include "report/text/json_numbers.h"
#include "report/text/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double flush_seconds = 2;

typedef struct metrics {
    char path[TRI_PATH_MAX];
    FILE *file;         /* NULL before START */
    int fd;             /* of the file */
    FILE *early;        /* a stream into text: lines written before START */
    char *text;
    size_t size;
    double flushed;     /* tri__clock() of the last flush */
    int eager;          /* 1: after each line, which then survives this process */
} metrics;

static void put_key(FILE *out, const char *key) { fprintf(out, ",\"%s\":", key); }
static void put_field(FILE *out, const char *key, double value) {
    put_key(out, key);
    tri__put_real(out, value);
}
static void put_integer(FILE *out, const char *key, int64_t value) {
    put_key(out, key);
    fprintf(out, "%lld", (long long)value);
}
static void put_words(FILE *out, const char *key, const char *text) {
    put_key(out, key);
    tri__put_text(out, text ? text : "");
}

static void begin_line(FILE *out, const tri_event *event, const char *name) {
    fprintf(out, "{\"ts\":%.3f", event->time);
    put_words(out, "event", name);
    put_integer(out, "step", event->step);
}

static tri_status put_facts(FILE *out, const tri_json *facts) {
    const char *key;
    tri_json *value;
    if (facts && !tri__json_is_whole(facts)) return tri__fail(TRI_RESOURCE, "no memory for the facts of a run");
    tri__json_each_member((tri_json *)facts, key, value) {
        if (strcmp(key, "ts") == 0 || strcmp(key, "event") == 0 || strcmp(key, "step") == 0) continue;
        char *text = tri__json_text(value, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(9));
        if (!text) return tri__fail(TRI_RESOURCE, "no memory for the facts of a run");
        fputc(',', out);
        tri__put_text(out, key);
        fprintf(out, ":%s", text);
        free(text);
    }
    return TRI_OK;
}

static void put_train(FILE *out, const tri_event *event) {
    double seconds = event->step_seconds;
    put_field(out, "epoch", event->epoch);
    put_field(out, "loss", event->loss);
    put_field(out, "learning_rate", event->learning_rate);
    put_field(out, "grad_norm", event->grad_norm);
    put_field(out, "samples_per_second", tri__rate((double)event->samples, seconds));
    put_field(out, "tokens_per_second", tri__rate((double)event->tokens, seconds));
    put_field(out, "step_ms", 1e3 * seconds);
    put_field(out, "loader_share", tri__rate(event->loader_seconds, seconds));
    put_field(out, "comm_share", tri__rate(event->comm_seconds, seconds));
    put_field(out, "idle_share", tri__rate(event->idle_seconds, seconds));
    put_integer(out, "mem_bytes", event->mem_bytes);
    if (event->device_seconds > 0) put_field(out, "device_share", tri__rate(event->device_seconds, seconds));
    if (event->device_bytes > 0) put_integer(out, "device_bytes", event->device_bytes);
    put_field(out, "gflops", tri__rate(event->flops, seconds) / 1e9);
    if (event->mfu > 0) put_field(out, "mfu", event->mfu);
    if (event->experts) put_field(out, "balance_loss", event->balance_loss);
    if (event->experts) put_integer(out, "dropped_tokens", (int64_t)event->dropped_tokens);
    if (event->loss_scale <= 0) return;
    put_field(out, "loss_scale", event->loss_scale);
    put_integer(out, "skipped_steps", event->skipped_steps);
}

static void put_epoch(FILE *out, const tri_event *event) {
    put_field(out, "epoch", event->epoch);
    put_field(out, "train_loss", event->train_loss);
    if (event->valid) {
        put_field(out, "valid_loss", event->valid->loss);
        put_field(out, "accuracy", event->valid->accuracy);
        put_field(out, "f1_macro", event->valid->f1_macro);
        put_field(out, "pr_auc", event->valid->pr_auc);
        put_field(out, "average_precision", event->valid->average_precision);
        put_field(out, "roc_auc", event->valid->roc_auc);
        const char *positive = tri__scores_positive(event->valid);
        if (positive) put_words(out, "positive_label", positive);
        put_field(out, "ece", event->valid->reliability.ece);
        put_field(out, "brier", event->valid->reliability.brier);
    }
    const tri_json *threshold = tri__json_get(event->decision, "threshold");
    if (event->decision)
        put_field(out, "temperature", tri__json_number_value(tri__json_get(event->decision, "temperature")));
    if (tri__json_is_number(threshold)) put_field(out, "threshold", tri__json_number_value(threshold));
    put_field(out, "seconds", event->seconds);
    put_key(out, "best");
    fputs(event->best ? "true" : "false", out);
    if (event->best_by) put_words(out, "best_by", event->best_by);
}

/* Whether a line is a complete object of a step that will not be repeated. */
static int keeps(const char *line, size_t length, const char *path, int64_t step) {
    tri_json *object;
    if (tri__json_parse(line, length, path, TRI_DATA, &object) != TRI_OK) return 0;
    const tri_json *at = tri__json_get(object, "step");
    int keep = tri__json_is_integer(at) && tri__json_integer_value(at) <= step;
    tri__json_decref(object);
    return keep;
}

static tri_status drop_later(const char *path, int64_t step) {
    char *text;
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
    tri_status status = tri__file_write(
        path, text, kept); /* always a new file: a hard-linked copy of the folder keeps the old content */
    free(text);
    return status;
}

/* Creates the file, or reopens it to append, and adds the lines from before START. */
static tri_status start(metrics *m, int64_t step, int again) {
    if (m->file) return TRI_OK;
    tri_kind kind;
    int fd;
    TRI_TRY(tri__file_check_own(m->path));
    TRI_TRY(tri__path_kind(m->path, &kind));
    int resumed = step > 0 && kind == TRI_KIND_FILE;
    if (resumed) TRI_TRY(drop_later(m->path, again ? step - 1 : step));
    TRI_TRY(tri__file_own(m->path, resumed ? TRI_OWN_APPEND : TRI_OWN_FRESH, &fd));
    m->file = tri__stream_open(m->fd = fd, resumed ? "a" : "w");
    if (!m->file) {
        close(fd);
        return tri__fail(TRI_RESOURCE, "no memory for %s", m->path);
    }
    if (fflush(m->early) || ferror(m->early) || !m->text) return tri__fail(TRI_RESOURCE, "no memory for %s", m->path);
    fwrite(m->text, 1, m->size, m->file);
    return TRI_OK;
}

static tri_status flush(metrics *m) {
    tri__call_begin(TRI_CALL_WRITE, m->path);
    int failed = fflush(m->file);
    tri__call_end();
    if (failed || ferror(m->file)) return tri__fail(TRI_IO, "cannot write %s: %s", m->path, strerror(errno));
    m->flushed = tri__clock();
    return TRI_OK;
}

/* The event's line, if it has one. */
static tri_status put_line(FILE *out, const tri_event *event) {
    switch (event->kind) {
    case TRI_EVENT_START:
        begin_line(out, event, "start");
        TRI_TRY(put_facts(out, event->facts));
        break;
    case TRI_EVENT_REGROUP:
        begin_line(out, event, "regroup");
        put_integer(out, "ranks", event->world);
        put_field(out, "seconds", event->seconds);
        break;
    case TRI_EVENT_TRAIN:
        begin_line(out, event, "train");
        put_train(out, event);
        break;
    case TRI_EVENT_EPOCH:
        begin_line(out, event, "epoch");
        put_epoch(out, event);
        break;
    case TRI_EVENT_CHECKPOINT:
        begin_line(out, event, "checkpoint");
        put_words(out, "path", event->text);
        break;
    case TRI_EVENT_MESSAGE:
        if (event->level != TRI_LOG_WARN) return TRI_OK;
        begin_line(out, event, "warn");
        put_words(out, "message", event->text);
        break;
    case TRI_EVENT_END:
        begin_line(out, event, "end");
        TRI_TRY(put_facts(out, event->facts));
        break;
    case TRI_EVENT_ROWS:
    case TRI_EVENT_SAVE:
    case TRI_EVENT_PROFILE:
    case TRI_EVENT_UNCHANGED:
        return TRI_OK;
    }
    fputs("}\n", out);
    return TRI_OK;
}

static tri_status emit(void *context, const tri_event *event) {
    metrics *m = context;
    if (event->kind == TRI_EVENT_START) TRI_TRY(start(m, event->step, event->again));
    TRI_TRY(put_line(m->file ? m->file : m->early, event));
    int commits = event->kind == TRI_EVENT_EPOCH || event->kind == TRI_EVENT_SAVE ||
                  event->kind == TRI_EVENT_CHECKPOINT || event->kind == TRI_EVENT_END;
    if (m->file && (commits || m->eager || tri__clock() - m->flushed > flush_seconds)) TRI_TRY(flush(m));
    int ended = m->file && event->kind == TRI_EVENT_END; /* before summary.json says so */
    return ended && tri__file_sync(m->fd, m->path) ? tri__fail_errno("write", m->path, TRI_IO) : TRI_OK;
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
    tri_status status = tri__path_join(m->path, folder, "metrics.jsonl");
    if (status == TRI_OK) status = tri__file_check_own(m->path); /* fail now, not after reading the data */
    if (status != TRI_OK) tri__metrics_close(sink);
    return status;
}

tri_status tri__metrics_close(tri_sink *sink) {
    metrics *m = sink->context;
    tri_status status = TRI_OK;
    if (m) {
        if (m->file) status = flush(m);
        if (m->file) fclose(m->file);
        fclose(m->early);
        free(m->text);
    }
    free(m);
    *sink = (tri_sink){0};
    return status;
}
