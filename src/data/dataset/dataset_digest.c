/* dataset_digest.c - a digest of everything that training reads from a row. The digest of a whole table is computed
 * when its rows are checked (dataset_rows.c). */
#include "data/dataset/dataset_rows.h"

#include "base/hash.h"

/* Buffers for the longest row. */
typedef struct row_buffer {
    int32_t *ids;
    float *numbers;
} row_buffer;

static tri_status digest_row(const tri_dataset *data, int64_t row, const row_buffer *b, uint64_t *hash) {
    *hash = 0;
    for (int t = 0; t < data->n_texts; t++) {
        size_t tokens = (size_t)(data->text[t].start[row + 1] - data->text[t].start[row]);
        TRI_TRY(tri__dataset_ids(data, t, row, b->ids));
        *hash = tri__hash64(*hash + tokens, b->ids, tokens * sizeof *b->ids);
    }
    if (data->n_columns) {
        TRI_TRY(tri__dataset_numbers(data, row, b->numbers));
        *hash = tri__hash64(*hash, b->numbers, (size_t)data->n_columns * sizeof *b->numbers);
    }
    if (data->labels) *hash = tri__hash64(*hash, &data->labels[row], sizeof *data->labels);
    return TRI_OK;
}

tri_status tri__dataset_row_digests(const tri_dataset *data, void (*take)(void *context, uint64_t digest),
                                    void *context) {
    row_buffer b = {.ids = malloc(((size_t)tri__dataset_longest(data) + 1) * sizeof *b.ids),
                    .numbers = malloc(((size_t)data->n_columns + 1) * sizeof *b.numbers)};
    tri_status status = b.ids && b.numbers ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory for a row");
    for (int64_t row = 0; status == TRI_OK && row < data->n; row++) {
        uint64_t hash;
        status = digest_row(data, row, &b, &hash);
        if (status == TRI_OK) take(context, hash);
    }
    free(b.numbers);
    free(b.ids);
    return status;
}
