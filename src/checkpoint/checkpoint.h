/* checkpoint.h - a folder checkpoint-<step>/ of safetensors shards and a manifest. Tensors have logical names; the
 * manifest maps each slice to its file, so that any mesh can read what another one wrote.
 *
 *   manifest.json                 version, step, sequence, tensors (name, dtype, shape, slices with their xxh3-128),
 *                                 files (bytes, xxh3-128), state
 *   weights-00000.safetensors     parameters; one file per rank
 *   optimizer-00000.safetensors   optimizer state (a tensor in such a file is): exp_avg.*, ...; one file per rank
 *   config.json, preprocessing.json, primary/, secondary/ (vocabularies): what eval and predict need
 *
 * A quantised folder has integers of 8 bits and their scales (checkpoint/quantized_weights.h), and in its state
 * `quantized`. */
#pragma once

#include "base/file.h"
#include "base/json.h"
#include "layout/slice.h"

typedef struct tri_checkpoint_out {
    const char *folder;        /* the run folder; checkpoint-<step> is created in it */
    int64_t step;
    int64_t sequence;          /* increases with every checkpoint of a run folder: the highest is the newest; 0: none */
    const tri_piece *weights, *optimizer;  /* this rank's pieces; optimizer may be NULL */
    int n_weights, n_optimizer;
    const tri_json *config, *preprocessing, *state; /* borrowed; state: sampler position, metrics, seeds, ... */
    /* Writes vocabularies and other files into the new folder, synced like tri__file_write; NULL: none. */
    tri_status (*extras)(void *context, const char *folder);
    void *context;
} tri_checkpoint_out;

/* Temporary folder, fsync of each file, manifest last, rename, fsync of the parent. An existing checkpoint of the same
 * step stays intact until the rename. The first rank begins; each rank writes its own pieces and gets its part of the
 * manifest, {tensors, files}, a new reference; the first rank merges all parts and commits. If any rank fails, the
 * first rank drops the temporary folder. */
tri_status tri__checkpoint_begin(const tri_checkpoint_out *out, char made[static TRI_PATH_MAX]);
tri_status tri__checkpoint_write(const tri_checkpoint_out *out, const char *made, int rank, tri_json **part);
/* Merges another rank's part: all slices of a tensor go to one row. */
tri_status tri__checkpoint_join(tri_json *part, const tri_json *more);
tri_status tri__checkpoint_end(const tri_checkpoint_out *out, const char *made, const tri_json *part);
/* Writes only the weights, in one model.safetensors, to a folder `out->folder` that appears atomically: a checkpoint
 * without optimizer state. TRI_BUSY if the folder exists and is not empty. */
tri_status tri__checkpoint_export(const tri_checkpoint_out *out);
void tri__checkpoint_drop(const char *made); /* keeps the text of the failure */

typedef struct tri_checkpoint tri_checkpoint;

/* `path`: a checkpoint folder, or a run folder (its newest valid checkpoint; with best = 1 the one that
 * best_checkpoint.json names, if there). Verifies sizes and checksums; TRI_DATA naming file and reason. */
tri_status tri__checkpoint_open(const char *path, int best, tri_checkpoint **out);
/* Opens a checkpoint folder, but hashes only the files assigned to `part` of `of`: `of` readers together verify it
 * all. */
tri_status tri__checkpoint_open_part(const char *path, int part, int of, tri_checkpoint **out);
/* As tri__checkpoint_open, for a reader of weights: optimizer state is not hashed; each tensor of weights is, by
 * `threads` threads. */
tri_status tri__checkpoint_open_weights(const char *path, int best, int threads, tri_checkpoint **out);
void tri__checkpoint_close(tri_checkpoint *checkpoint);
static inline void tri__checkpoint_close_at(tri_checkpoint **at) { tri__checkpoint_close(*at); }
const char *tri__checkpoint_path(const tri_checkpoint *checkpoint);
int64_t tri__checkpoint_step(const tri_checkpoint *checkpoint);
/* Borrowed objects. */
const tri_json *tri__checkpoint_config(const tri_checkpoint *checkpoint);
const tri_json *tri__checkpoint_preprocessing(const tri_checkpoint *checkpoint);
const tri_json *tri__checkpoint_state(const tri_checkpoint *checkpoint);
const tri_json *tri__checkpoint_manifest(const tri_checkpoint *checkpoint);
/* What the quantised folder's maker recorded: version, type, figures; NULL: it is not quantised. */
const tri_json *tri__checkpoint_quantized(const tri_checkpoint *checkpoint);
int tri__checkpoint_has(const tri_checkpoint *checkpoint, const char *name);
/* Whether a tensor is optimizer state: an export has none, and no position either (tri__checkpoint_is_export). */
int tri__checkpoint_is_state(const tri_checkpoint *checkpoint, const char *name);
int tri__checkpoint_is_export(const tri_checkpoint *checkpoint);
/* The shape of a tensor; 0: there is none of that name. */
int tri__checkpoint_shape(const tri_checkpoint *checkpoint, const char *name, tri_shape *shape);
/* All logical tensors, in the manifest's order: name, dtype, shape and the whole slice. data is NULL;
 * tri__checkpoint_read fills it. */
