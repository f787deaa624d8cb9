/* engine.h - a model planned, checked and bound to memory: what training, evaluation and prediction run on. */
#ifndef TRI_ENGINE_ENGINE_H
#define TRI_ENGINE_ENGINE_H

#include "base/machine.h"
#include "checkpoint/checkpoint.h"
#include "comm/world/world.h"
#include "exec/exec.h"
#include "plan/plan.h"
#include "engine/assets.h"

/* Where this rank stands. */
typedef struct tri_place {
    tri_world *world;      /* NULL: one rank, no one to talk to */
    tri_mesh mesh;
    int rank, replica;     /* replica: its place on the dp axis */
    int64_t batch;         /* global batch size */
} tri_place;
/* The mesh that the settings ask for over the world's ranks (one without a world; `size` ranks when it is only planned:
 * world NULL). */
tri_status tri__place_make(const tri_settings *settings, tri_world *world, int size, int rank, tri_place *place);

typedef struct tri_engine {
    tri_place place;
    tri_plan_in in;                /* what the plan was made of */
    tri_arena arena;
    tri_model model;
    const tri_device *device;
    tri_target target;
    tri_rank_plan plan;
    const tri_program *program[TRI_PROGRAMS]; /* [n_programs] those that there are */
    tri_exec *exec;
    int train, infer, start;       /* their indices in `program` and exec; train -1: none */
    int n_programs;
    int n_mb, threads, workers;    /* workers: threads that assemble batches */
    uint32_t seed;
    size_t guard;                  /* bytes after each class of memory, for tests */
    tri_piece *weights, *optimizer; /* what this rank holds, in fp32; in the arena, as all of these */
    tri_piece *saved_weights,
        *saved_optimizer; /* what it writes to a checkpoint: all ranks' make up the model, each element once */
    int n_weights, n_optimizer, n_saved_weights, n_saved_optimizer;
    float *class_weights;          /* [n_classes] */
    int draws; /* 1: initial weights are yet to be made, where kernels see them: the next upload does */
    int has_state;                 /* 1: the host's copy of the optimizer's state is not all 0 */
    tri_status (*between)(
        void *context); /* called between batches of an evaluation, on every rank; not TRI_OK: it ends. NULL: nothing */
    void *between_context;
} tri_engine;

/* Plans and checks; touches no memory beyond the plan's own. max, max_infer: the largest microbatches. */
tri_status tri__engine_plan(const tri_settings *settings, const tri_place *place, const tri_assets *assets,
                            int n_columns, int train, const tri_counts *max, const tri_counts *max_infer,
                            tri_engine *engine);
/* Plans a step of one short sample and throws the plan away: what the planner refuses is known before data is read or a
 * folder is made. */
tri_status tri__engine_try(const tri_settings *settings, const tri_place *place, const tri_assets *assets);
/* Plans every rank of the mesh as this one was and proves that they fit together, this rank's own plan among them; in
 * the engine's arena. */
typedef struct tri_programs {
    tri_classes of[TRI_PROGRAMS]; /* TRI_TRAIN: none without training */
    int world;
} tri_programs;
tri_status tri__engine_plan_all(tri_engine *engine, tri_programs *all);
/* folder: where offload memory may be made; NULL when the settings ask for none. Compares the plan with the memory
 * there is (TRI_RESOURCE with figures), then allocates. */
tri_status tri__engine_bind(tri_engine *engine, const char *folder);
void tri__engine_close(tri_engine *engine);

/* For tri__engine_bind: lists the pieces above. */
tri_status tri__engine_pieces(tri_engine *engine);
/* Weights and optimizer state are filled through the pieces above; a device with memory of its own gets all of it, and
 * the start program makes the weights that compute: called after each filling. Every rank of a world calls it. */
tri_status tri__engine_upload(tri_engine *engine);
/* Called before the pieces are read: a device with memory of its own gives back what they hold. */
tri_status tri__engine_fetch(tri_engine *engine);
/* Initial weights, which the upload that follows makes, or those of Hugging Face folders over them; says what came from
 * where. */
tri_status tri__engine_init(tri_engine *engine, const tri_assets *assets, const tri_log *log);
/* Weights, and with `optimizer` the optimizer's state. */
tri_status tri__engine_load(tri_engine *engine, const tri_checkpoint *checkpoint, int optimizer);

#endif
