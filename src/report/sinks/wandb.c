/* wandb.c - W&B's offline files: FOLDER/offline-run-<time>-<id>/run-<id>.wandb, which `wandb sync` uploads and `wandb
 * leet` shows. The file is a LevelDB log: after a header of 7 bytes, blocks of 32 KiB; a piece of a record is CRC-32 of
 * type and data, u16 length, u8 type, data; a record that does not fit into a block continues in the next. Records
 * are protobuf messages of wandb_internal.proto. docs/reference/formats.md */
#include "report/sinks/log_to.h"

#include "report/sinks/protobuf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 32768, PIECE_HEADER = 7, FULL = 1, FIRST, MIDDLE, LAST };
enum { /* fields, by message */
    RECORD_NUM = 1, RECORD_HISTORY = 2, RECORD_SUMMARY = 3, RECORD_RUN = 17, RECORD_EXIT = 18, RECORD_HEADER = 21,
    HEADER_VERSION = 1, VERSION_PRODUCER = 1, VERSION_CONSUMER = 2,
    RUN_ID = 1, RUN_PROJECT = 3, RUN_CONFIG = 4, RUN_NAME = 8, RUN_HOST = 13, RUN_START = 17,
    CONFIG_UPDATE = 1, SUMMARY_UPDATE = 1, ITEM_KEY = 1, ITEM_NESTED = 2, ITEM_JSON = 16,
    HISTORY_ITEM = 1, HISTORY_STEP = 2, STEP_NUM = 1, TIME_SECONDS = 1, TIME_NANOS = 2, EXIT_CODE = 1
};
static const char header[] = {':', 'W', '&', 'B', (char)0xE1, (char)0xBE, 0}; /* magic 0xBEE1, version 0 */

typedef struct wandb {
    char path[TRI_PATH_MAX];
    double begun;
    size_t at;             /* bytes of the file, those in `out` included */
    tri_buffer out;        /* not yet written */
    uint64_t records;
    int64_t step;          /* of `row`; -1: none */
    double time;
    tri_buffer row;        /* items of a history record: a step's, to which an epoch's are added */
    tri_json *summary;     /* the last value of each figure */
    int summary_changed;
} wandb;

