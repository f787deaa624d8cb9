/* access_log.c - the access log: an object a line, in RFC 3339 time, gathered, and written a few times a second by a
 * thread that answers no request. A log that cannot be written, or not fast enough, stops no answer: its lines are
 * lost. */
#include "serve/server/server_parts.h"

enum { MOST = 16 << 20 }; /* bytes that wait to be written */

void tri__access_open(tri_access_log *log, int fd) {
    pthread_mutex_init(&log->mutex, NULL);
    log->fd = fd;
}

static void put_line(tri_buffer *out, const tri_http_record *record) {
    struct tm utc;
    char stamp[32];
    time_t whole = (time_t)record->begun;
    gmtime_r(&whole, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    tri__buffer_put(out, "{\"time\":\"%s.%03dZ\"", stamp, (int)(fmod(record->begun, 1) * 1000));
    tri__put_string(out, ",\"client\":", record->peer);
    tri__put_string(out, ",\"method\":", record->method);
    tri__put_string(out, ",\"path\":", record->path);
    tri__buffer_put(out, ",\"status\":%d,\"bytes_in\":%zu,\"bytes_out\":%zu,\"seconds\":%.6f}\n",
                    record->status ? record->status : 499, record->bytes_in, record->bytes_out, record->seconds);
}

void tri__access_add(tri_access_log *log, const tri_http_record *record) {
    if (log->fd < 0) return;
    TRI_LOCKED(&log->mutex);
    if (log->lines.size < MOST) put_line(&log->lines, record);
}

void tri__access_tick(tri_access_log *log) {
    if (log->fd < 0) return;
    pthread_mutex_lock(&log->mutex);
    tri_buffer lines = log->lines;
    log->lines = (tri_buffer){0};
    pthread_mutex_unlock(&log->mutex);
    if (lines.size) (void)tri__write_all(log->fd, lines.text, lines.size, "the access log");
    tri__buffer_free(&lines);
}

void tri__access_close(tri_access_log *log) {
    tri__access_tick(log);
    pthread_mutex_destroy(&log->mutex);
}
