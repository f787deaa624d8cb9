/* checkpoint_parts.h - what checkpoints in folders and in memory share. */
#pragma once

#include "base/arena.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

/* Pieces as they are stored: whole tensors keep name and shape; a slice is stored flat as name@number. [n] in the
 * arena, in which they take at most tri__stored_bytes. */
size_t tri__stored_bytes(const tri_piece *pieces, int n);
tri_piece *tri__stored_pieces(tri_arena *arena, const tri_piece *pieces, int n);
/* Appends rows of a manifest to `tensors`: one for each logical tensor, one slice for each piece. `stored`: the pieces
 * as stored in `file`; hash: [n], of their data; NULL: none. */
tri_status tri__tensor_rows(const char *file, const tri_piece *pieces, const tri_piece *stored, char (*hash)[33], int n,
                            tri_json *tensors);

/* A checkpoint of shards that are open: [n], with their names in the manifest. Takes ownership of manifest, config and
 * shards, even on failure; nothing is hashed. path: for messages. */
tri_status tri__checkpoint_assemble(const char *path, int64_t step, tri_json *manifest, tri_json *config,
                                    tri_st_file *shards, const char *const *names, int n, tri_checkpoint **out);
