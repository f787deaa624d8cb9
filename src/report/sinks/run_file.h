/* run_file.h - a file that grows with its run (metrics.jsonl, events.out.tfevents.*): created or continued at the START
 * event, flushed at checkpoints, epochs, the end, and every 2 seconds. */
#pragma once

#include "base/file.h"
#include "train/events.h"

typedef struct tri_run_file {
    char path[TRI_PATH_MAX];
    FILE *file;      /* NULL before START */
    int fd;          /* of the file */
    int failed;      /* out of memory: a record is missing */
    double flushed;  /* tri__clock() of the last flush */
} tri_run_file;

/* Opens f->path. */
tri_status tri__run_file_start(tri_run_file *f, tri_own_way way);
/* Flushes a started file after an event that a reader waits for, or `eager`ly after any. */
tri_status tri__run_file_commit(tri_run_file *f, const tri_event *event, int eager);
/* Flushes and closes a file that may not have been started. */
tri_status tri__run_file_close(tri_run_file *f);
