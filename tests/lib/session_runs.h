/* session_runs.h - whole runs on ranks that are threads, and their results: losses, norms, and the weights and
 * optimizer state assembled from all ranks. For tests that compare runs. */
#ifndef TESTS_SESSION_RUNS_H
#define TESTS_SESSION_RUNS_H

#include "tests/lib/canary.h"
#include "tests/lib/session_data.h"

enum { RUN_RANKS = 16, RUN_STEPS = 128, RUN_OPTIONS = 12 };

typedef struct run run;
struct run {
    int ranks;                              /* 0: a session without a world */
    int steps, evaluate, save;
    const char *option[RUN_OPTIONS + 1];    /* in addition to those that all runs share; NULL-terminated */
    const char *output, *config;            /* folder of the run; of root; NULL: "run", "config.json" */
    long (*allocated)(void); /* counts allocations of the process; NULL: steps after the first may allocate */
    int canary;                             /* memory is checked (canary.h) */
    int keep_going;                         /* resumes from the run folder's last checkpoint */
    /* Called on every rank when a step's batch is loaded, before it is computed; may be NULL. */
    tri_status (*before)(run *run, tri_session *session, int rank, int step);
    /* results */
    double loss[RUN_RANKS][RUN_STEPS], norm[RUN_RANKS][RUN_STEPS];
    double dropped[RUN_RANKS][RUN_STEPS];   /* tokens that no expert took */
    tri_result scores[RUN_RANKS];
    char folder[TRI_PATH_MAX];              /* of the checkpoint */
    int64_t skipped[RUN_RANKS];             /* steps without an update */
    int64_t elements;
    float *state[3]; /* [elements] each: weights, exp_avg or momentum_buffer, exp_avg_sq; NaN where no rank has it */
    int states;                             /* the optimizer's, at most 2 */
    uint8_t *idle;                          /* [elements] 1: of a key's bias */
    uint8_t *frozen;                        /* [elements] 1: not trained, and without states */
};

/* The data, and model.json: a model of one text and two columns, that steps far in few steps. */
int make_one_text(void **state);

/* The data, and three.json: two texts and two columns. */
int make_three(void **state);

/* The data, and fp8.json: encoders of four and three layers, for FP8 training. */
int make_deep(void **state);

/* The offset of a piece of this name among the model's elements, parameters by name: plans of layers move them in
 * memory. -1: of another kind. */
int64_t run_piece_at(const tri_network *model, const char *name, const char *prefix);

/* Copies a piece's elements to their positions in the whole tensor: rows of its box, clipped to its range. */
void run_copy(float *whole, const tri_piece *piece);
tri_status run_status(run *run);

/* Runs and expects success, equal losses and norms on all ranks, and every element owned by some rank. Freed by
 * run_free. */
run *run_on(const run *what);
void run_free(run *run);
void expect_same_bits(const run *a, const run *b, const char *what);

/* Over all weights except idle ones. */
double run_distance(const run *a, const run *b);

/* |dloss| <= limit * max(loss, 0.1), dropout on; returns the largest share of that limit. Norms of gradients within
 * five times the limit of themselves, weights within 1e-4. */
double expect_within(const run *want, const run *have, const char *what, double limit);

/* DESIGN 3: another mesh without tensor parallelism. */
static inline double expect_close(const run *want, const run *have, const char *what) {
    return expect_within(want, have, what, 2e-6);
}

#endif
