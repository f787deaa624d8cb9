/* inputs.h - a run's tables as datasets: which columns, which policies, where token stores lie. */
#ifndef TRI_ENGINE_INPUTS_H
#define TRI_ENGINE_INPUTS_H

#include "data/dataset/dataset.h"
#include "engine/assets.h"

typedef struct tri_inputs {
    const tri_settings *settings;
    const tri_assets *assets;
    const tri_log *log;
    const tri_stop *stop;     /* ends the reading of tables early; NULL: nobody asks. Set after tri__inputs_make */
    char cache[TRI_PATH_MAX]; /* folder of token stores; "": none */
    void (*counted)(void *context, int64_t rows); /* of training data, as in tri_dataset_spec; NULL */
    void *counted_context;
} tri_inputs;

/* --cache-dir; where it is left out, `cache` in the folder `beside`, or none when that is NULL. */
tri_status tri__inputs_make(const tri_settings *settings, const tri_assets *assets, const tri_log *log,
                            const char *beside, tri_inputs *out);
/* What the settings ask a fit for; borrows from them. */
typedef struct tri_fit_spec {
    tri_preprocess_spec spec;
    char **text; /* the primary text's column, then those of the secondary */
} tri_fit_spec;
tri_status tri__fit_spec_make(const tri_settings *settings, tri_fit_spec *out);
void tri__fit_spec_free(tri_fit_spec *fit);
/* Training data: fits the preprocessing too. */
tri_status tri__inputs_fit(const tri_inputs *inputs, const char *path, tri_preprocess **preprocess, tri_dataset **out);
/* The positive class of two, which is said: positive_label, else the rarer label of the training rows, the last one of
 * two that are equally frequent. Beyond two classes -1. */
tri_status tri__inputs_positive(const tri_inputs *inputs, const tri_preprocess *preprocess, const tri_dataset *train,
                                int *positive);
tri_status tri__inputs_open(const tri_inputs *inputs, const char *path, const tri_preprocess *preprocess,
                            int need_labels, tri_dataset **out);

/* Threads for computing, and for assembling batches beside it: at least one, at most the cores that are left. */
int tri__threads(const tri_settings *settings);
int tri__workers(const tri_settings *settings);

#endif
