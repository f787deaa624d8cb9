/* dataset_digest.c - a digest of everything that training reads from a row. The digest of a whole table is computed
 * when its rows are checked (dataset_rows.c). */
#include "data/dataset/dataset_rows.h"

/* ids, numbers: room for the longest row. */
static tri_status digest_row(const tri_dataset *data, int64_t row, int32_t *ids, float *numbers, uint64_t *hash) {
    *hash = 0;
    for (int t = 0; t < data->n_texts; t++) {
        size_t tokens = (size_t)(data->text[t].start[row + 1] - data->text[t].start[row]);
        TRI_TRY(tri__dataset_ids(data, t, row, ids));
        *hash = tri__hash64(*hash + tokens, ids, tokens * sizeof *ids);
    }
    if (data->n_columns) TRI_TRY(tri__dataset_numbers(data, row, numbers));
    if (data->n_columns) *hash = tri__hash64(*hash, numbers, (size_t)data->n_columns * sizeof *numbers);
    size_t words = (size_t)data->words;
    if (data->labels) *hash = tri__hash64(*hash, data->labels + (size_t)row * words, words * sizeof *data->labels);
    return TRI_OK;
}

tri_status tri__dataset_row_digests(const tri_dataset *data, void (*take)(void *context, uint64_t digest),
                                    void *context) {
    TRI_OWNED(tri__free_at) int32_t *ids = malloc(((size_t)tri__dataset_longest(data) + 1) * sizeof *ids);
    TRI_OWNED(tri__free_at) float *numbers = malloc(((size_t)data->n_columns + 1) * sizeof *numbers);
    if (!ids || !numbers) return tri__fail(TRI_RESOURCE, "out of memory for a row");
    for (int64_t row = 0; row < data->n; row++) {
        uint64_t hash;
        TRI_TRY(digest_row(data, row, ids, numbers, &hash));
        take(context, hash);
    }
    return TRI_OK;
}
