/* log.h - messages to users and the progress of long work, passed to the code that asked for it, and its request to end
 * early. The library itself prints nothing. */
#pragma once

#include "base/stop.h"

/* PLAIN and FAILURE: a line without a prefix, and a failure of ranks; only of what starts them (job/parent.h). */
typedef enum tri_log_level { TRI_LOG_INFO, TRI_LOG_WARN, TRI_LOG_PLAIN, TRI_LOG_FAILURE } tri_log_level;

typedef struct tri_log {
    void (*say)(void *context, tri_log_level level, const char *text); /* NULL: silence */
    void (*rows)(void *context, int64_t done, int64_t all);            /* NULL: progress is not shown */
    void *context;
    const tri_stop *stop; /* what takes long looks at it; NULL: never */
} tri_log;

/* 1 if the log has a receiver. A log may be NULL. */
int tri__log_heard(const tri_log *log);
/* One line, without its newline. */
void tri__say(const tri_log *log, tri_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Work on rows: how many are done. TRI_STOPPED when a stop was requested. */
tri_status tri__log_rows(const tri_log *log, int64_t done, int64_t all);
