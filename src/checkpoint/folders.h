/* folders.h - the checkpoint folders of a run folder. */
#ifndef TRI_CHECKPOINT_FOLDERS_H
#define TRI_CHECKPOINT_FOLDERS_H

#include "base/file.h"
#include "base/json.h"

/* "<folder>/checkpoint-<step><suffix>" */
tri_status tri__checkpoint_name(char out[static TRI_PATH_MAX], const char *folder, int64_t step, const char *suffix);
/* 1: a status of opening a checkpoint that proves it damaged (or gone). 0: it is valid, or nobody knows: never to be
 * taken for damaged. */
int tri__proves_damage(tri_status status);
/* Steps of all checkpoint-<step> folders, newest first (by the sequence of their manifests; of older builds' by
 * state.began, then the step; those with a damaged manifest before all others); temporary ones are left out. The caller
 * frees *steps. Fails when the order cannot be found out. */
tri_status tri__checkpoint_steps(const char *folder, int64_t **steps, int *n);
/* The highest sequence of all checkpoints there; 0: none has one. */
tri_status tri__checkpoint_sequence(const char *folder, int64_t *last);
/* The manifest of a checkpoint, or of a run folder's newest one whose manifest is sound and whose files have their
 * sizes; a new reference. TRI_NOINPUT when there is none, TRI_DATA when all are damaged. */
tri_status tri__checkpoint_glance(const char *path, tri_json **manifest);
/* The step that best_checkpoint.json names; -1 when there is none. */
tri_status tri__checkpoint_best(const char *folder, int64_t *step);

#endif
