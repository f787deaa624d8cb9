/* source_checkpoint.h - a checkpoint opened to be written in another form: its settings, vocabularies, and all weights
 * in fp32.
 */
#pragma once

#include "checkpoint/checkpoint.h"
#include "engine/assets.h"

typedef struct tri_original {
    tri_checkpoint *checkpoint;
    tri_settings settings;    /* the checkpoint's */
    tri_assets assets;
    tri_arena arena;          /* of the pieces, with `room` bytes to spare */
    tri_piece *weights;       /* [n_weights] whole tensors in fp32, converted exactly from their stored types */
    void **held;              /* [n_weights], their buffers */
    int n_weights;
    int64_t elements;         /* of all weights */
} tri_original;

/* path: a checkpoint, an export, or a run folder, of which the best checkpoint is taken. Close it even after a
 * failure. */
tri_status tri__original_open(const char *path, size_t room, tri_original *original);
void tri__original_close(tri_original *original);
/* Copies the stacked head into a folder, where there is one. */
tri_status tri__original_stack(const tri_original *original, const char *folder);
/* Adds what the other form keeps of the checkpoint's state: by "data", eval recognises the training table. */
void tri__original_state(const tri_original *original, tri_json *state);
