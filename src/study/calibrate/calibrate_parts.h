/* calibrate_parts.h - what the files of calibrate share: models that train to be timed (model.c), ranks that do so
 * together (kernels.c), and times of instructions, gathered by kernel and size: the points of curves (points.c). */
#pragma once

#include "exec/exec.h"
#include "plan/plan.h"
#include "study/calibrate/calibrate.h"

/* ---- one model (model.c) ---- */

typedef struct tri_trial_case {
    int width, heads, inner;    /* of the encoder; inner: of its feed-forward part */
    int layers, words;
    int texts;                  /* each with such an encoder; 0 is 1 */
    int tokens, length;         /* of a microbatch; the mean of its sequences. Tokens are about that where ragged */
    double ragged;              /* exponent of exponentially distributed lengths; 0: all are equally long */
    int microbatches;
    tri_dtype precision, quantize;
} tri_trial_case;

typedef struct tri_trial {
    tri_arena arena;
    tri_network model;
    tri_target target;
    tri_plan_in in;
    tri_rank_plan plan;
    const tri_program *program[TRI_PROGRAMS];
    tri_exec *exec;
    int samples;
    int32_t *seq;     /* [samples + 1] where sequences begin */
    tri_feed *feed;   /* [microbatches], all the same */
    float *table;     /* of random numbers */
    uint32_t step;
} tri_trial;

/* Plans, checks, binds to memory and sets weights. */
tri_status tri__trial_open(const tri_device *device, const tri_trial_case *at, int threads, tri_trial **out);
void tri__trial_close(tri_trial *trial); /* accepts NULL */
static inline void tri__trial_drop(tri_trial **at) { tri__trial_close(*at); }
/* Queues one training step; times: [n_instrs] of the program, valid once the device has finished; NULL. */
tri_status tri__trial_queue(tri_trial *trial, tri_time *times);
/* A step as a run makes it: its update is queued separately, and it is waited for. */
tri_status tri__trial_run_step(tri_trial *trial);
/* Seconds in which the host queues an instruction that is not part of a graph; each call leaves out another number of
 * instructions at the end. */
tri_status tri__trial_queueing(tri_trial *trial, int without, double *seconds);
double tri__trial_flops(const tri_trial_case *at);           /* of a step, about */
double tri__trial_bytes(const tri_trial_case *at);           /* of memory, about */

/* ---- samples (points.c) ---- */

typedef struct tri_sample {
    int variant;
    tri_dtype dtype;
    int threads, adds;
    tri_code code;
    double size[TRI_SIZES];
    double seconds, spread;    /* sums over instructions */
    int n;
} tri_sample;

/* Zeroed: none. */
typedef struct tri_samples {
    tri_sample *at;
    int n;
    size_t room;
} tri_samples;

/* Adds the instructions of a model's program that ran `steps` times; times: [steps][n_instrs]. An instruction counts
 * with its median, so that what else happened meanwhile does not; instructions of equal size count with their mean,
 * because some find their operands in a cache and others do not. Not thread-safe. */
tri_status tri__samples_add(tri_samples *samples, const tri_trial *trial, int threads, const tri_time *times,
                            int steps);
/* Adds one call by its times, [n], which are sorted. */
tri_status tri__samples_put(tri_samples *samples, const tri_sample *like, double *seconds, int n);
/* The curves of all samples, in order of operation, type, threads and size; in the arena. */
void tri__samples_curves(tri_samples *samples, tri_arena *arena, tri_hardware *out);
/* The rates of large calls, from the curves of one thread: f32, half, attention, bytes, launch, and the peaks of all
 * cores. */
void tri__curves_rates(tri_hardware *out);
/* Sets the tiles of products that several threads divide among them (tiles.c). */
void tri__curves_tiles(tri_hardware *out);

/* ---- ranks that do the same at the same time (kernels.c) ---- */

enum { TRI_TEAM = 64 }; /* at most */

typedef struct tri_team {
    const tri_calibration *asked;
    tri_trial_case at;
    int ranks, threads, steps;
    double seconds;            /* that it may take, about */
    int disturbed, repeated;   /* the last step; steps */
    int code_sizes;            /* that are timed, as rank 0 says, where ranks code numbers */
    pthread_barrier_t together;
    tri_status status[TRI_TEAM];
    tri_words *words;          /* [TRI_TEAM] */
    tri_samples *samples;
    pthread_mutex_t adding;
} tri_team;
/* All ranks agree whether to go on: each has set its status before. */
int tri__team_goes_on(tri_team *team);
/* Times of coding and expanding numbers for their way between ranks (numbers/coded.h); those of rank 0 are added to the
 * samples. Sets the rank's status. The largest sizes are left out where time is short. */
void tri__time_codes(tri_team *team, int rank);

/* ---- asynchronous devices (async.c) ---- */

enum { TRI_MACHINE = 128 };
/* Adds the times of models of many sizes, as they are in captured graphs, and sets launch, queue, host.step, memory,
 * and what `copies` sets. machine: the device, for people. */
tri_status tri__calibrate_async(const tri_calibration *asked, tri_samples *samples, char machine[static TRI_MACHINE],
                                tri_hardware *out);
/* Sets copy and offload: copies from and to pinned host memory. */
tri_status tri__calibrate_copies(const tri_device *device, tri_hardware *out);

/* Sorts them, and returns the middle one, of an even number the upper. */
double tri__median(double *values, int n);
