/* model_folder.h - where the folder of a tokenizer and an encoder is found. */
#pragma once

#include "base/file.h"
#include "settings/settings.h"

/* A folder named by a configuration's `key`: an absolute path; else, in this order, a folder of --models-dir, a
 * relative path with a slash, a folder of ./models, a model of Hugging Face's cache. TRI_NOINPUT with the places
 * searched and how to download it, or if the folder is incomplete: a file of it is a link to nothing. Only where
 * nothing was found, `out` is "". */
tri_status tri__model_folder(const tri_settings *settings, const char *name, const char *key,
                             char out[static TRI_PATH_MAX]);

/* Places that hold models, in the order of the search. */
typedef struct tri_model_place {
    const char *path;
    int models; /* how many it holds */
} tri_model_place;
enum { TRI_MODEL_PLACES = 3 };
/* Returns how many there are; of those without a folder, models is 0. */
int tri__model_places(const tri_settings *settings, tri_model_place place[static TRI_MODEL_PLACES]);
