/* tfevents.c - TensorBoard's event files. A record is length, masked CRC-32C of the length, data, masked CRC-32C of the
 * data; the data is a protobuf Event. docs/reference/formats.md */
#include "report/sinks/sinks.h"

#include "report/sinks/run_file.h"
#include "report/sinks/tfevents_parts.h"
#include "report/text/json_numbers.h"

#include <unistd.h>

enum { SESSION_STATUS = 1, SESSION_START = 1 }; /* a field of the SessionLog message; a value of it */

typedef struct tfevents {
    char folder[TRI_PATH_MAX];
    tri_run_file to;
} tfevents;

/* CRC-32C, reflected polynomial 0x82F63B78, rotated and offset so that a CRC over data that contains CRCs stays
 * reliable. */
static uint32_t masked_crc(const void *data, size_t size) {
    const uint8_t *byte = data;
    uint32_t crc = ~(uint32_t)0;
    for (size_t i = 0; i < size; i++) {
        crc ^= byte[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

/* Frees the message. */
static void write_record(tfevents *t, tri_buffer *m) {
    uint64_t length = m->size;
    t->to.failed |= m->failed;
    if (!m->failed) {
        uint32_t length_crc = masked_crc(&length, sizeof length), data_crc = masked_crc(m->text, m->size);
        fwrite(&length, sizeof length, 1, t->to.file);
        fwrite(&length_crc, sizeof length_crc, 1, t->to.file);
        fwrite(m->text, 1, m->size, t->to.file);
        fwrite(&data_crc, sizeof data_crc, 1, t->to.file);
    }
    tri__buffer_free(m);
}

static tri_buffer new_event(double time, int64_t step) {
    tri_buffer m = {0};
    tri__proto_double(&m, TRI_EVENT_FIELD_TIME, time);
    if (step) tri__proto_integer(&m, TRI_EVENT_FIELD_STEP, (uint64_t)step);
    return m;
}

/* An event of a summary's values, if it has any; frees the summary. */
static void write_summary(tfevents *t, const tri_event *event, tri_buffer *summary) {
    tri_buffer record = new_event(event->time, event->step);
    int any = summary->size || summary->failed;
    tri__proto_message(&record, TRI_EVENT_FIELD_SUMMARY, summary);
    if (any) write_record(t, &record);
    else tri__buffer_free(&record);
}

/* A point of a curve; text: description of the curve, or NULL. */
static void put_scalar(tri_buffer *summary, const char *tag, double number, const char *text) {
    tri_buffer value = {0}, metadata = {0};
    tri__proto_text(&value, TRI_VALUE_TAG, tag);
    tri__proto_float(&value, TRI_VALUE_SIMPLE, (float)number);
    if (text) {
        tri__proto_text(&metadata, TRI_METADATA_TEXT, text);
        tri__proto_message(&value, TRI_VALUE_METADATA, &metadata);
    }
    tri__proto_message(summary, TRI_SUMMARY_VALUE, &value);
}

static void write_described(tfevents *t, const tri_event *event, const char *tag, double number, const char *text) {
    tri_buffer summary = {0};
    put_scalar(&summary, tag, number, text);
    write_summary(t, event, &summary);
}

static void write_scalar(tfevents *t, const tri_event *event, const char *tag, double number) {
    write_described(t, event, tag, number, NULL);
}

static void write_step(tfevents *t, const tri_event *event) {
    double seconds = event->step_seconds;
    tri_buffer speed = {0};
    write_scalar(t, event, "train/loss", event->loss);
    write_scalar(t, event, "train/learning_rate", event->learning_rate);
    write_scalar(t, event, "train/grad_norm", event->grad_norm);
    if (event->experts) write_scalar(t, event, "train/balance_loss", event->balance_loss);
    if (event->experts) write_scalar(t, event, "train/dropped_tokens", event->dropped_tokens);
    write_scalar(t, event, "train/samples_per_second", tri__rate((double)event->samples, seconds));
    write_scalar(t, event, "train/epoch", event->epoch);
    put_scalar(&speed, "speed/step_ms", 1e3 * seconds, NULL);
    put_scalar(&speed, "speed/tokens_per_second", tri__rate((double)event->tokens, seconds), NULL);
    put_scalar(&speed, "speed/gflops", tri__rate(event->flops, seconds) / 1e9, NULL);
    put_scalar(&speed, "speed/loader_share", tri__rate(event->loader_seconds, seconds), NULL);
    put_scalar(&speed, "speed/comm_share", tri__rate(event->comm_seconds, seconds), NULL);
    put_scalar(&speed, "speed/idle_share", tri__rate(event->idle_seconds, seconds), NULL);
    if (event->mfu > 0) put_scalar(&speed, "speed/mfu", event->mfu, NULL);
    put_scalar(&speed, "memory/planned_bytes", (double)event->mem_bytes, NULL);
    if (event->device_bytes > 0) put_scalar(&speed, "memory/device_bytes", (double)event->device_bytes, NULL);
    if (event->loss_scale > 0) put_scalar(&speed, "train/loss_scale", event->loss_scale, NULL);
    write_summary(t, event, &speed);
}

/* Precision, recall and F1 of each class, and its precision-recall curve: of two classes only the positive one's. */
static void write_classes(tfevents *t, const tri_event *event) {
    static const char *const words[] = {"precision", "recall", "f1"};
    const tri_scores *scores = event->valid;
    const double *const figures[] = {scores->precision, scores->recall, scores->f1};
    char name[TRI_CLASS_TAG], tag[TRI_CLASS_TAG + 40];
    tri_buffer summary = {0};
    for (int c = 0; scores->f1 && c < scores->n_classes && c < TRI_CURVES_MAX; c++) {
        tri__tfevents_class(scores, c, name);
        for (int i = 0; i < 3; i++) {
            snprintf(tag, sizeof tag, "eval_%s/%s", words[i], name);
            put_scalar(&summary, tag, figures[i][c], NULL);
        }
        if (scores->above && (scores->positive < 0 || scores->positive == c)) tri__tfevents_curve(&summary, scores, c);
    }
    write_summary(t, event, &summary);
}

static void write_scores(tfevents *t, const tri_event *event) {
    char label[128], text[160];
    const tri_scores *scores = event->valid;
    const char *positive = tri__scores_positive(scores);
    if (positive) snprintf(text, sizeof text, "of label %s", tri__text_brief(positive, 40, label, sizeof label));
    write_scalar(t, event, "eval/loss", scores->loss);
    if (scores->is_number) {
        const char *name;
        double value;
        for (int at = 0; tri__number_figure(&scores->numbers, &at, &name, &value);) {
            snprintf(text, sizeof text, "eval/%s", name);
            write_scalar(t, event, text, value);
        }
        return;
    }
    write_scalar(t, event, "eval/accuracy", scores->accuracy);
    write_scalar(t, event, "eval/f1", scores->f1_macro);
    write_described(t, event, "eval/pr_auc", scores->pr_auc, positive ? text : NULL);
    write_described(t, event, "eval/average_precision", scores->average_precision, positive ? text : NULL);
    write_described(t, event, "eval/roc_auc", scores->roc_auc, positive ? text : NULL);
    write_classes(t, event);
}

/* The configuration, or the end of the run. */
static void write_session(tfevents *t, const tri_event *event) {
    tri_buffer summary = {0};
    if (event->kind == TRI_EVENT_END) tri__tfevents_hyper_end(&summary, event->time);
    else tri__tfevents_config(&summary, event->facts), tri__tfevents_hyper(&summary, event->facts, event->time);
    write_summary(t, event, &summary);
}

static tri_status start(tfevents *t, const tri_event *event) {
    char host[65] = "", name[160];
    if (t->to.file) return TRI_OK;
    if (gethostname(host, sizeof host - 1) || !*host) strcpy(host, "localhost");
    snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%ld.0", (long long)event->time, host, (long)getpid());
    TRI_TRY(tri__path_join(t->to.path, t->folder, name));
    TRI_TRY(tri__run_file_start(&t->to, TRI_OWN_FRESH));
    tri_buffer m = new_event(event->time, 0);
    tri__proto_text(&m, TRI_EVENT_FIELD_VERSION, "brain.Event:2");
    write_record(t, &m);
    if (event->step > 0) { /* resumed: makes TensorBoard discard later steps of earlier files */
        tri_buffer session = {0};
        tri__proto_integer(&session, SESSION_STATUS, SESSION_START);
        m = new_event(event->time, event->step + !event->again);
        tri__proto_message(&m, TRI_EVENT_FIELD_SESSION, &session);
        write_record(t, &m);
    }
    write_session(t, event);
    return TRI_OK;
}

static tri_status emit(void *context, const tri_event *event) {
    tfevents *t = context;
    if (event->kind == TRI_EVENT_START) TRI_TRY(start(t, event));
    if (!t->to.file) return TRI_OK;
    if (event->kind == TRI_EVENT_TRAIN) write_step(t, event);
    else if (event->kind == TRI_EVENT_EPOCH && event->valid) write_scores(t, event);
    else if (event->kind == TRI_EVENT_END) write_session(t, event);
    return tri__run_file_commit(&t->to, event, 0);
}

tri_status tri__tfevents_open(const char *folder, tri_sink *sink) {
    *sink = (tri_sink){0};
    tfevents *t = calloc(1, sizeof *t);
    if (!t) return tri__fail(TRI_RESOURCE, "no memory for tfevents");
    *sink = (tri_sink){.emit = emit, .context = t};
    tri_status status = tri__path_join(t->folder, folder, "");
    if (status != TRI_OK) tri__tfevents_close(sink);
    return status;
}

tri_status tri__tfevents_close(tri_sink *sink) {
    tfevents *t = sink->context;
    tri_status status = t ? tri__run_file_close(&t->to) : TRI_OK;
    tri__sink_close(sink);
    return status;
}
