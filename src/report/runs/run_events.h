/* run_events.h - metrics.jsonl in memory: what its lines said so far. */
#ifndef TRI_REPORT_RUNS_RUN_EVENTS_H
#define TRI_REPORT_RUNS_RUN_EVENTS_H

#include "base/json.h"
#include "data/table/jsonl.h"

enum { TRI_RUN_COLUMNS = 32, TRI_RUN_KEY = 40, TRI_RUN_LAST = 4096 };

/* Train events as rows: one for each step. */
typedef struct tri_run_lines {
    char key[TRI_RUN_COLUMNS][TRI_RUN_KEY];
    int n_keys;
    double *step, *time, *epoch; /* [n] */
    double *value;               /* [n, TRI_RUN_COLUMNS]; NaN: not in that event */
    int64_t n, room;
    double last_step;            /* of any event */
    int64_t lines, damaged;
    tri_jsonl_line flat;         /* the line that is read: those of steps have no nested values */
    char last[TRI_RUN_LAST];     /* the last train event's line; "": none, or it is longer */
    tri_json *head;              /* started, updated, facts, config, steps, epochs */
    tri_json *starts, *checkpoints, *warnings, *validations;
    int64_t n_warnings;
    int ended;                   /* the last `start` has an `end` */
} tri_run_lines;

tri_status tri__run_lines_open(tri_run_lines *lines);
void tri__run_lines_close(tri_run_lines *lines); /* accepts a zeroed one */
/* One line, without its newline. Damaged ones are counted and left out. */
tri_status tri__run_lines_take(tri_run_lines *lines, const char *line, size_t length);
/* The last event of a step as it stands; NULL: none. A new reference. */
tri_status tri__run_lines_last(const tri_run_lines *lines, tri_json **out);
/* Times in JSON are whole seconds: 9 digits, which is what it is written with, are not enough for more. */
tri_json *tri__run_time(double seconds);

#endif
