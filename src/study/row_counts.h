/* row_counts.h - row counts of a step's largest microbatch: from a training table, or without one from batch size times
 * max_sen_len. */
#pragma once

#include "data/dataset/dataset.h"
#include "engine/assets.h"

typedef struct tri_row_source {
    int n_texts;
    tri_readers readers;
    int columns;          /* columns of the table, where none was given */
    tri_preprocess *preprocess;
    tri_dataset *data;    /* NULL: no table was given */
    tri_dataset *valid;   /* NULL: there is none, or nobody asked */
    const tri_stop *stop; /* NULL: nobody asks */
} tri_row_source;

/* Reads the training table of --data-path, if given. beside: folder of the token store, NULL: none. TRI_STOPPED when
 * `stop` (NULL: nobody asks) ended it. The caller closes *out whatever this returns. */
tri_status tri__rows_open(const tri_settings *settings, const tri_assets *assets, const tri_log *log,
                          const tri_stop *stop, const char *beside, tri_row_source *out);
/* The numbers of a row; without a table one for each column. */
tri_columns tri__rows_columns(const tri_row_source *rows);
/* The largest of the `parts` microbatches (of all replicas) of any global batch of `batch` samples in the run. */
tri_status tri__rows_largest(const tri_row_source *rows, const tri_settings *settings, int64_t batch, int64_t parts,
                             tri_counts *max);
/* Steps of the run, of global batches of `batch` samples; 0: not known. */
int64_t tri__rows_steps(const tri_row_source *rows, const tri_settings *settings, int64_t batch);
/* Reads the validation table beside the training table, if there is one. */
tri_status tri__rows_valid(const tri_settings *settings, const tri_assets *assets, const tri_log *log,
                           tri_row_source *rows);
void tri__rows_close(tri_row_source *rows);
