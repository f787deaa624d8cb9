/* infer.h - from a checkpoint to an engine that predicts, on one rank or on all ranks of a mesh. */
#pragma once

#include "engine/engine.h"

/* What a plan for prediction is made of. */
typedef struct tri_infer_spec {
    const tri_settings *settings;  /* those of tri__settings_infer */
    tri_place place;
    const tri_assets *assets;
    tri_columns columns;
    tri_counts max;                /* the largest microbatch */
    const tri_checkpoint *checkpoint;
    uint64_t data;                 /* digest of the data, which all ranks must have; 0: each gets its own */
} tri_infer_spec;

/* Plans, and on rank 0 checks all ranks and compares them with the free memory (TRI_RESOURCE with figures) before any
 * rank allocates; then allocates, reads the weights, whatever mesh wrote them, and prepares them. Every rank of a world
 * calls it. */
tri_status tri__engine_open_infer(const tri_infer_spec *spec, tri_engine *engine);
/* The same in three parts: up to the allocation; tri__engine_load, which concerns this rank alone; and the rest. */
tri_status tri__engine_bind_infer(const tri_infer_spec *spec, tri_engine *engine);
tri_status tri__engine_ready_infer(tri_engine *engine);

/* Calls `load` on the first rank of each machine, and then on the others, which find the files that it made (token
 * stores); on all at once where there are none to make. */
tri_status tri__place_load(const tri_place *place, int makes_files, tri_status (*load)(void *context), void *context);

/* All ranks must have the same settings, data (a digest), model and build. */
tri_status tri__engine_agree(const tri_engine *engine, const tri_settings *settings, uint64_t data);
