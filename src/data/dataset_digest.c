/* dataset_digest.c - one number for all that training reads of a table: ranks compare theirs before the first step. */
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
