/* run_set.h - folders that hold several runs: the folds of a cross-validation, the seeds of an ensemble, the trials of
 * a search. */
#pragma once

#include "base/json.h"

typedef enum tri_run_set_kind {
    TRI_RUN_SET_NONE,  /* a run, a checkpoint, or anything else */
    TRI_RUN_SET_FOLDS, /* summary.json of `train --folds` */
    TRI_RUN_SET_SEEDS, /* ensemble.json of `train --seeds`: the mean of its members is a model */
    TRI_RUN_SET_SWEEP  /* sweep.json of `sweep`: the best trial is its model */
} tri_run_set_kind;

typedef struct tri_run_set {
    tri_run_set_kind kind;
    int n;
    char **folder; /* [n] of its members; those of a sweep that began, best first once it has ended */
    int is_ranked; /* of a sweep: it has ended, and folder[0] is the best */
} tri_run_set;

/* folder NULL: none. TRI_DATA where ensemble.json or sweep.json is wrong. */
tri_status tri__run_set_read(const char *folder, tri_run_set *out);
void tri__run_set_free(tri_run_set *set); /* accepts a zeroed one */
/* "folds", "members", "trials". */
const char *tri__run_set_words(tri_run_set_kind kind);
