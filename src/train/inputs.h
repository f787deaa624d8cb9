/* inputs.h - a run's tables as datasets: which columns, which policies, where token stores lie. */
#ifndef TRI_TRAIN_INPUTS_H
#define TRI_TRAIN_INPUTS_H

#include "data/dataset.h"
#include "train/assets.h"

typedef struct tri_inputs {
    const tri_settings *settings;
    const tri_assets *assets;
    const tri_log *log;
    char cache[TRI_PATH_MAX]; /* folder of token stores; "": none */
    void (*counted)(void *context, int64_t rows); /* of training data, as in tri_dataset_spec; NULL */
    void *counted_context;
} tri_inputs;

/* --cache-dir; where it is left out, `cache` in the folder `beside`, or none when that is NULL. */
tri_status tri__inputs_make(const tri_settings *settings, const tri_assets *assets, const tri_log *log, const char *beside,
                            tri_inputs *out);
/* Training data: fits the preprocessing too. */
tri_status tri__inputs_fit(const tri_inputs *inputs, const char *path, tri_preprocess **preprocess, tri_dataset **out);
tri_status tri__inputs_open(const tri_inputs *inputs, const char *path, const tri_preprocess *preprocess, int need_labels,
                            tri_dataset **out);

/* Threads for computing, and for assembling batches beside it: at least one, at most the cores that are left. */
int tri__threads(const tri_settings *settings);
int tri__workers(const tri_settings *settings);

#endif
