/* log_to.h - a run's figures in the file formats of other tools: --log-to TOOL:FOLDER. A tool is a row of tools[] in
 * log_to.c and a file with these four functions. Each gets lines of metrics.jsonl, from the run as it goes on and, when
 * a run is resumed, all earlier ones again from that file: a tool's files are written anew, and so agree with it. */
#ifndef TRI_REPORT_SINKS_LOG_TO_H
#define TRI_REPORT_SINKS_LOG_TO_H

#include "base/file.h"
#include "base/json.h"

/* A run, as a tool's files name it. */
typedef struct tri_logged_run {
    const char *folder;     /* of --log-to, absolute; exists */
    const char *run_folder; /* absolute */
    const char *name;       /* of the run folder, without its path */
    const char *id;         /* 32 hexadecimal digits, kept when the run is resumed */
    double begun;           /* seconds since 1970, likewise */
    const tri_json *facts;  /* of the START event */
} tri_logged_run;

/* Figures of a step or an epoch. */
typedef struct tri_logged_row {
    const char *group;      /* "train", "eval" */
    double time;            /* seconds since 1970 */
    int64_t step;
    const tri_json *line;   /* of metrics.jsonl: numbers, and other members, which are not figures */
} tri_logged_row;

typedef enum tri_logged_end { TRI_LOGGED_DONE, TRI_LOGGED_STOPPED, TRI_LOGGED_FAILED } tri_logged_end;

typedef struct tri_log_tool {
    const char *name;
    /* What `run` points to lasts only for the call. */
    tri_status (*begin)(const tri_logged_run *run, void **state);
    tri_status (*row)(void *state, const tri_logged_row *row);
    tri_status (*flush)(void *state);
    tri_status (*end)(void *state, tri_logged_end how, double time); /* also frees the state */
} tri_log_tool;

extern const tri_log_tool tri__mlflow, tri__wandb;

/* The figures of a row: goes on to the next numeric member from *at, 0 at first; 0: no more. */
int tri__logged_next(const tri_logged_row *row, size_t *at, const char **key, double *value);
/* Creates a file without waiting for the disk, or appends to it. */
tri_status tri__logged_write(const char *path, tri_own_way way, const char *text, size_t size);

#endif
