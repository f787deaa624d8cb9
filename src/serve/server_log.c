/* server_log.c - the access log: an object a line, in RFC 3339 time, gathered and written a few times a second, when
 * there is much, and at the end. A log that cannot be written stops no answer: its lines are lost. */
#include "serve/server_parts.h"

#include "base/file.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { MUCH = 64 << 10 }; /* bytes */

void tri__access_open(tri_access_log *log, int fd) {
    pthread_mutex_init(&log->mutex, NULL);
    log->fd = fd;
}

static void flush(tri_access_log *log) {
    if (log->lines.size) (void)tri__write_all(log->fd, log->lines.text, log->lines.size, "the access log");
    log->lines.size = 0;
    if (log->lines.failed) tri__buffer_free(&log->lines);
}

static void put_line(tri_buffer *out, const tri_http_record *record) {
    struct tm utc;
    char stamp[32];
    time_t whole = (time_t)record->begun;
    gmtime_r(&whole, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    tri__buffer_put(out, "{\"time\":\"%s.%03dZ\",\"client\":", stamp, (int)(fmod(record->begun, 1) * 1000));
    tri__buffer_json(out, record->peer, strlen(record->peer));
    tri__buffer_put(out, ",\"method\":");
    tri__buffer_json(out, record->method, strlen(record->method));
    tri__buffer_put(out, ",\"path\":");
    tri__buffer_json(out, record->path, strlen(record->path));
    tri__buffer_put(out, ",\"status\":%d,\"bytes_in\":%zu,\"bytes_out\":%zu,\"seconds\":%.6f}\n",
                    record->status ? record->status : 499, record->bytes_in, record->bytes_out, record->seconds);
}

void tri__access_add(tri_access_log *log, const tri_http_record *record) {
    if (log->fd < 0) return;
    pthread_mutex_lock(&log->mutex);
    put_line(&log->lines, record);
    if (log->lines.size > MUCH) flush(log);
    pthread_mutex_unlock(&log->mutex);
}

void tri__access_tick(tri_access_log *log) {
    if (log->fd < 0) return;
    pthread_mutex_lock(&log->mutex);
    if (log->lines.size) flush(log);
    pthread_mutex_unlock(&log->mutex);
}

void tri__access_close(tri_access_log *log) {
    if (log->fd >= 0) flush(log);
    tri__buffer_free(&log->lines);
    pthread_mutex_destroy(&log->mutex);
}
