/* inputs.h - a run's tables as datasets: which columns, which policies, where token stores are. */
#pragma once

#include "data/dataset/dataset.h"
#include "engine/assets.h"
#include "data/dataset/data_files.h"
#include "score/numbers.h"

typedef struct tri_inputs {
    const tri_settings *settings;
    const tri_assets *assets;
    const tri_log *log;
    const tri_stop *stop;     /* ends the reading of tables early; may be NULL. Set after tri__inputs_make */
    char cache[TRI_PATH_MAX]; /* folder of token stores; "": none */
    void (*counted)(void *context, int64_t rows); /* of training data, as in tri_dataset_spec; NULL */
    void *counted_context;
} tri_inputs;

/* The folder of token stores is --cache-dir; by default `cache` in the folder `beside`, or none when that is NULL. */
tri_status tri__inputs_make(const tri_settings *settings, const tri_assets *assets, const tri_log *log,
                            const char *beside, tri_inputs *out);
/* The specification of a fit, from the settings; borrows from them. */
typedef struct tri_fit_spec {
    tri_preprocess_spec spec;
    tri_division parts; /* spec.parts, where the settings ask for it */
    char **text; /* the primary text's column, then those of the secondary */
} tri_fit_spec;
tri_status tri__fit_spec_make(const tri_settings *settings, tri_fit_spec *out);
void tri__fit_spec_free(tri_fit_spec *fit);
/* How the settings divide one table (--split, --folds): 1, or 0: they do not. Where no fold is named, the first. */
int tri__division_asked(const tri_settings *settings, tri_division *out);
/* Training data, and what comes of it. */
typedef struct tri_fitted {
    tri_preprocess *preprocess;
    tri_dataset *train;
    tri_dataset *valid; /* where one table is divided; else NULL */
    tri_json *parts;    /* likewise: {table: digest of all rows, rows: {training, validation, test}} */
} tri_fitted;
/* files: what tri__data_files found at the settings' data_path. TRI_USAGE where a table that is to be divided has
 * others beside it. Whatever it returns, the caller frees *out. */
/* What the outputs of a model are whose preprocessing has a target; it borrows both. */
tri_number_set tri__inputs_numbers(const tri_settings *settings, const tri_preprocess *preprocess);
tri_status tri__inputs_fit(const tri_inputs *inputs, const tri_data_files *files, tri_fitted *out);
/* The positive class of two, which is logged: positive_label, else the rarer label of the training rows, in a tie the
 * last one. Beyond two classes -1. */
tri_status tri__inputs_positive(const tri_inputs *inputs, const tri_preprocess *preprocess, const tri_dataset *train,
                                int *positive);
/* class_weights balanced: the numbers, by the training rows, which are logged; the caller frees out->at. TRI_DATA where
 * a class has no rows. */
tri_status tri__inputs_balance(const tri_inputs *inputs, const tri_preprocess *preprocess, const tri_dataset *train,
                               tri_reals *out);
tri_status tri__inputs_open(const tri_inputs *inputs, const char *path, const tri_preprocess *preprocess,
                            int need_labels, tri_dataset **out);
/* The rows of a part of the table that the settings' run divided. record: what its checkpoint keeps; TRI_DATA where
 * this is another table, TRI_USAGE where there is no such part. */
tri_status tri__inputs_open_part(const tri_inputs *inputs, const char *path, const tri_preprocess *preprocess,
                                 tri_rows_for part, const tri_json *record, tri_dataset **out);

/* Threads for computing; and for assembling batches: at least one, at most the remaining cores. */
int tri__threads(const tri_settings *settings);
int tri__workers(const tri_settings *settings);
