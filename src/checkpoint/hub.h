/* hub.h - Hugging Face's cache of models: CACHE/models--ORG--NAME/ holds refs/main, a file with a revision;
 * snapshots/REVISION/, the model's folder, whose files are links; and blobs/, their targets. */
#pragma once

#include "base/file.h"

/* Whether a name can be one of a model in the cache: NAME or ORG/NAME. */
int tri__hub_is_name(const char *name);
/* The folder of such a model in the cache, whether it is there or not. */
tri_status tri__hub_place(const char *cache, const char *name, char out[static TRI_PATH_MAX]);
/* The snapshot of a model; "" if the cache has none. A name without an organisation is also that of the only
 * organisation which has it. TRI_NOINPUT: its download is incomplete; TRI_USAGE: several organisations have it;
 * TRI_DATA: a damaged cache. */
tri_status tri__hub_find(const char *cache, const char *name, char out[static TRI_PATH_MAX]);
/* 1 if a folder is a snapshot of a cache: writes the model's name, ORG/NAME. */
int tri__hub_is_snapshot(const char *folder, char name[static TRI_PATH_MAX]);
/* The target of a snapshot's link, if it is one of its model's blobs; 0: it is not. */
int tri__hub_blob(const char *folder, const char *name, char out[static TRI_PATH_MAX]);
