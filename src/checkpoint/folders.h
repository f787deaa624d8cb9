/* folders.h - the checkpoint folders of a run folder. */
#pragma once

#include "base/file.h"
#include "base/json.h"

/* "<folder>/checkpoint-<step><suffix>" */
tri_status tri__checkpoint_name(char out[static TRI_PATH_MAX], const char *folder, int64_t step, const char *suffix);
/* The step of "checkpoint-<step>", -1 for any other name. *rest: what follows the digits. */
int64_t tri__checkpoint_named(const char *name, const char **rest);
/* 1: the status of opening a checkpoint proves it damaged (or gone). 0: it is valid or unknown, and must not be treated
 * as damaged. */
int tri__proves_damage(tri_status status);
/* Steps of all checkpoint-<step> folders, newest first (by the sequence in their manifests; those of older builds by
 * state.began, then by step; damaged manifests first); temporary ones are omitted. The caller frees *steps. Fails if
 * the order cannot be determined. */
tri_status tri__checkpoint_steps(const char *folder, int64_t **steps, int *n);
/* The highest sequence of all checkpoints there; 0: none has one. */
tri_status tri__checkpoint_sequence(const char *folder, int64_t *last);
/* The manifest of a checkpoint, or of the newest one of a run folder with a valid manifest and correct file sizes; a
 * new reference. `folder`: that checkpoint. TRI_NOINPUT if there is none, TRI_DATA if all are damaged. */
tri_status tri__checkpoint_glance(const char *path, char folder[static TRI_PATH_MAX], tri_json **manifest);
/* The step that best_checkpoint.json names; -1 if there is none. */
tri_status tri__checkpoint_best(const char *folder, int64_t *step);
