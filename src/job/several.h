/* several.h - `trident train --folds K` and `--seeds N`: a training for each fold or seed, one after the other, and
 * their figures side by side. A training that had finished says so and is left as it was; one that was interrupted goes
 * on. */
#pragma once

#include "job/trainings.h"

typedef struct tri_several {
    const tri_settings *settings;
    int n, folds;             /* trainings; folds: 1, or 0: seeds */
    /* of --stack: the folds', which are in output_dir/stack, and are followed by a training of all rows in output_dir.
     * NULL: none */
    const char *table;
    /* Set by tri__several_run: */
    const char *list, *title; /* of facts: "folds", "fold" */
    tri_training *training;   /* [n] */
    tri_json *facts;          /* of summary.json or ensemble.json */
    char path[TRI_PATH_MAX];  /* of that file */
} tri_several;

/* Whether the settings are several trainings: --folds without a fold, --seeds, --stack. */
int tri__trains_several(const tri_settings *settings);
/* All of them, and then (but for --stack) the file of their figures in --output-dir. n_args, args: of the command
 * line. */
tri_status tri__several_run(const tri_parent *parent, tri_several *several, int n_args, const char *const *args);
void tri__several_free(tri_several *several);

/* run_spread.c: {list: members, mean, spread} of members [{.., figures: {name: number}}], whose reference it takes.
 * spread is the standard deviation of a sample; both are null where a member lacks the figure. NULL: out of memory. */
tri_json *tri__members_json(const char *list, tri_json *members);
