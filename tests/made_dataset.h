/* made_dataset.h - a dataset for tests: lengths, labels and numbers from simple formulas, no files. */
#ifndef TRI_TESTS_MADE_DATASET_H
#define TRI_TESTS_MADE_DATASET_H

#include "data/dataset.h"

#include <stdlib.h>

/* Text t of row r has 2 + (r * 37 + t * 11) % spread tokens; id k of it is r * 100 + t * 50 + k. Labels are r % 2. */
static inline tri_dataset *made_dataset(int64_t n, int n_texts, int n_columns, int spread) {
    tri_dataset *data = calloc(1, sizeof *data);
    data->n = n, data->n_texts = n_texts, data->n_columns = n_columns;
    for (int t = 0; t < n_texts; t++) {
        int64_t *start = calloc((size_t)n + 1, sizeof *start);
        for (int64_t r = 0; r < n; r++) start[r + 1] = start[r] + 2 + (r * 37 + t * 11) % spread;
        int32_t *ids = calloc((size_t)start[n] + 1, sizeof *ids);
        for (int64_t r = 0; r < n; r++)
            for (int64_t at = start[r]; at < start[r + 1]; at++) ids[at] = (int32_t)(r * 100 + t * 50 + at - start[r]);
        data->text[t] = (tri_text_column){start, ids};
    }
    float *numbers = calloc((size_t)(n * n_columns) + 1, sizeof *numbers);
    for (int64_t i = 0; i < n * n_columns; i++) numbers[i] = (float)i;
    int32_t *labels = calloc((size_t)n + 1, sizeof *labels);
    for (int64_t r = 0; r < n; r++) labels[r] = (int32_t)(r % 2);
    data->numbers = numbers, data->labels = labels;
    return data;
}

static inline void made_dataset_free(tri_dataset *data) {
    for (int t = 0; t < data->n_texts; t++) {
        free((void *)data->text[t].start);
        free((void *)data->text[t].ids);
    }
    free((void *)data->numbers);
    free((void *)data->labels);
    free(data);
}

#endif
