/* sinks.h - where a run's events go: stderr, and for training the files of the run folder. */
#pragma once

#include "cli/cli.h"

/* Progress and messages on stderr; close with tri__progress_close. */
tri_status tri__cli_progress(const tri_cli *cli, int quiet, tri_sink *sink);

/* The outcome of a training run. */
typedef struct tri_outcome {
    int64_t step;     /* last step taken */
    char *checkpoint; /* folder of the last checkpoint; NULL: none */
    tri_json *summary;  /* NULL if the run did not finish */
    int unchanged;    /* it had finished before: nothing was trained or written */
} tri_outcome;
void tri__outcome_free(tri_outcome *outcome);

/* Whether the run, which has ended in this world, may go on in another: a rank failed, or others join. */
int tri__goes_on(const tri_settings *settings, const tri_world *world);

/* Trains with every sink: progress, metrics, tfevents, traces, summary. A run that fails after its start leaves
 * error.json. `world`: this rank's world; NULL: a single process. */
tri_status tri__train_with_sinks(tri_cli *cli, const tri_settings *settings, tri_world *world, tri_outcome *outcome);

/* report.c: the page that a run leaves in its folder.
 *
 * Writes report.html; does nothing where the folder has no run. A page that cannot be written is a warning on `err`;
 * the text of an earlier failure stays. */
void tri__report_write(const tri_cli *cli, const char *folder);
