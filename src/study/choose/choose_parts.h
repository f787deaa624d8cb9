/* choose_parts.h - what the files of choose share: which layouts there are (space.c), seconds of a model's units and of
 * a pipeline's ranks (core.c), lower bounds of a layout's step time and memory (bound.c), one layout planned and
 * simulated (trial.c), and independent work on several threads (parallel.c). */
#pragma once

#include "engine/cost/outlook.h"
#include "study/choose/choose.h"

/* ---- threads ---- */

/* Calls work(context, i) for all i of [0, n), on at most `threads` threads, this one included; returns when all are
 * done. Where a thread cannot be started, the others do its work. */
void tri__parallel(int n, int threads, void (*work)(void *context, int i), void *context);

/* ---- layouts ---- */

enum { TRI_RECOMPUTES = 3, TRI_OFFLOAD_LEVELS = 5 };

/* Layouts that differ only in how they save memory: recomputation, then offloading. More of either only adds time. */
typedef struct tri_savings {
    int recompute[TRI_RECOMPUTES], n_recompute;
    unsigned offload[TRI_OFFLOAD_LEVELS];
    int n_offload;
} tri_savings;

typedef struct tri_space {
    tri_layout *at; /* [n] without savings: with the first of each list */
    int n, cap;
    tri_savings savings;
} tri_space;

/* All layouts of `world` ranks that keep what the settings give; the simpler first. In the arena. offloads: whether
 * offloading is searched too. */
void tri__space_list(tri_arena *arena, const tri_chooser *chooser, int world, int64_t global_batch, unsigned precisions,
                     int offloads, tri_space *out);

/* ---- seconds of units and of a pipeline's ranks ---- */

/* Row counts of a layout's microbatches. */
typedef struct tri_layout_rows {
    tri_counts max;       /* the largest: sizes the plan */
    tri_counts mean;      /* of sampled batches; without data: the largest */
    tri_sampled sampled;  /* counts NULL: no data */
} tri_layout_rows;

/* What the seconds of a unit depend on. */
typedef struct tri_unit_key {
    int64_t parts, cp;   /* microbatches of all replicas: their size; ranks that share their tokens */
    int tp, together;    /* together: members of a tp group on one machine */
    int recompute, precision, apart; /* apart: gradients of weights are separate actions */
    int16_t lanes, plan;
} tri_unit_key;

typedef struct tri_unit_times {
    tri_unit_key key;
    tri_status status;
    char *words;         /* [TRI_ERROR_BYTES] of a failure */
    tri_stage_time *of;  /* [units of the model] of one microbatch */
    double total;        /* of all */
    double update;       /* of all weights that are trained */
    int64_t activations; /* bytes, of one microbatch on one pipeline rank */
} tri_unit_times;

/* What the order of a pipeline depends on in addition. */
typedef struct tri_core_key {
    tri_unit_key unit;
    int64_t n_mb;
    int pp, schedule, shape, chunks;
} tri_core_key; /* keys have no padding: they are compared as bytes */

/* One place of the pipeline. */
typedef struct tri_core_rank {
    double busy, finish; /* seconds of computing; when the last microbatch is done */
    double ready;        /* when the backward begins that makes its first finished gradient */
    double elements;     /* of weights that are trained: frozen ones travel less */
    double kept;         /* of its largest blocks, which a turn from forward to backward need not gather again */
    double update;       /* seconds, of all its weights */
} tri_core_rank;

typedef struct tri_core_times {
    tri_core_key key;
    tri_status status;
    char *words;         /* [TRI_ERROR_BYTES] */
    tri_core_rank *rank; /* [pp] */
} tri_core_times;

tri_unit_key tri__unit_key(const tri_chooser *chooser, const tri_layout *layout);
tri_core_key tri__core_key(const tri_chooser *chooser, const tri_layout *layout);
/* Fill them; by any thread. A failure's text is in out->words. Times of units: [n] of one shape, which `layout` has. */
void tri__unit_times(const tri_chooser *chooser, const tri_layout *layout, const tri_layout_rows *rows, int n,
                     tri_unit_times **out);
