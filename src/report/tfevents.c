/* tfevents.c - TensorBoard's event files. A record is length, masked CRC-32C of the length, data, masked CRC-32C of the
 * data; the data is a protobuf Event, of which scalars need five fields, written by hand. docs/reference/formats.md */
#include "report/sinks.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "report/numbers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double flush_seconds = 2;

typedef struct tfevents {
    char folder[TRI_PATH_MAX], path[TRI_PATH_MAX];
    FILE *file;      /* NULL before START */
    double flushed;  /* tri__clock() of the last flush */
} tfevents;

/* Protobuf tags: field number << 3 | wire type. */
enum {
    EVENT_TIME = 1 << 3 | 1,       /* double */
    EVENT_STEP = 2 << 3 | 0,       /* varint */
    EVENT_VERSION = 3 << 3 | 2,    /* string */
    EVENT_SUMMARY = 5 << 3 | 2,    /* message */
    EVENT_SESSION = 7 << 3 | 2,    /* message */
    SESSION_STATUS = 1 << 3 | 0,   /* varint */
    SESSION_START = 1,
    SUMMARY_VALUE = 1 << 3 | 2,    /* message */
    VALUE_TAG = 1 << 3 | 2,        /* string */
    VALUE_SIMPLE = 2 << 3 | 5,     /* float */
    VALUE_METADATA = 9 << 3 | 2,   /* message */
    METADATA_TEXT = 3 << 3 | 2,    /* string: TensorBoard's description of a tag */
    MESSAGE_MAX = 512              /* limit; all of ours are shorter */
};

typedef struct message {
    uint8_t data[MESSAGE_MAX];
    size_t size;
} message;

static void put_bytes(message *m, const void *data, size_t size) {
    TRI_ASSERT(size <= sizeof m->data - m->size);
    memcpy(m->data + m->size, data, size);
    m->size += size;
}

static void put_byte(message *m, uint8_t byte) { put_bytes(m, &byte, 1); }

static void put_varint(message *m, uint64_t value) {
    for (; value >= 0x80; value >>= 7) put_byte(m, (uint8_t)(value | 0x80));
    put_byte(m, (uint8_t)value);
}

static void put_block(message *m, uint8_t tag, const void *data, size_t size) {
    put_byte(m, tag);
    put_varint(m, size);
    put_bytes(m, data, size);
}

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

static void write_record(FILE *out, const message *m) {
    uint64_t length = m->size;
    uint32_t length_crc = masked_crc(&length, sizeof length), data_crc = masked_crc(m->data, m->size);
    fwrite(&length, sizeof length, 1, out);
    fwrite(&length_crc, sizeof length_crc, 1, out);
    fwrite(m->data, 1, m->size, out);
    fwrite(&data_crc, sizeof data_crc, 1, out);
}

static message new_event(double time, int64_t step) {
    message m = {.size = 0};
    put_byte(&m, EVENT_TIME);
    put_bytes(&m, &time, sizeof time);
    if (step) {
        put_byte(&m, EVENT_STEP);
        put_varint(&m, (uint64_t)step);
    }
    return m;
}

/* A point of a curve; text: description of the curve, or NULL. */
static void write_described(FILE *out, const tri_event *event, const char *tag, double number, const char *text) {
    message value = {.size = 0}, metadata = {.size = 0}, summary = {.size = 0},
            record = new_event(event->time, event->step);
    float simple = (float)number;
    put_block(&value, VALUE_TAG, tag, strlen(tag));
    put_byte(&value, VALUE_SIMPLE);
    put_bytes(&value, &simple, sizeof simple);
    if (text) {
        put_block(&metadata, METADATA_TEXT, text, strlen(text));
        put_block(&value, VALUE_METADATA, metadata.data, metadata.size);
    }
    put_block(&summary, SUMMARY_VALUE, value.data, value.size);
    put_block(&record, EVENT_SUMMARY, summary.data, summary.size);
    write_record(out, &record);
}

static void write_scalar(FILE *out, const tri_event *event, const char *tag, double number) {
    write_described(out, event, tag, number, NULL);
}

static void write_scores(FILE *out, const tri_event *event) {
    char label[128], text[160];
    const tri_scores *scores = event->valid;
    const char *positive = tri__scores_positive(scores);
    if (positive) snprintf(text, sizeof text, "of label %s", tri__text_brief(positive, 40, label, sizeof label));
    write_scalar(out, event, "eval/loss", scores->loss);
    write_scalar(out, event, "eval/accuracy", scores->accuracy);
    write_scalar(out, event, "eval/f1", scores->f1_macro);
    write_described(out, event, "eval/pr_auc", scores->pr_auc, positive ? text : NULL);
    write_described(out, event, "eval/average_precision", scores->average_precision, positive ? text : NULL);
    write_described(out, event, "eval/roc_auc", scores->roc_auc, positive ? text : NULL);
}

static tri_status start(tfevents *t, const tri_event *event) {
    static const char version[] = "brain.Event:2";
    char host[65] = "", name[160];
    int fd;
    if (t->file) return TRI_OK;
    if (gethostname(host, sizeof host - 1) || !*host) strcpy(host, "localhost");
    snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%ld.0", (long long)event->time, host, (long)getpid());
    TRI_TRY(tri__path_join(t->path, t->folder, name));
    TRI_TRY(tri__file_own(t->path, TRI_OWN_FRESH, &fd));
    t->file = fdopen(fd, "wb");
    if (!t->file) {
        close(fd);
        return tri__fail(TRI_RESOURCE, "no memory for %s", t->path);
    }
    message m = new_event(event->time, 0);
    put_block(&m, EVENT_VERSION, version, sizeof version - 1);
    write_record(t->file, &m);
    if (event->step > 0) { /* resumed: makes TensorBoard discard later steps of earlier files */
        const uint8_t session[] = {SESSION_STATUS, SESSION_START};
        m = new_event(event->time, event->step + 1);
        put_block(&m, EVENT_SESSION, session, sizeof session);
        write_record(t->file, &m);
    }
    return TRI_OK;
}

static tri_status flush(tfevents *t) {
    if (fflush(t->file) || ferror(t->file)) return tri__fail(TRI_IO, "cannot write %s: %s", t->path, strerror(errno));
    t->flushed = tri__clock();
    return TRI_OK;
}

static tri_status emit(void *context, const tri_event *event) {
    tfevents *t = context;
    if (event->kind == TRI_EVENT_START) TRI_TRY(start(t, event));
    if (!t->file) return TRI_OK;
    if (event->kind == TRI_EVENT_TRAIN) {
        write_scalar(t->file, event, "train/loss", event->loss);
        write_scalar(t->file, event, "train/learning_rate", event->learning_rate);
        write_scalar(t->file, event, "train/grad_norm", event->grad_norm);
        write_scalar(t->file, event, "train/samples_per_second",
                     tri__rate((double)event->samples, event->step_seconds));
        write_scalar(t->file, event, "train/epoch", event->epoch);
    } else if (event->kind == TRI_EVENT_EPOCH && event->valid) write_scores(t->file, event);
    int commits = event->kind == TRI_EVENT_EPOCH || event->kind == TRI_EVENT_CHECKPOINT || event->kind == TRI_EVENT_END;
    return commits || tri__clock() - t->flushed > flush_seconds ? flush(t) : TRI_OK;
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
    tri_status status = TRI_OK;
    if (t && t->file) {
        status = flush(t);
        fclose(t->file);
    }
    free(t);
    *sink = (tri_sink){0};
    return status;
}
