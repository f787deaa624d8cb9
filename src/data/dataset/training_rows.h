/* training_rows.h - which rows a model was trained on: the smallest hashes of its training rows, kept in checkpoints,
 * so that eval can warn about rows that the model was trained on. */
#pragma once

#include "data/dataset/dataset.h"

enum { TRI_TRAINED_MAX = 4096 }; /* hashes kept; all, if there are fewer distinct rows */

/* {complete, hashes}: hashes are 16 hexadecimal digits each, ascending; complete: they are those of all rows. A new
 * reference. The data has labels. */
tri_status tri__trained_json(const tri_dataset *data, tri_json **out);

/* Rows of a table compared with it. Rows whose hash is above the largest one kept are skipped, since it is unknown
 * whether they were trained on; the others are a uniform sample. */
typedef struct tri_trained {
    int64_t seen, found; /* rows compared; of these, rows that were trained on */
} tri_trained;
/* TRI_DATA when `trained` (of a checkpoint called `name`) is not a valid object. */
tri_status tri__trained_count(const tri_json *trained, const char *name, const tri_dataset *data, tri_trained *out);
