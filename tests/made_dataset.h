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
        tri_text_column *text = &data->text[t];
        text->start = calloc((size_t)n + 1, sizeof *text->start);
        for (int64_t r = 0; r < n; r++) text->start[r + 1] = text->start[r] + 2 + (r * 37 + t * 11) % spread;
        text->ids = calloc((size_t)text->start[n] + 1, sizeof *text->ids);
        for (int64_t r = 0; r < n; r++)
            for (int64_t at = text->start[r]; at < text->start[r + 1]; at++)
                text->ids[at] = (int32_t)(r * 100 + t * 50 + at - text->start[r]);
    }
    if (n_columns) data->numbers = calloc((size_t)(n * n_columns) + 1, sizeof *data->numbers);
    for (int64_t i = 0; i < n * n_columns; i++) data->numbers[i] = (float)i;
    data->labels = calloc((size_t)n + 1, sizeof *data->labels);
    for (int64_t r = 0; r < n; r++) data->labels[r] = (int32_t)(r % 2);
    return data;
}

#endif
