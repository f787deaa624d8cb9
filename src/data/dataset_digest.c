/* dataset_digest.c - one number for all that training reads of a table, or of a row: ranks compare theirs before the first step. */
#include "data/dataset.h"

#include "base/hash.h"

uint64_t tri__dataset_digest(const tri_dataset *data) {
    size_t n = (size_t)data->n;
    uint64_t hash = (uint64_t)data->n;
    for (int t = 0; t < data->n_texts; t++) {
        const tri_text_column *text = &data->text[t];
        hash = tri__hash64(hash, text->start, (n + 1) * sizeof *text->start);
        hash = tri__hash64(hash, text->ids, (size_t)text->start[n] * sizeof *text->ids);
    }
    if (data->numbers) hash = tri__hash64(hash, data->numbers, n * (size_t)data->n_columns * sizeof *data->numbers);
    if (data->labels) hash = tri__hash64(hash, data->labels, n * sizeof *data->labels);
    return hash;
}

uint64_t tri__dataset_row_digest(const tri_dataset *data, int64_t row) {
    uint64_t hash = 0;
    for (int t = 0; t < data->n_texts; t++) {
        const tri_text_column *text = &data->text[t];
        size_t tokens = (size_t)(text->start[row + 1] - text->start[row]);
        hash = tri__hash64(hash + tokens, text->ids + text->start[row], tokens * sizeof *text->ids);
    }
    size_t columns = (size_t)data->n_columns;
    if (data->numbers) hash = tri__hash64(hash, data->numbers + (size_t)row * columns, columns * sizeof *data->numbers);
    return data->labels ? tri__hash64(hash, &data->labels[row], sizeof *data->labels) : hash;
}
