/* made_dataset.h - a dataset for tests: lengths, labels and numbers from simple formulas, no files. After cmocka.h. */
#ifndef TRI_TESTS_MADE_DATASET_H
#define TRI_TESTS_MADE_DATASET_H

#include "data/dataset/dataset_rows.h"

#include "tests/lib/test.h"

/* Id k of text t of row r, and its number c. */
static inline int32_t made_id(int64_t r, int t, int64_t k) { return (int32_t)(r * 100 + t * 50 + k); }
static inline float made_number(const tri_dataset *data, int64_t r, int c) { return (float)(r * data->n_columns + c); }

/* Text t of row r has 2 + (r * 37 + t * 11) % spread tokens. Labels are r % 2. */
static inline tri_dataset *made_dataset(int64_t n, int n_texts, int n_columns, int spread) {
    tri_dataset *data = calloc(1, sizeof *data);
    tri_store *store = calloc(1, sizeof *store);
    tri_store_writer *writer;
    assert_int_equal(tri__store_create(NULL, &(tri_store_origin){0}, NULL, &writer), TRI_OK);
    data->n = n, data->n_texts = n_texts, data->n_columns = n_columns, data->words = 1;
    data->store = store;
    for (int t = 0; t < n_texts; t++) {
        int64_t *start = data->text[t].start = calloc((size_t)n + 1, sizeof *start);
        data->text[t].vocabulary = INT32_MAX;
        for (int64_t r = 0; r < n; r++) start[r + 1] = start[r] + 2 + (r * 37 + t * 11) % spread;
        int32_t *ids = calloc((size_t)start[n] + 1, sizeof *ids);
        for (int64_t r = 0; r < n; r++)
            for (int64_t at = start[r]; at < start[r + 1]; at++) ids[at] = made_id(r, t, at - start[r]);
        if (t < 2) assert_int_equal(tri__store_begin(writer, t ? TRI_SECTION_IDS1 : TRI_SECTION_IDS0), TRI_OK);
        if (t > 1) data->text[t].first = data->text[t - 1].first + data->text[t - 1].start[n];
        assert_int_equal(tri__store_append(writer, ids, (size_t)start[n] * sizeof *ids), TRI_OK);
        free(ids);
    }
    float *numbers = calloc((size_t)(n * n_columns) + 1, sizeof *numbers);
    for (int64_t i = 0; i < n * n_columns; i++) numbers[i] = (float)i;
    assert_int_equal(tri__store_begin(writer, TRI_SECTION_NUMBERS), TRI_OK);
    assert_int_equal(tri__store_append(writer, numbers, (size_t)(n * n_columns) * sizeof *numbers), TRI_OK);
    assert_int_equal(tri__store_commit(writer, n, n_columns, store), TRI_OK);
    free(numbers);
    data->labels = calloc((size_t)n + 1, sizeof *data->labels);
    for (int64_t r = 0; r < n; r++) data->labels[r] = (int32_t)(r % 2);
    return data;
}

static inline void made_dataset_free(tri_dataset *data) {
    tri_store *store = (tri_store *)data->store;
    tri__store_close(store);
    free(store);
    tri__dataset_drop(data);
    free(data);
}

#endif
