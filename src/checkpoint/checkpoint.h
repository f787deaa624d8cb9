/* checkpoint.h - a folder checkpoint-<step>/ of safetensors shards and a manifest. Tensors carry logical names; which
 * slice lies in which file is in the manifest, so that any mesh can read what any other wrote.
 *
 *   manifest.json              version, step, sequence, tensors (name, dtype, shape, slices with their xxh3-128), files
 * (bytes, xxh3-128), state weights-00000.safetensors  parameters             optimizer-00000.safetensors  exp_avg.*,
 * exp_avg_sq.*      (one pair a rank) config.json, preprocessing.json, primary/, secondary/ (vocabularies): what eval
 * and predict need
 */
#ifndef TRI_CHECKPOINT_CHECKPOINT_H
#define TRI_CHECKPOINT_CHECKPOINT_H

#include "base/file.h"
#include "base/json.h"
#include "layout/slice.h"

typedef struct tri_checkpoint_out {
    const char *folder;        /* the run folder; checkpoint-<step> is made in it */
    int64_t step;
    int64_t sequence;          /* one higher with every checkpoint of a run folder: says which is newest; 0: none */
    const tri_piece *weights, *optimizer;  /* this rank's pieces; optimizer may be NULL */
    int n_weights, n_optimizer;
    const tri_json *config, *preprocessing, *state; /* borrowed; state: sampler position, metrics, seeds, ... */
    /* Writes vocabularies and the like into the folder being made, as tri__file_write does: to the disk; NULL: none. */
    tri_status (*extras)(void *context, const char *folder);
    void *context;
} tri_checkpoint_out;

/* Temporary folder, fsync of each file, manifest last, rename, fsync of the parent. An existing checkpoint of the same
 * step is replaced only by the rename. */
tri_status tri__checkpoint_save(const tri_checkpoint_out *out);

/* The same in three parts, for many ranks: the first rank begins; each writes its own pieces and gets its part of the
 * manifest, {tensors, files}, a new reference; the first rank joins all ranks' parts and ends. When one of them fails,
 * the first rank drops what was made. */
tri_status tri__checkpoint_begin(const tri_checkpoint_out *out, char made[static TRI_PATH_MAX]);
tri_status tri__checkpoint_write(const tri_checkpoint_out *out, const char *made, int rank, tri_json **part);
tri_status tri__checkpoint_join(tri_json *part,
                                const tri_json *more); /* adds another rank's part, slices of one tensor to one row */
tri_status tri__checkpoint_end(const tri_checkpoint_out *out, const char *made, const tri_json *part);
/* The weights alone, in one model.safetensors, as a folder `out->folder` that appears whole: a checkpoint like others,
 * but for the optimizer's state. TRI_BUSY when the folder is there and not empty. */
tri_status tri__checkpoint_export(const tri_checkpoint_out *out);
void tri__checkpoint_drop(const char *made); /* keeps the failure's words */

/* What the names of the optimizer's moments of a parameter begin with: exp_avg., exp_avg_sq. The parameter's name
 * follows. */
enum { TRI_MOMENTS = 2 };
extern const char *const tri__moment_prefix[TRI_MOMENTS];

typedef struct tri_checkpoint tri_checkpoint;

/* `path`: a checkpoint folder, or a run folder (its newest valid checkpoint; with best = 1 the one that
 * best_checkpoint.json names, if there). Verifies sizes and checksums; TRI_DATA naming file and reason. */
tri_status tri__checkpoint_open(const char *path, int best, tri_checkpoint **out);
/* One checkpoint's folder, of whose files only those that fall to `part` of `of` are hashed: `of` readers prove it
 * whole together. */
tri_status tri__checkpoint_open_part(const char *path, int part, int of, tri_checkpoint **out);
void tri__checkpoint_close(tri_checkpoint *checkpoint);
const char *tri__checkpoint_path(const tri_checkpoint *checkpoint);
int64_t tri__checkpoint_step(const tri_checkpoint *checkpoint);
/* Borrowed objects. */
const tri_json *tri__checkpoint_config(const tri_checkpoint *checkpoint);
const tri_json *tri__checkpoint_preprocessing(const tri_checkpoint *checkpoint);
const tri_json *tri__checkpoint_state(const tri_checkpoint *checkpoint);
const tri_json *tri__checkpoint_manifest(const tri_checkpoint *checkpoint);
int tri__checkpoint_has(const tri_checkpoint *checkpoint, const char *name);
/* All logical tensors, in the manifest's order: name, dtype, shape and the whole slice; data is NULL:
 * tri__checkpoint_read fills it. */
int tri__checkpoint_count(const tri_checkpoint *checkpoint);
tri_status tri__checkpoint_tensor(const tri_checkpoint *checkpoint, int index, tri_piece *tensor);
/* Fills piece->data with the piece's slice. TRI_DATA when name, shape or dtype do not fit. */
tri_status tri__checkpoint_read(const tri_checkpoint *checkpoint, const tri_piece *piece);

/* Names which checkpoint of a run folder was best; atomic. */
tri_status tri__checkpoint_mark_best(const char *folder, int64_t step);
/* Removes all checkpoints of a run folder but the newest `keep` that are proven valid and the best; and stray temporary
 * folders. `last`: the step that the run has just saved; later ones are damaged or of a run that was begun anew, and go
 * as well (INT64_MAX: nobody knows). When one of those that could stay can be neither proven valid nor damaged, nothing
 * is removed: TRI_RESOURCE or TRI_IO. */
tri_status tri__checkpoint_prune(const char *folder, int keep, int64_t last);

/* Checkpoints that this process has proven valid, or written: they are not hashed again at every prune. */
typedef struct tri_proven {
    int64_t *step; /* [n] */
    int n;
} tri_proven;
void tri__proven_add(tri_proven *proven, int64_t step);
void tri__proven_free(tri_proven *proven);
tri_status tri__checkpoint_prune_proven(const char *folder, int keep, int64_t last, tri_proven *proven);

/* Temporary folders and files that a killed run left. Nobody else may be saving there. */
tri_status tri__checkpoint_sweep(const char *folder);

/* 32 hex digits: one hash of all logical tensors (weights and optimizer state), independent of files and slices:
 * xxh3-128 over the sorted list of (name, dtype, shape, xxh3-128 of the whole tensor's bytes). */
tri_status tri__checkpoint_digest(const tri_checkpoint *checkpoint, char hex[static 33]);
tri_status tri__pieces_digest(const tri_piece *pieces, int n, char hex[static 33]);

#endif
