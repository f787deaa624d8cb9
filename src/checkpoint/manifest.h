/* manifest.h - what makes a folder a checkpoint: manifest.json, written last, with the size and hash of every file and
 * a checksum of itself. */
#pragma once

#include "base/json.h"

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
