/* engine.h - a model planned, checked and bound to memory: runs training, evaluation and prediction. */
#pragma once

#include "checkpoint/memory.h"
#include "comm/world/world.h"
#include "exec/exec.h"
#include "engine/assets.h"
#include "engine/context_form.h"

/* This rank's place in the mesh. */
typedef struct tri_place {
    tri_world *world;      /* NULL: one rank */
    tri_mesh mesh;
    int rank, replica;     /* replica: the place on the dp axis */
    int64_t batch;         /* global batch size */
    int64_t steps;         /* of the run; 0: not known */
    int fed;               /* 1: a server, whose rank 0 has all inputs (follow.h) */
    const tri_target *target; /* plans that are not run: the described hardware's target; NULL: the device's own */
} tri_place;
/* The mesh of the settings over the world's ranks; world NULL: over `size` ranks that are only planned. */
tri_status tri__place_make(const tri_settings *settings, tri_world *world, int size, int rank, tri_place *place);

typedef struct tri_engine {
    tri_place place;
    tri_plan_in in;                /* the plan's input */
    tri_context_form context_form; /* of in.ring, on the first rank: why */
    tri_arena arena;
    tri_network model;
    const tri_device *device;      /* NULL: a plan with place.target for a device that is not built in */
    tri_target target;
    tri_rank_plan plan;
    const tri_program *program[TRI_PROGRAMS]; /* [n_programs] those that exist */
    tri_exec *exec;
    int train, infer, start, exchange; /* their indices in `program` and exec; train -1: none */
    int n_programs;
    int n_mb, threads, workers;    /* workers: threads that assemble batches */
    uint32_t seed;
    size_t guard;                  /* bytes after each class of memory, for tests */
    /* Pieces that this rank holds, in fp32; in the arena, as all of these. Weights of fewer bits without masters have
     * no memory in fp32: data is NULL. */
    tri_piece *weights, *optimizer;
    int n_weights, n_optimizer;
    tri_memory_pieces saved;       /* pieces it writes to a checkpoint: over all ranks each element once */
    int state_at[TRI_MAX_STATES + 1]; /* pieces of the plan's state i: optimizer[state_at[i]] up to state_at[i + 1] */
    float *class_weights;          /* [n_classes] */
    float *layer_scale;            /* [layers of the model] the field layer_scale: 1, until a step sets it */
    int draws; /* 1: the next upload draws the initial weights, in device memory */
    const tri_checkpoint *source;  /* the next upload reads weights from it, unit by unit; NULL */
    int has_state;                 /* 1: the host's copy of the optimizer's state is not all 0 */
    /* Called between batches of an evaluation, on every rank; ends it unless TRI_OK. NULL: not called. */
    tri_status (*between)(void *context);
    void *between_context;
} tri_engine;

/* Which units of the model a run trains, and at which rates. */
tri_status tri__tune_model(const tri_settings *settings, tri_network *model);
/* The plan's input that these settings ask for, but row counts (max, max_infer) and what tri__staging_resolve fills in.
 * `train` 0: a plan that only predicts. */
tri_plan_in tri__plan_input(const tri_settings *settings, const tri_place *place, const tri_network *model,
                            const tri_target *target, int train);
typedef struct tri_engine_spec {
    const tri_settings *settings;
    const tri_place *place;
    const tri_assets *assets;
    tri_columns columns;
    int train;
    const tri_counts *max, *max_infer; /* the largest microbatches */
} tri_engine_spec;
/* Plans and checks; allocates nothing but the plan. */
tri_status tri__engine_plan(const tri_engine_spec *spec, tri_engine *engine);
/* Plans a step of one short sample and drops the plan: reports what the planner refuses before data is read or a folder
 * is created. */
tri_status tri__engine_try(const tri_settings *settings, const tri_place *place, const tri_assets *assets);
/* Plans every rank of the mesh like this one and checks that all fit together, and that this rank's plan is among them;
 * in the engine's arena. */
typedef struct tri_programs {
    tri_classes of[TRI_PROGRAMS]; /* TRI_TRAIN: none without training */
    int world;
} tri_programs;
tri_status tri__engine_plan_all(tri_engine *engine, tri_programs *all);
/* folder: for files of offload memory; NULL when the settings need none. Compares the plan with the free memory
 * (TRI_RESOURCE with figures), then allocates. */
tri_status tri__engine_bind(tri_engine *engine, const char *folder);
void tri__engine_close(tri_engine *engine);
void tri__engine_drop(tri_engine **at); /* closes and frees one that was allocated */

/* For tri__engine_bind: lists the pieces above. */
tri_status tri__engine_pieces(tri_engine *engine);
/* Call after filling weights and optimizer state through the pieces above: copies them to a device with separate
 * memory, and runs the start program, which prepares the weights for computing. Every rank of a world calls it. */
tri_status tri__engine_upload(tri_engine *engine);
/* Call before reading the pieces: copies them back from a device with separate memory. */
tri_status tri__engine_fetch(tri_engine *engine);
/* For a state of the plan that begins as the weights: copies them, in the host's memory. */
void tri__engine_copy_weights(tri_engine *engine, int state);
/* Initial weights, drawn by the next upload, overridden by those of Hugging Face folders; logs their origin. */
tri_status tri__engine_init(tri_engine *engine, const tri_assets *assets, const tri_log *log);
/* Weights. Without training: TRI_NOTFINITE if a weight is not finite; and where weights have fewer bits than fp32 the
 * next upload reads them, so the checkpoint stays open until then. */
tri_status tri__engine_load(tri_engine *engine, const tri_checkpoint *checkpoint);
/* After it, in training: what is kept between steps. Logs what the checkpoint lacks and begins anew; TRI_USAGE if the
 * run cannot go on without it. */
tri_status tri__engine_load_state(tri_engine *engine, const tri_checkpoint *checkpoint, const tri_log *log);
