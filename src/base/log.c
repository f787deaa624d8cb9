/* log.c - formats a line and passes it to the log; progress likewise. */
#include "base/log.h"

enum { LINE_BYTES = 8192 }; /* longer lines are truncated */

int tri__log_heard(const tri_log *log) { return log && log->say; }

void tri__say(const tri_log *log, tri_log_level level, const char *format, ...) {
    if (!tri__log_heard(log)) return;
    char line[LINE_BYTES];
    TRI_FORMAT(line, sizeof line, format);
    log->say(log->context, level, line);
}

tri_status tri__log_rows(const tri_log *log, int64_t done, int64_t all) {
    if (!log) return TRI_OK;
    if (log->rows) log->rows(log->context, done, all);
    return tri__stop_check(log->stop, "%lld of %lld rows were done", (long long)done, (long long)all);
}
