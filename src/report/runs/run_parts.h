/* run_parts.h - the parts of a run's data, shared by the files that read them. */
#ifndef TRI_REPORT_RUNS_RUN_PARTS_H
#define TRI_REPORT_RUNS_RUN_PARTS_H

#include "base/file.h"
#include "report/runs/run_data.h"

/* Adds a text to run.missing, once. */
void tri__run_missing(tri_json *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* How metrics.jsonl ends. */
typedef struct tri_run_tail {
    int found;              /* there is such a file */
    int ended;              /* its last `start` has an `end` */
    int torn;               /* its last line has no newline: it is still written, or was cut off */
    int64_t lines, damaged; /* lines in all, and those that were left out */
} tri_run_tail;

/* run_follow.c: metrics.jsonl, followed as it grows. */
typedef struct tri_run_follow tri_run_follow;
tri_status tri__run_follow_open(const char *folder, tri_run_follow **out); /* reads nothing yet */
void tri__run_follow_close(tri_run_follow *follow);                       /* accepts NULL */
/* Reads what was appended since the last call, or everything if the file is another one now; all that was ever read
 * goes into started, updated, step, steps, epoch, epochs, facts, config, starts, checkpoints, warnings, curves,
 * validations, last, shares, rates. */
tri_status tri__run_follow(tri_run_follow *follow, const tri_run_data_options *options, tri_json *run,
                           tri_run_tail *tail);
/* predicted.c: validation-best.csv and validation-last.csv into predictions. */
tri_status tri__run_predictions(const char *folder, const tri_run_data_options *options, tri_json *run);
/* profiled.c: profile-rank<r>.json into profile. names: of the folder. */
tri_status tri__run_profiles(const char *folder, const tri_names *names, const tri_run_data_options *options,
                             tri_json *run);

/* thin.c: a curve of n points (steps ascending) with at most `most` of them: the smallest and the largest of each
 * bucket, the first and the last. Values that are not finite are left out. A new reference. */
tri_json *tri__thin_curve(const double *step, const double *value, int64_t n, int64_t stride, int most);
/* To 6 significant digits, which is more than a picture shows. */
double tri__rounded(double value);

#endif
