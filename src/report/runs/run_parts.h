/* run_parts.h - the parts of a run's data, shared by the files that read them. */
#pragma once

#include "base/file.h"
#include "data/table/jsonl.h"
#include "report/runs/run_data.h"

#include <sys/types.h>

/* Adds a text to run.missing, once. */
void tri__run_missing(tri_json *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A file of the folder; *out, a new reference, is NULL when there is none or when it is damaged. What is damaged is
 * noted in the run, as is what is `expected` and not there. */
tri_status tri__run_load(const char *folder, const char *name, int expected, tri_json *run, tri_json **out);

/* ---- run_events.c: metrics.jsonl in memory, what its lines said so far ---- */

/* Columns: those of every event of a step, then its figures. */
enum { TRI_RUN_STEP, TRI_RUN_TIME, TRI_RUN_EPOCH, TRI_RUN_FIGURES, TRI_RUN_COLUMNS = TRI_RUN_FIGURES + 32 };
enum { TRI_RUN_KEY = 40, TRI_RUN_LAST = 4096 };

/* Train events as rows: one for each step. */
typedef struct tri_run_lines {
    char key[TRI_RUN_COLUMNS][TRI_RUN_KEY];
    int n_keys;                  /* with TRI_RUN_FIGURES */
    double *value;               /* [n, TRI_RUN_COLUMNS]; NaN: not in that event */
    int64_t n;
    size_t room;
    double last_step;            /* of any event */
    int64_t lines, damaged;
    tri_jsonl_line flat;         /* the line that is read: those of steps have no nested values */
    char last[TRI_RUN_LAST];     /* the last train event's line; "": none, or it is longer */
    tri_json *head;              /* started, updated, facts, config, steps, epochs */
    tri_json *starts, *checkpoints, *warnings, *validations;
    int64_t n_warnings;
    int ended;                   /* the last `start` has an `end` */
} tri_run_lines;

void tri__run_lines_open(tri_run_lines *lines);
void tri__run_lines_close(tri_run_lines *lines); /* accepts a zeroed one */
/* One line, without its newline. Damaged ones are counted and left out. */
tri_status tri__run_lines_take(tri_run_lines *lines, const char *line, size_t length);
/* The last event of a step as it stands; NULL: none. A new reference. */
tri_status tri__run_lines_last(const tri_run_lines *lines, tri_json **out);
/* Times in JSON are whole seconds: 9 digits, which is what it is written with, are not enough for more. */
tri_json *tri__run_time(double seconds);

/* ---- run_curves.c: metrics.jsonl, followed as it grows ---- */

enum { TRI_RUN_SEEN = 256 };

struct tri_run_reader {
    char folder[TRI_PATH_MAX], path[TRI_PATH_MAX]; /* of the run; of its metrics.jsonl */
    tri_run_lines lines;
    ino_t inode;
    int64_t at;              /* bytes of complete lines that were read */
    char seen[TRI_RUN_SEEN]; /* [n_seen] the last of those bytes: they tell whether the file is still the same */
    int n_seen;
    int found;               /* there is such a file */
    int torn;                /* its last line has no newline: it is still written, or was cut off */
};

/* Reads what was appended since the last call, or everything if the file is another one now; all that was ever read
 * goes into started, updated, step, steps, epoch, epochs, facts, config, starts, checkpoints, warnings, curves,
 * validations, last, shares, rates. */
tri_status tri__run_follow(tri_run_reader *reader, const tri_run_data_options *options, tri_json *run);

/* ---- validation_figures.c: validation probabilities that a run keeps, as figures ---- */

/* validation-best.csv and validation-last.csv into predictions:
 *
 *   file, rows, positive    the file; rows in it; the positive label, absent beyond two classes
 *   loss, accuracy, f1_macro, pr_auc, average_precision, roc_auc      loss: mean of -log p(label)
 *   classes       [{label, rows, precision, recall, f1}]
 *   confusion     [[rows]] by label, then prediction; absent beyond 32 classes
 *   confused      [{label, predicted, rows}]: the most frequent errors, at most 12
 *   pr, roc       [{label, area, x, y}]: recall and precision; false and true positive rate. Of the positive label; of
 *                 the 8 most frequent ones, each against the rest, beyond two classes
 *   reliability   {ece, bins, calibrated: {temperature, ece, bins}}: of the model's own probabilities and, where the
 *                 run fitted a temperature, of those that `eval` scores; score/reliability.h has the definition
 *   worst, uncertain   with rows asked for: [{row, label, predicted, probability, loss, margin, fields: {column:
 *                 text}}]: the largest losses; the smallest margins between the two most probable labels */
tri_status tri__run_predictions(const char *folder, const tri_run_data_options *options, tri_json *run);

/* A validation file in memory. */
typedef struct tri_predicted {
    int64_t n;
    int n_classes;
    char **class;    /* [n_classes] */
    int64_t *row;    /* [n] numbers of data rows, from 1 */
    int32_t *label;  /* [n] */
    float *probs;    /* [n, n_classes] */
} tri_predicted;

/* The curves above, pr or roc; areas are those of score/metrics.h. */
tri_json *tri__predicted_curve(const tri_predicted *p, int class, int roc);

/* validation_rows.c: the `most` worst and most uncertain rows, into `worst` and `uncertain` of `into`; their fields are
 * read from the table that run.config names. What is missing is noted in the run. */
tri_status tri__predicted_rows(const tri_predicted *p, int most, tri_json *run, tri_json *into);

/* ---- merged_profiles.c: the profiles of a run's ranks as one ---- */

/* profile-rank<r>.json (train/record/profile.h) into profile. names: of the folder. Seconds are of one step.
 *
 *   world, n, steps  ranks of the run; those with a profile; [first, last] recorded step of the first of them
 *   seconds      of a step, the mean over ranks
 *   parts        {compute, copies, transfers, waiting, loader, other}: mean over ranks
 *   ranks        [{rank, coords, device, seconds, parts, shares, clock, memory}]
 *   operations   [{name, calls, seconds, flops, bytes}]: mean over ranks, costliest first
 *   modules      a tree of {name, parameters, flops, seconds, children}: seconds are the mean over ranks, flops and
 *                parameters those of all ranks (parameters of one replica)
 *   transfers    [{kind, count, bytes, seconds, exposed_seconds, waiting_seconds}]: mean over ranks, costliest first
 *   memory       {class: {planned, held, peak}}: of the rank that holds most, which is memory_rank
 *   timeline     {step, seconds, left_out, ranks: [{rank, coords, legs: [[kind, mb, begin, end]], transfers: [[kind,
 *                begin, end]]}]}: of the last recorded step that all ranks have; 0 is its earliest begin. left_out:
 *                boxes that were too many */
tri_status tri__run_profiles(const char *folder, const tri_names *names, const tri_run_data_options *options,
                             tri_json *run);
/* profiles: objects of the files. A new reference; NULL: out of memory. legs: most boxes of the timeline. */
tri_json *tri__profiles_merge(const tri_json *profiles, int legs);

/* ---- binding.c: what limits the speed of a run, in one sentence, and what to try ---- */

/* Of one step, mean over ranks unless said otherwise; 0: unknown. */
typedef struct tri_binding_figures {
    double loader, comm, idle; /* shares of the step: waiting for batches, moving data, waiting for other ranks */
    double compute;            /* share of the step */
    char kind[32];             /* the costliest kind of transfer: "all_reduce"; "" */
    double kind_bytes, kind_seconds; /* sent by a rank, and exposed, in that kind */
    int world, pp, tp, machines;
    int64_t microbatches;
    double most_busy, least_busy;    /* seconds computing, of the busiest and of the idlest rank */
    double kernel_seconds;     /* mean of a kernel */
    double small;              /* share of computing in operations with little arithmetic a byte */
    double mfu;                /* above 1 where the peak is too low */
    const char *costliest;     /* operation, or NULL */
    const char *precision, *shard;
} tri_binding_figures;

/* {kind, words}: a new reference; NULL if out of memory. kind: loader, communication, stages, bubble, waiting, launch,
 * memory, compute, unknown. */
tri_json *tri__binding(const tri_binding_figures *figures);
/* Of a run's data (run_data.h), into its `binding`. */
void tri__run_binding(tri_json *run);

/* curve_thinning.c: a curve of n points (steps ascending) with at most `most` of them: the smallest and the largest of
 * each bucket, the first and the last. Both arrays have `stride` numbers a point. Values that are not finite are left
 * out. A new reference. */
tri_json *tri__thin_curve(const double *step, const double *value, int64_t n, int64_t stride, int most);
/* To 6 significant digits, which is more than a picture shows. */
double tri__curve_value(double value);
