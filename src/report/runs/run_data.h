/* run_data.h - everything that the page of a run shows, read from its folder into one JSON object.
 *
 * The folder may be written at this moment, cut off, or damaged: whatever cannot be read is named in `missing`, and all
 * else is there. Members without a value are absent. Times are seconds since 1970, durations seconds, sizes bytes.
 *
 *   name, folder       the last part of the path; the path as given
 *   state, words       running, finished, stopped, failed, ended (without an end: killed); one sentence
 *   error              error.json: code, message, step, time, ...
 *   missing            [text]: what could not be read, and why
 *   started, updated   of the first and the last event
 *   step, steps        taken; in all
 *   epoch, epochs      taken, fractional; asked for
 *   facts              the last `start` event without `config`: version, device, parameters, rows, memory, ...
 *   config             of the last start
 *   starts             [{time, step, version, changed: {key: [was, now]}}]: the first and each restart
 *   checkpoints        [{step, time, bytes, best, valid, reason, mesh}]: of the last 100 events or more, then older
 *                      ones that are still there; bytes only where it still exists
 *   warnings           [{time, step, message}]: the first 10 and the last 40 or more; n_warnings: all
 *   curves             {key: {step: [..], value: [..], of}}: train events by key; of: points before thinning
 *   validations        the `epoch` events: [{step, epoch, train_loss, valid_loss, accuracy, ..., seconds, best, time}]
 *   last               the last train event, as it stands
 *   summary            summary.json without `ranks`
 *   ranks              summary.json's `ranks`: planned and measured memory and traffic, at most 64
 *   predictions        {best, last}: of validation-best.csv and validation-last.csv (run_parts.h)
 *   shares             {compute, comm, idle, loader}: of the time of the last half of the steps, each 0 to 1
 *   rates              {step_seconds, samples_per_second, tokens_per_second, gflops, mfu}: medians over the same steps
 *   profile            of the profile-rank<r>.json files (run_parts.h)
 *   binding            {kind, words}: what limits the speed, and what to try (binding.c)
 *   set                only in the report of a set of runs: "folds", "members" or "trials"
 */
#pragma once

#include "base/json.h"

typedef struct tri_run_data_options {
    int points;    /* most points of a curve; 0: 2,000 */
    int legs;      /* most boxes of the timeline; 0: 6,000 */
    int rows;      /* worst and most uncertain validation rows to show with their data; 0: none */
} tri_run_data_options;

/* A run folder that is read again and again: of metrics.jsonl, only what was appended since the last time. */
typedef struct tri_run_reader tri_run_reader;
tri_status tri__run_reader_open(const char *folder, tri_run_reader **out); /* reads nothing yet */
void tri__run_reader_close(tri_run_reader *reader);                       /* accepts NULL */
/* TRI_NOINPUT if there is no such folder, TRI_DATA if it holds nothing of a run. *out is a new reference. */
tri_status tri__run_reader_data(tri_run_reader *reader, const tri_run_data_options *options, tri_json **out);
/* The same, once. */
tri_status tri__run_data(const char *folder, const tri_run_data_options *options, tri_json **out);

/* What the page is given: {format: 1, version, live, made, runs}; `runs` is a list of tri__run_data. A new reference;
 * NULL if out of memory. */
tri_json *tri__report_json(const tri_json *runs, int live);
/* The same as text, which the caller frees. */
char *tri__report_text(const tri_json *runs, int live);
/* The page, self-contained, with that object in it; the caller frees it. live: it asks for data.json, which is that
 * object again, every 2 seconds. */
tri_status tri__report_page(const tri_json *runs, int live, char **html, size_t *size);
