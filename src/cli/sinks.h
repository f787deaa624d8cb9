/* sinks.h - where a command's run speaks to: words on stderr, and for training the files of the run folder. */
#ifndef TRI_CLI_SINKS_H
#define TRI_CLI_SINKS_H

#include "cli/cli.h"

/* Messages as lines on stderr; warnings stand out. */
typedef struct tri_words {
    FILE *err;
    int color, quiet; /* quiet: warnings only */
} tri_words;

tri_words tri__words(const tri_cli *cli, const tri_settings *settings);
tri_status tri__words_emit(void *context, const tri_event *event);

/* Trains with every sink: progress, metrics, tfevents, traces; error.json in the run folder when it fails. *summary: the run's
 * summary, a new reference, NULL when it did not end. */
tri_status tri__train_with_sinks(tri_cli *cli, const tri_settings *settings, json_t **summary);

#endif
