/* run_signs.h - what a run folder tells a process that only sees that folder: `supervise`, whose ranks may run on other
 * machines. A sign is a file or folder that is not as it was when the job was started. */
#pragma once

#include "base/file.h"

typedef struct tri_run_signs {
    char folder[TRI_PATH_MAX];            /* "": not known; then there are no signs */
    char error[TRI_PATH_MAX];             /* its error.json */
    char *error_before;                   /* the content when the job was started; NULL: no such file */
    tri_stamp at_start, result[2], metrics; /* of the folder, its results and its metrics when the job was started */
    struct timespec saved;                /* of the newest checkpoint then */
    tri_stamp grown;                      /* of the metrics at the last look for life */
} tri_run_signs;

tri_status tri__run_open(tri_run_signs *signs, const char *folder);
void tri__run_close(tri_run_signs *signs);
/* Records how things are: a job is about to start. */
void tri__run_begin(tri_run_signs *signs);
/* The exit code in an error.json that is new; 0: there is none. *there: whether there is an error.json at all. */
int tri__run_failed(const tri_run_signs *signs, int *there);
/* Ranks have met and reached the folder. */
int tri__run_met(const tri_run_signs *signs);
/* The first step has begun, or the run has found nothing left to do. */
int tri__run_trains(const tri_run_signs *signs);
/* A checkpoint was committed. */
int tri__run_saved(const tri_run_signs *signs);
/* The run has written its results. */
int tri__run_complete(const tri_run_signs *signs);
/* A rank holds the folder's lock, or has written since the last call. */
int tri__run_alive(tri_run_signs *signs);
