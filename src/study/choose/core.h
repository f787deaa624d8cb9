/* core.h - seconds of a model's units and of a pipeline's ranks, for lower bounds (study/choose/bound.h). */
#ifndef TRI_STUDY_CHOOSE_CORE_H
#define TRI_STUDY_CHOOSE_CORE_H

#include "engine/cost/outlook.h"
#include "study/choose/choose.h"

/* Row counts of a layout's microbatches. */
typedef struct tri_layout_rows {
    tri_counts max;       /* the largest: sizes the plan */
    tri_counts mean;      /* of sampled batches; without data: the largest */
    tri_sampled sampled;  /* counts NULL: no data */
} tri_layout_rows;

/* What the seconds of a unit depend on. */
typedef struct tri_unit_key {
    int64_t parts;       /* microbatches of all replicas: their size */
    int tp, together;    /* together: members of a tp group on one machine */
    int recompute, precision, apart, lanes; /* apart: gradients of weights are separate actions */
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
/* Memory of the results: in the arena, by one thread. */
void tri__unit_times_open(tri_arena *arena, const tri_chooser *chooser, tri_unit_times *out);
void tri__core_times_open(tri_arena *arena, const tri_layout *layout, tri_core_times *out);
/* Whether microbatches of two keys have the same program but for the number of their rows. */
int tri__same_shape(const tri_layout *layout, const tri_unit_key *a, const tri_unit_key *b);
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

#endif
