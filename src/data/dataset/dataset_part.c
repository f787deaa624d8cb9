/* dataset_part.c - the rows of one part of a divided table. A part has lengths, labels and places of its rows in memory
 * and reads ids and numbers from the store of the whole table, which is made once. */
#include "data/dataset/dataset_rows.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static tri_status no_memory(const tri_store *store) {
    return tri__fail(TRI_RESOURCE, "%s: out of memory for a part of its rows", store->path);
}

static void select_text(const tri_text_column *from, const int64_t *row, int64_t n, tri_text_column *to) {
    to->start[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        to->place[i] = from->first + from->start[row[i]];
        to->start[i + 1] = to->start[i] + from->start[row[i] + 1] - from->start[row[i]];
    }
}

/* Copies of what is kept in memory of a row. */
static tri_status select_rows(const tri_dataset *from, tri_rows_for part, tri_dataset *to) {
    int64_t n = 0;
    for (int64_t row = 0; row < from->n; row++) n += from->part[row] == part;
    size_t rows = (size_t)n + 1, words = (size_t)from->words;
    to->row = malloc(rows * sizeof *to->row);
    to->labels = malloc(rows * words * sizeof *to->labels);
    if (from->weight) to->weight = malloc(rows * sizeof *to->weight);
    if (!to->row || !to->labels || (from->weight && !to->weight)) return no_memory(to->store);
    for (int64_t row = 0; row < from->n; row++)
        if (from->part[row] == part) {
            if (to->weight) to->weight[to->n] = from->weight[row];
            memcpy(to->labels + (size_t)to->n * words, from->labels + (size_t)row * words, words * sizeof *to->labels);
            to->row[to->n++] = row;
        }
    to->memory = (int64_t)(rows * (sizeof *to->row + words * sizeof *to->labels +
                                   (to->weight ? sizeof *to->weight : 0)));
    for (int t = 0; t < from->n_texts; t++) {
        tri_text_column *text = &to->text[t];
        text->vocabulary = from->text[t].vocabulary;
        text->start = malloc(rows * sizeof *text->start);
        text->place = malloc(rows * sizeof *text->place);
        if (!text->start || !text->place) return no_memory(to->store);
        select_text(&from->text[t], to->row, n, text);
        to->memory += 2 * (int64_t)(rows * sizeof *text->start);
    }
    return TRI_OK;
}

/* As tri__dataset_take hashes a store that has only these rows. buffer: room for the longest row's ids, and for its
 * numbers, which are as large. */
static tri_status hash_rows(tri_dataset *data, XXH3_state_t *hash, int32_t *buffer) {
    size_t rows = (size_t)data->n, width = (size_t)data->n_columns;
    data->digest = (uint64_t)data->n;
    for (int t = 0; t < data->n_texts; t++) {
        const int64_t *start = data->text[t].start;
        data->digest = XXH3_64bits_withSeed(start, (rows + 1) * sizeof *start, data->digest);
        XXH3_64bits_reset_withSeed(hash, data->digest);
        for (int64_t row = 0; row < data->n; row++) {
            TRI_TRY(tri__dataset_ids(data, t, row, buffer));
            XXH3_64bits_update(hash, buffer, (size_t)(start[row + 1] - start[row]) * sizeof *buffer);
        }
        data->digest = XXH3_64bits_digest(hash);
    }
    XXH3_64bits_reset_withSeed(hash, data->digest);
    for (int64_t row = 0; row < data->n; row++) {
        TRI_TRY(tri__dataset_numbers(data, row, (float *)buffer));
        XXH3_64bits_update(hash, buffer, width * sizeof(float));
        if (data->weight) XXH3_64bits_update(hash, &data->weight[row], sizeof *data->weight);
    }
    data->digest = XXH3_64bits_withSeed(data->labels, rows * (size_t)data->words * sizeof *data->labels,
                                         XXH3_64bits_digest(hash));
    return TRI_OK;
}

tri_status tri__dataset_select(const tri_dataset *from, tri_rows_for part, const tri_store *store, tri_dataset *to) {
    TRI_ASSERT(from->part && from->labels && !from->row);
    *to = (tri_dataset){.n_texts = from->n_texts, .n_columns = from->n_columns, .store = store,
                        .words = from->words, .windows = from->windows, .from_store = from->from_store};
    TRI_TRY(select_rows(from, part, to));
    int64_t most = tri__dataset_longest(to);
    size_t room = (size_t)(most > to->n_columns ? most : to->n_columns) + 1;
    TRI_OWNED(tri__free_at) int32_t *buffer = malloc(room * sizeof *buffer);
    if (!buffer) return no_memory(store);
    XXH3_state_t hash;
    XXH3_INITSTATE(&hash);
    return hash_rows(to, &hash, buffer);
}