tri_status tri__core_times(const tri_chooser *chooser, const tri_layout *layout, const tri_layout_rows *rows,
                           const tri_unit_times *units, tri_core_times *out);
/* The input of a layout's plan without rows and stages: what bounds need. Borrows from *settings, which the caller
 * keeps. */
tri_status tri__layout_asks(const tri_chooser *chooser, const tri_layout *layout, int64_t global_batch,
                            tri_layout_settings *settings, tri_plan_in *out);
/* The input of a layout's plan: rows as counted. Borrows from *settings, which the caller keeps. */
tri_status tri__layout_input(const tri_chooser *chooser, const tri_layout *layout, int64_t global_batch,
                             const tri_counts *max, tri_arena *arena, tri_layout_settings *settings, tri_plan_in *out);

/* ---- lower bounds ---- */

/* Lower bounds of a layout's step time and memory, from little planning.
 *
 * One microbatch is planned and simulated on one pipeline rank (for each size of microbatch, tp, type and
 * recomputation), which gives the seconds of each unit. What a step takes at least follows:
 *
 *   quick   the computing of all stages, shared evenly by the pipeline's ranks
 *   close   the schedule's order of the plan's own stages, with those seconds and without sends; then the gradients'
 *           transfers: after the backward that makes the first of them, on one link, and before the update; gathers of
 *           sharded weights. Where ranks move data themselves (no overlap), computing and moving add up
 *
 * Orders are fixed, so the time of a schedule never falls when something in it takes longer: what is left out (sends
 * between stages, small transfers, contention) can only raise it. */

typedef struct tri_bounds tri_bounds;

/* In the arena. */
tri_bounds *tri__bounds_open(tri_arena *arena, tri_chooser *chooser, int64_t global_batch, int threads);
/* Row counts of a layout's microbatches; counted once, after which threads may ask again. */
tri_status tri__bounds_rows(tri_bounds *bounds, const tri_layout *layout, tri_layout_rows *out);
/* Plans what the bounds of these layouts need: in parallel, each thing once. TRI_USAGE of a single layout is kept: its
 * bound is infinite, and tri__bounds_refusal says why. */
tri_status tri__bounds_prepare(tri_bounds *bounds, const tri_layout *const *layouts, int n, int close);
/* Seconds; `close` as prepared. INFINITY: the planner refuses the layout. From one thread at a time. */
double tri__bounds_seconds(tri_bounds *bounds, const tri_layout *layout, int close);
const char *tri__bounds_refusal(const tri_bounds *bounds); /* of the planner, the first; NULL: none */
/* Bytes that the rank that needs most needs at least: weights, gradients, optimizer state; activations of a stage.
 * After tri__bounds_prepare. */
int64_t tri__bounds_bytes(const tri_bounds *bounds, const tri_layout *layout);

/* ---- one layout ---- */

typedef struct tri_layout_trial {
    const tri_chooser *chooser;
    tri_choose_room room;
    int64_t global_batch;
    tri_candidate of;   /* its layout; the rest is filled in. seconds 0: it does not fit */
    tri_layout_rows rows;
    double beat;        /* seconds: slower, it is not reported */
    double deadline;    /* tri__clock() after which it is not begun, nor after a signal: TRI_STOPPED; 0: none */
    /* microbatches of the longest plan that was made: fewer than the layout's where those of a few give the same
     * figures */
    int planned;
    tri_status status;
    char words[TRI_ERROR_BYTES]; /* of a failure */
} tri_layout_trial;

/* Tries the i-th of some trials, `context`; by any thread. */
void tri__layout_try(void *context, int i);

/* coded.c: where ranks of the first choice wait for bytes, fills in out->coded: layouts with fewer bytes, by
 * each way the fastest. Only those that are faster than the first choice. */
tri_status tri__choose_coded(tri_arena *arena, const tri_chooser *chooser, const tri_space *space, tri_bounds *bounds,
                             int threads, tri_choice *out);
