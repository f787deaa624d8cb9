/* sinks.h - where a command's run speaks to: words on stderr, and for training the files of the run folder. */
#ifndef TRI_CLI_SINKS_H
#define TRI_CLI_SINKS_H

#include "cli/cli.h"

/* Progress and messages on stderr; close with tri__progress_close. */
tri_status tri__cli_progress(const tri_cli *cli, int quiet, tri_sink *sink);

/* What became of a training run. */
typedef struct tri_outcome {
    int64_t step;     /* the last one */
    char *checkpoint; /* the last one's folder; NULL: none */
    tri_json *summary;  /* NULL when the run did not end */
    int unchanged;    /* it had ended before: nothing was trained or written */
} tri_outcome;
void tri__outcome_free(tri_outcome *outcome);

/* Trains with every sink: progress, metrics, tfevents, traces, summary. A run that fails after its start leaves
 * error.json. `world`: the ranks that this process is one of; NULL: it is alone. */
tri_status tri__train_with_sinks(tri_cli *cli, const tri_settings *settings, tri_world *world, tri_outcome *outcome);

#endif
