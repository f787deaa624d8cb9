/* sweep.h - `trident sweep`: random search over settings with successive halving: its trials, their rungs, and what
 * sweep.json keeps of them. A trial is `trident train` with a configuration of its own, in a folder of its own, a
 * process as if it were started by hand; a rung ends it early (--until-epoch), and the next one resumes it. */
#pragma once

#include "job/search_space.h"
#include "job/trainings.h"

enum { TRI_RUNGS_MAX = 32 };

typedef struct tri_rung {
    int64_t epochs; /* that a trial has trained at its end */
    int trials;     /* most that train in it */
} tri_rung;

typedef struct tri_sweep_options {
    char *space;
    int64_t trials, parallel, halving;
} tri_sweep_options;

typedef struct tri_sweep_trial {
    int number;            /* from 1 */
    char folder[24];       /* in the sweep's: "trial-007" */
    tri_json *values;      /* {key: value} */
    int rungs;             /* that it has finished */
    double figure[TRI_RUNGS_MAX]; /* the best validation until each rung's end */
    int64_t slot;          /* its place among those that train at a time, while it does */
    int rank;              /* once the sweep has ended: 1 is the best; 0: none, or it failed */
    enum { TRI_TRIED_ONCE, TRI_TRIED_AGAIN_SOON, TRI_TRIED_AGAIN } attempt; /* in its current rung */
    int code;              /* exit code of one that failed; 0 */
    char *why;             /* its message, owned; NULL */
} tri_sweep_trial;

typedef struct tri_sweep {
    const tri_parent *parent;
    const tri_settings *settings;
    const tri_sweep_options *own;
    tri_search_space space;
    tri_json *config;         /* the --config file's object, or an empty one */
    int n_args;
    const char **args;        /* of the trainings: the command line without the options of the sweep alone */
    int n, n_rungs;
    tri_rung rung[TRI_RUNGS_MAX];
    tri_sweep_trial *trial;   /* [n] */
    tri_training *training;   /* [n] */
    char path[TRI_PATH_MAX];  /* of sweep.json */
} tri_sweep;

/* Draws the trials and divides them into rungs. */
tri_status tri__sweep_draw(tri_sweep *sweep);
/* Trains all rungs, in the folder, which is locked: goes on with the sweep that was begun there, if any. */
tri_status tri__sweep_run(tri_sweep *sweep);
/* All trials, best first; the caller frees it. NULL: out of memory. */
const tri_sweep_trial **tri__sweep_order(const tri_sweep *sweep);
/* Records it in sweep.json: the folder of the sweep then stands for its best trial (checkpoint/run_set.h). */
tri_status tri__sweep_rank(tri_sweep *sweep, const tri_sweep_trial *const *order);
void tri__sweep_free(tri_sweep *sweep);

/* halving.c, successive halving (Jamieson and Talwalkar, AISTATS 2016): all trials train a little, the best part of
 * them goes on to several times as much, and so on up to the whole.
 *
 * Rungs of `trials` trials of at most `epochs`: each keeps 1 / factor of the trials and trains `factor` times as long
 * as the one before; as many as both numbers allow. factor 1: one rung, of all epochs. Returns their number. */
int tri__rungs(int trials, int64_t epochs, int factor, tri_rung out[static TRI_RUNGS_MAX]);

/* sweep_state.c: all that sweep.json keeps; a new reference, NULL when out of memory. */
tri_json *tri__sweep_json(const tri_sweep *sweep);
tri_status tri__sweep_save(const tri_sweep *sweep);
/* Takes up a sweep that was begun in the folder, if any; TRI_USAGE when it was another one. */
tri_status tri__sweep_load(tri_sweep *sweep);
/* Whether another attempt may end otherwise: it was killed, or lacked memory, a lock, or the disk; `later`: or a file,
 * which may be there when the command is run again. Not a wrong value. */
int tri__sweep_may_succeed(int code, int later);
