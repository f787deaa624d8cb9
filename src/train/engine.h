/* engine.h - a model planned, checked and bound to memory: what training, evaluation and prediction run on. */
#ifndef TRI_TRAIN_ENGINE_H
#define TRI_TRAIN_ENGINE_H

#include "base/machine.h"
#include "checkpoint/checkpoint.h"
#include "exec/exec.h"
#include "plan/plan.h"
#include "train/assets.h"

typedef struct tri_engine {
    tri_arena arena;
    tri_model model;
    const tri_device *device;
    tri_target target;
    tri_plan plan;
    const tri_program *program[2]; /* [TRI_TRAIN], [TRI_INFER]; without training the former is NULL */
    tri_exec *exec;
    int train, infer;              /* their indices in exec; train -1: none */
    int n_mb, threads, workers;    /* workers: threads that assemble batches */
    uint32_t seed;
    tri_piece *weights, *optimizer; /* in the arena */
    int n_weights, n_optimizer;
    float *class_weights;          /* [n_classes] */
} tri_engine;

/* Plans and checks; touches no memory beyond the plan's own. max, max_infer: the largest microbatches. */
tri_status tri__engine_plan(const tri_settings *settings, const tri_assets *assets, int n_columns, int train, const tri_counts *max,
                            const tri_counts *max_infer, tri_engine *engine);
/* Compares the plan with the memory there is (TRI_RESOURCE with figures), then allocates. */
tri_status tri__engine_bind(tri_engine *engine);
void tri__engine_close(tri_engine *engine);

/* Initial weights, then those of Hugging Face folders over them; says what came from where. */
tri_status tri__engine_init(tri_engine *engine, const tri_assets *assets, const tri_log *log);
/* Weights, and with `optimizer` the optimizer's state. */
tri_status tri__engine_load(tri_engine *engine, const tri_checkpoint *checkpoint, int optimizer);

#endif
