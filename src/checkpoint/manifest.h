/* manifest.h - what makes a folder a checkpoint: manifest.json, written last, with the size and hash of every file and
 * a checksum of itself. */
#ifndef TRI_CHECKPOINT_MANIFEST_H
#define TRI_CHECKPOINT_MANIFEST_H

#include "base/json.h"

/* 1 for a file name that cannot lead out of its folder: no separators, not "." or "..", nothing unprintable. */
int tri__is_plain_name(const char *name);

/* Numbers with 17 significant digits, so that a double comes back the same. Written beside, then renamed. */
tri_status tri__json_save_exact(const char *path, const tri_json *value);
/* All files of a folder and of the folders in it, which are on disk: [{name, bytes, xxh3}], sorted; a new reference.
 * Those with a row in `known` (a list of such rows) need not be hashed again. The folders are brought to disk. */
tri_status tri__manifest_files(const char *folder, const tri_json *known, tri_json **files);
/* Compares each listed file's size, and the hashes of those that fall to `part` of `of`, which share the bytes out
 * evenly (0 of 1: all; of 0: none). TRI_DATA naming the file, and for a shard the tensor whose bytes are wrong. */
tri_status tri__manifest_check(const char *folder, const tri_json *manifest, int part, int of);
/* Writes manifest.json with its checksum in front. */
tri_status tri__manifest_save(const char *folder, tri_json *manifest);
/* A new reference. TRI_NOINPUT when there is none, TRI_DATA when format or checksum are wrong, TRI_USAGE when another
 * build wrote it. */
tri_status tri__manifest_load(const char *folder, tri_json **manifest);
/* manifest.json as it stands in the file: the text, to be freed, behind its checksum. */
char *tri__manifest_text(const tri_json *manifest);

#endif
