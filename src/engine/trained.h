/* trained.h - which rows a model was trained on: the smallest hashes of its training rows, kept in checkpoints, so that
 * eval can say when it is asked about rows that the model has seen. */
#ifndef TRI_ENGINE_TRAINED_H
#define TRI_ENGINE_TRAINED_H

#include "data/dataset/dataset.h"

enum { TRI_TRAINED_MAX = 4096 }; /* hashes that are kept; of fewer different rows: all */

/* {complete, hashes}: hashes are 16 hexadecimal digits each, ascending; complete: they are those of all rows. A new
 * reference. The data has labels. */
tri_status tri__trained_json(const tri_dataset *data, tri_json **out);

/* Rows of a table against it. Those whose hash is above the largest kept one are not looked at: whether they were
 * trained on is not known, but those that are looked at are a fair sample. */
typedef struct tri_trained {
    int64_t seen, found; /* rows looked at; of these, rows that were trained on */
} tri_trained;
/* TRI_DATA when `trained` (of a checkpoint called `name`) is not such an object. */
tri_status tri__trained_count(const tri_json *trained, const char *name, const tri_dataset *data, tri_trained *out);

#endif
