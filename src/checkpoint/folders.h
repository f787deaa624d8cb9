/* folders.h - the checkpoint folders of a run folder. */
#ifndef TRI_CHECKPOINT_FOLDERS_H
#define TRI_CHECKPOINT_FOLDERS_H

#include "base/file.h"
#include "base/json.h"

/* "<folder>/checkpoint-<step><suffix>" */
tri_status tri__checkpoint_name(char out[static TRI_PATH_MAX], const char *folder, int64_t step, const char *suffix);
/* Steps of all checkpoint-<step> folders, newest first (state.began of their manifests, then the step; damaged ones before all others);
 * temporary ones are left out. The caller frees *steps. */
tri_status tri__checkpoint_steps(const char *folder, int64_t **steps, int *n);
/* A checkpoint's folder with all it holds. Keeps the text of an earlier failure when it succeeds. */
tri_status tri__checkpoint_remove(const char *path);
/* The manifest of a checkpoint, or of a run folder's newest one whose manifest is sound and whose files have their sizes; a new reference.
 * TRI_NOINPUT when there is none, TRI_DATA when all are damaged. */
tri_status tri__checkpoint_glance(const char *path, json_t **manifest);
/* The step that best_checkpoint.json names; -1 when there is none. */
tri_status tri__checkpoint_best(const char *folder, int64_t *step);

#endif