static uint32_t crc32_of(uint32_t crc, const char *data, size_t size) {
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= (uint8_t)data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

static void put_piece(wandb *w, int type, const char *data, size_t size) {
    char kind = (char)type;
    uint32_t crc = crc32_of(crc32_of(0, &kind, 1), data, size);
    const char head[PIECE_HEADER] = {(char)crc, (char)(crc >> 8), (char)(crc >> 16), (char)(crc >> 24), (char)size,
                                     (char)(size >> 8), kind};
    tri__buffer_add(&w->out, head, sizeof head);
    tri__buffer_add(&w->out, data, size);
    w->at += sizeof head + size;
}

/* Frees the message. */
static void put_record(wandb *w, int field, tri_buffer *message) {
    static const char zeros[PIECE_HEADER] = {0};
    tri_buffer record = {0};
    tri__proto_integer(&record, RECORD_NUM, ++w->records);
    tri__proto_message(&record, field, message);
    w->out.failed |= record.failed;
    for (size_t done = 0; !w->out.failed && done < record.size;) {
        size_t room = BLOCK - w->at % BLOCK, left = record.size - done;
        if (room < PIECE_HEADER) { /* the rest of a block that has no room for a header stays empty */
            tri__buffer_add(&w->out, zeros, room);
            w->at += room;
            continue;
        }
        size_t size = left < room - PIECE_HEADER ? left : room - PIECE_HEADER;
        int type = done == 0 ? (size == left ? FULL : FIRST) : (size == left ? LAST : MIDDLE);
        put_piece(w, type, record.text + done, size);
        done += size;
    }
    tri__buffer_free(&record);
}

/* An item {key, value as JSON} of a history, summary or configuration. */
static void put_item(tri_buffer *list, int field, int key_field, const char *key, const char *json) {
    tri_buffer item = {0};
    tri__proto_text(&item, key_field, key);
    tri__proto_text(&item, ITEM_JSON, json);
    tri__proto_message(list, field, &item);
}

static void put_number(tri_buffer *list, int field, const char *key, double value) {
    char text[40];
    snprintf(text, sizeof text, "%.17g", value);
    put_item(list, field, ITEM_NESTED, key, text);
}

static void put_version(wandb *w) {
    tri_buffer version = {0}, message = {0};
    tri__proto_text(&version, VERSION_PRODUCER, "trident");
    tri__proto_text(&version, VERSION_CONSUMER, "0.70.0");
    tri__proto_message(&message, HEADER_VERSION, &version);
    put_record(w, RECORD_HEADER, &message);
}

static void put_run(wandb *w, const tri_logged_run *run) {
    const char *key;
    tri_json *value, *of = tri__json_get(run->facts, "config");
    tri_buffer message = {0}, config = {0}, start = {0};
    char host[65] = "", id[9];
    if (gethostname(host, sizeof host - 1) || !*host) strcpy(host, "localhost");
    snprintf(id, sizeof id, "%.8s", run->id);
    tri__json_each_member(of, key, value) {
        char *text = tri__json_text(value, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(9));
        config.failed |= !text;
        if (text) put_item(&config, CONFIG_UPDATE, ITEM_KEY, key, text);
        free(text);
    }
    tri__proto_text(&message, RUN_ID, id);
    tri__proto_text(&message, RUN_PROJECT, "trident");
    tri__proto_message(&message, RUN_CONFIG, &config);
    tri__proto_text(&message, RUN_NAME, run->name);
    tri__proto_text(&message, RUN_HOST, host);
    double whole = floor(run->begun);
    tri__proto_integer(&start, TIME_SECONDS, (uint64_t)whole);
    tri__proto_integer(&start, TIME_NANOS, (uint64_t)((run->begun - whole) * 1e9));
    tri__proto_message(&message, RUN_START, &start);
    put_record(w, RECORD_RUN, &message);
}

/* The history record of the step so far. */
static void put_history(wandb *w) {
    tri_buffer step = {0};
    if (w->step < 0) return;
    put_number(&w->row, HISTORY_ITEM, "_step", (double)w->step);
    put_number(&w->row, HISTORY_ITEM, "_timestamp", w->time);
    put_number(&w->row, HISTORY_ITEM, "_runtime", fmax(w->time - w->begun, 0));
    tri__proto_integer(&step, STEP_NUM, (uint64_t)w->step);
    tri__proto_message(&w->row, HISTORY_STEP, &step);
    put_record(w, RECORD_HISTORY, &w->row);
    w->step = -1;
}

static void put_summary(wandb *w) {
    const char *key;
    tri_json *value;
    tri_buffer message = {0};
    if (!w->summary_changed) return;
    tri__json_each_member(w->summary, key, value)
        put_number(&message, SUMMARY_UPDATE, key, tri__json_number_value(value));
    put_record(w, RECORD_SUMMARY, &message);
    w->summary_changed = 0;
}

static tri_status write_out(wandb *w) {
    if (w->out.failed || !tri__json_is_whole(w->summary)) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(tri__logged_write(w->path, TRI_OWN_APPEND, w->out.text ? w->out.text : "", w->out.size));
    w->out.size = 0;
    return TRI_OK;
}

static void free_state(wandb *w) {
    tri__buffer_free(&w->out);
    tri__buffer_free(&w->row);
    tri__json_decref(w->summary);
    free(w);
}

static tri_status make_file(wandb *w, const tri_logged_run *run) {
    char name[80], stamp[32], folder[TRI_PATH_MAX];
    time_t begun = (time_t)run->begun;
    struct tm utc;
    gmtime_r(&begun, &utc);
    strftime(stamp, sizeof stamp, "%Y%m%d_%H%M%S", &utc);
    snprintf(name, sizeof name, "offline-run-%s-%.8s", stamp, run->id);
    TRI_TRY(tri__path_join(folder, run->folder, name));
    TRI_TRY(tri__folder_make(folder));
    snprintf(name, sizeof name, "run-%.8s.wandb", run->id);
    TRI_TRY(tri__path_join(w->path, folder, name));
    TRI_TRY(tri__logged_write(w->path, TRI_OWN_FRESH, header, sizeof header));
    w->at = sizeof header;
    put_version(w);
    put_run(w, run);
    return write_out(w);
}

static tri_status begin(const tri_logged_run *run, void **state) {
    wandb *w = calloc(1, sizeof *w);
    *state = NULL;
    if (w) w->summary = tri__json_object(), w->begun = run->begun, w->step = -1;
    if (!w || !w->summary) {
        free(w);
        return tri__fail(TRI_RESOURCE, "out of memory");
    }
    tri_status status = make_file(w, run);
    if (status == TRI_OK) *state = w;
    else free_state(w);
    return status;
}

static tri_status row(void *state, const tri_logged_row *row) {
    wandb *w = state;
    const char *key;
    double value;
    if (row->step != w->step) put_history(w);
    w->step = row->step, w->time = row->time;
    for (size_t at = 0; tri__logged_next(row, &at, &key, &value);) {
        char name[256];
        snprintf(name, sizeof name, "%s/%s", row->group, key);
        put_number(&w->row, HISTORY_ITEM, name, value);
        tri__json_set_new(w->summary, name, tri__json_real(value));
        w->summary_changed = 1;
    }
    return TRI_OK;
}

static tri_status flush(void *state) {
    put_summary(state);
    return write_out(state);
}

static tri_status end(void *state, tri_logged_end how, double time) {
    wandb *w = state;
    tri_buffer code = {0};
    (void)time;
    put_history(w);
    put_summary(w);
    tri__proto_integer(&code, EXIT_CODE, how == TRI_LOGGED_DONE ? 0 : 1);
    put_record(w, RECORD_EXIT, &code);
    tri_status status = write_out(w);
    free_state(w);
    return status;
}

const tri_log_tool tri__wandb = {.name = "wandb", .begin = begin, .row = row, .flush = flush, .end = end};
