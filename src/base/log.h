/* log.h - messages to users, passed to the code that opened the session. The library itself prints nothing. */
#ifndef TRI_BASE_LOG_H
#define TRI_BASE_LOG_H

typedef enum tri_log_level { TRI_LOG_INFO, TRI_LOG_WARN } tri_log_level;

typedef struct tri_log {
    void (*say)(void *context, tri_log_level level, const char *text); /* NULL: silence */
    void *context;
} tri_log;

/* 1 if the log has a receiver. A log may be NULL. */
int tri__log_heard(const tri_log *log);
/* One line, without its newline. */
void tri__say(const tri_log *log, tri_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