int tri__checkpoint_count(const tri_checkpoint *checkpoint);
tri_status tri__checkpoint_tensor(const tri_checkpoint *checkpoint, int index, tri_piece *tensor);
/* Fills piece->data with the piece's slice. TRI_DATA if name, shape or dtype do not match. An f32 piece is also read
 * from F16, BF16 and quantised tensors, exactly; where the tensor is not quantised, it is then rounded to
 * piece->through. Rows are repeated as piece->repeat allows. */
tri_status tri__checkpoint_read(const tri_checkpoint *checkpoint, const tri_piece *piece);

/* Records which checkpoint of a run folder is the best; atomic. */
tri_status tri__checkpoint_mark_best(const char *folder, int64_t step);
/* Removes stray temporary folders and all checkpoints of a run folder except the best and the newest `keep` that are
 * proven valid. `last`: the step that the run has just saved; later checkpoints are damaged or from before a restart,
 * and are removed too (INT64_MAX: unknown). If a checkpoint that might be kept can be proven neither valid nor damaged,
 * nothing is removed: TRI_RESOURCE or TRI_IO. */
tri_status tri__checkpoint_prune(const char *folder, int keep, int64_t last);

/* Checkpoints that this process has proven valid, or written: they are not hashed again at every prune. */
typedef struct tri_proven {
    int64_t *step; /* [n] */
    int n;
} tri_proven;
void tri__proven_add(tri_proven *proven, int64_t step);
void tri__proven_free(tri_proven *proven);
tri_status tri__checkpoint_prune_proven(const char *folder, int keep, int64_t last, tri_proven *proven);

/* Removes temporary folders and files that a killed run left. No other process may be saving or writing there. */
tri_status tri__checkpoint_sweep(const char *folder);

/* 32 hex digits: one hash of all logical tensors (weights and optimizer state), independent of files and slices:
 * xxh3-128 over the sorted list of (name, dtype, shape, xxh3-128 of the whole tensor's bytes). */
tri_status tri__checkpoint_digest(const tri_checkpoint *checkpoint, char hex[static 33]);
tri_status tri__pieces_digest(const tri_piece *pieces, int n, char hex[static 33]);

/* ---- manifest.c: what makes a folder a checkpoint: manifest.json, written last, with the size and hash of every file
 * and a checksum of itself ---- */

#define TRI_FILE_WEIGHTS "weights-%05d.safetensors"     /* of a rank of a run */
#define TRI_FILE_OPTIMIZER "optimizer-%05d.safetensors"
#define TRI_FILE_EXPORT "model.safetensors"             /* of an export, which has no other */

/* 1 for the name of a file of tensors. */
int tri__is_shard(const char *name);
/* 1 for a file name that stays inside its folder: no separators, not "." or "..", nothing unprintable. */
int tri__is_plain_name(const char *name);

/* Numbers with 17 significant digits, so that a double round-trips. Replaces the file atomically. */
tri_status tri__json_save_exact(const char *path, const tri_json *value);
int64_t tri__manifest_bytes(const tri_json *manifest); /* of all its files */
/* Lists all files of a folder and its subfolders, which must be synced: [{name, bytes, xxh3}], sorted; a new reference.
 * Files with a row in `known` (a list of such rows) are not hashed again. Syncs the folders. */
tri_status tri__manifest_files(const char *folder, const tri_json *known, tri_json **files);
/* Whether a file is listed. */
static inline int tri__manifest_lists(const tri_json *manifest, const char *name) {
    tri__json_items(tri__json_get(manifest, "files"), row) {
        const char *listed = tri__text_in(row, "name");
        if (listed && !strcmp(listed, name)) return 1;
    }
    return 0;
}
/* Checks each listed file's size, and the hashes of the files assigned to `part` of `of`, which divide the bytes evenly
 * (0 of 1: all; of 0: none; of TRI_HASH_SMALL: of all but the shards). TRI_DATA naming the file, and for a shard the
 * damaged tensor. */
enum { TRI_HASH_SMALL = -1 };
tri_status tri__manifest_check(const char *folder, const tri_json *manifest, int part, int of);
/* Writes manifest.json with its checksum in front. */
tri_status tri__manifest_save(const char *folder, tri_json *manifest);
/* A new reference. TRI_NOINPUT if there is none, TRI_DATA if format or checksum are wrong, TRI_USAGE if its version is
 * of another build. */
tri_status tri__manifest_load(const char *folder, tri_json **manifest);
/* The text of manifest.json after the checksum; the caller frees it. */
char *tri__manifest_text(const tri_json *manifest);
