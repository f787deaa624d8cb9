/* dataset_rows.c - rows of a token store. Row starts and labels are kept in memory; ids and numbers are read when a
 * batch is assembled (about 2 us per row, from the page cache). Ids are compared with the vocabulary twice: all of them
 * when the store is opened, so that a bad store is found before training, and each row's when it is read, since the
 * file may have changed. */
#include "data/dataset/dataset_rows.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { PIECE = 1 << 16 }; /* 4-byte numbers per read */

static tri_section ids_of(int text) { return text ? TRI_SECTION_IDS1 : TRI_SECTION_IDS0; }

static tri_status wrong(const tri_store *store, const char *what) {
    return tri__fail(TRI_DATA, "%s: %s", store->path, what);
}

static tri_status no_memory(const tri_store *store) {
    return tri__fail(TRI_RESOURCE, "%s: out of memory for its rows", store->path);
}

/* The largest value, compared as unsigned: negative values exceed any limit. */
static uint32_t largest(const int32_t *values, size_t n) {
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) most = (uint32_t)values[i] > most ? (uint32_t)values[i] : most;
    return most;
}

/* Loads a section into new memory, with space for one extra element. */
static tri_status load(const tri_store *store, tri_section section, size_t element, void **out) {
    *out = malloc(store->bytes[section] + element);
    return *out ? tri__store_read(store, section, 0, store->bytes[section], *out) : no_memory(store);
}

/* Loads a text's starts, which increase from 0, by 1 to max_len each. The ids of a section's texts are all of its ids.
 */
static tri_status take_starts(const tri_store *store, int t, int64_t max_len, tri_dataset *data) {
    tri_text_column *text = &data->text[t];
    size_t bytes = ((size_t)store->rows + 1) * sizeof *text->start;
    int64_t tokens = (int64_t)(store->bytes[ids_of(t)] / sizeof(int32_t)), *start = text->start = malloc(bytes);
    if (!start) return no_memory(store);
    TRI_TRY(tri__store_read(store, t ? TRI_SECTION_START1 : TRI_SECTION_START0, t ? (size_t)(t - 1) * bytes : 0, bytes,
                            start));
    if (t > 1) text->first = text[-1].first + text[-1].start[store->rows];
    int bad = start[0] != 0;
    for (int64_t row = 0; row < store->rows; row++) {
        int64_t length = (int64_t)((uint64_t)start[row + 1] - (uint64_t)start[row]);
        bad |= length < 1 || length > max_len;
    }
    int64_t left = tokens - text->first;
    bad |= t && t + 1 < data->n_texts ? start[store->rows] > left : start[store->rows] != left;
    data->memory += (int64_t)bytes;
    data->digest = XXH3_64bits_withSeed(start, bytes, data->digest);
    return bad ? wrong(store, "its rows are out of order, or too long") : TRI_OK;
}

/* Continues the digest with bytes [at, end) of a section of 4-byte numbers, read in pieces, as tri__hash64 seeded with
 * its value so far. The largest goes to *most. */
static tri_status add(const tri_store *store, tri_section section, size_t at, size_t end, XXH3_state_t *hash,
                      int32_t *piece, uint64_t *digest, uint32_t *most) {
    *most = 0;
    XXH3_64bits_reset_withSeed(hash, *digest);
    while (at < end) {
        size_t left = end - at, bytes = left < PIECE * sizeof *piece ? left : PIECE * sizeof *piece;
        TRI_TRY(tri__store_read(store, section, at, bytes, piece));
        XXH3_64bits_update(hash, piece, bytes);
        uint32_t here = largest(piece, bytes / sizeof *piece);
        *most = here > *most ? here : *most;
        at += bytes;
    }
    *digest = XXH3_64bits_digest(hash);
    return TRI_OK;
}

static tri_status take_texts(const tri_store *store, const tri_row_limits *limits, XXH3_state_t *hash, int32_t *piece,
                             tri_dataset *data) {
    for (int t = 0; t < data->n_texts; t++) {
        tri_text_column *text = &data->text[t];
        uint32_t most;
        text->vocabulary = limits->vocabulary[t];
        TRI_TRY(take_starts(store, t, limits->max_len, data));
        size_t at = (size_t)text->first * sizeof *piece, bytes = (size_t)text->start[data->n] * sizeof *piece;
        TRI_TRY(add(store, ids_of(t), at, at + bytes, hash, piece, &data->digest, &most));
        if (bytes && most >= (uint32_t)text->vocabulary)
            return wrong(store, "it has token ids that the vocabulary does not");
    }
    return TRI_OK;
}

static tri_status take_labels(const tri_store *store, const tri_row_limits *limits, tri_dataset *data) {
    size_t bytes = store->bytes[TRI_SECTION_LABELS];
    data->words = limits->words;
    if (!bytes && store->rows) return limits->need_labels ? wrong(store, "it has no labels") : TRI_OK;
    if (bytes != (size_t)store->rows * (size_t)data->words * sizeof *data->labels)
        return wrong(store, "its rows have another number of labels");
    TRI_TRY(load(store, TRI_SECTION_LABELS, sizeof *data->labels, (void **)&data->labels));
    for (size_t i = 0; !limits->n_classes && i < bytes / sizeof *data->targets; i++)
        if (!isfinite(data->targets[i]) && !(data->words > 1 && isnan(data->targets[i])))
            return wrong(store, "it has numbers to learn that are not finite");
    if (bytes && limits->n_classes &&
        largest(data->labels, bytes / sizeof *data->labels) >= (uint32_t)limits->n_classes)
        return wrong(store, "it has labels that are none of the classes");
    data->digest = XXH3_64bits_withSeed(data->labels, bytes, data->digest);
    data->memory += (int64_t)bytes;
    return TRI_OK;
}

/* The last number of each row, where rows have weights. */
static tri_status take_weights(const tri_store *store, const tri_row_limits *limits, tri_dataset *data) {
    size_t width = (size_t)store->width;
    if (!limits->weighted) return TRI_OK;
    if (!(data->weight = malloc(((size_t)data->n + 1) * sizeof *data->weight))) return no_memory(store);
    for (size_t row = 0; row < (size_t)data->n; row++) {
        size_t at = (row * width + width - 1) * sizeof *data->weight;
        TRI_TRY(tri__store_read(store, TRI_SECTION_NUMBERS, at, sizeof *data->weight, &data->weight[row]));
        if (!(data->weight[row] >= 0 && data->weight[row] <= FLT_MAX)) return wrong(store, "it has impossible weights");
    }
    data->memory += data->n * (int64_t)sizeof *data->weight;
    return TRI_OK;
}

static tri_status take_parts(const tri_store *store, const tri_row_limits *limits, tri_dataset *data) {
    size_t bytes = store->bytes[TRI_SECTION_PARTS];
    if (!limits->need_parts && !bytes) return TRI_OK;
    if (bytes != (size_t)store->rows) return wrong(store, "it does not say which part a row belongs to");
    TRI_TRY(load(store, TRI_SECTION_PARTS, 1, (void **)&data->part));
    for (size_t i = 0; i < bytes; i++)
        if (data->part[i] >= TRI_ROWS_PARTS) return wrong(store, "some rows belong to no part");
    data->memory += (int64_t)bytes;
    return TRI_OK;
}

tri_status tri__dataset_take(const tri_store *store, const tri_row_limits *limits, tri_dataset *data) {
    uint32_t most;
    data->n = store->rows;
    data->n_columns = (int)store->width - limits->weighted;
    data->n_texts = limits->n_texts;
    data->store = store;
    data->digest = (uint64_t)data->n;
    if (store->bytes[TRI_SECTION_START1] != (size_t)(data->n_texts - 1) * ((size_t)data->n + 1) * sizeof(int64_t) ||
        data->n_columns != limits->width)
        return wrong(store, "it has other texts or columns than the preprocessing");
    TRI_OWNED(tri__free_at) int32_t *piece = malloc(PIECE * sizeof *piece);
    if (!piece) return no_memory(store);
    XXH3_state_t hash;
    XXH3_INITSTATE(&hash);
    TRI_TRY(take_texts(store, limits, &hash, piece, data));
    TRI_TRY(add(store, TRI_SECTION_NUMBERS, 0, store->bytes[TRI_SECTION_NUMBERS], &hash, piece, &data->digest, &most));
    TRI_TRY(take_weights(store, limits, data));
    TRI_TRY(take_labels(store, limits, data));
    return take_parts(store, limits, data);
}

int64_t tri__dataset_longest(const tri_dataset *data) {
    int64_t most = 0;
    for (int t = 0; t < data->n_texts; t++)
        for (int64_t row = 0; row < data->n; row++) {
            int64_t length = data->text[t].start[row + 1] - data->text[t].start[row];
            if (length > most) most = length;
        }
    return most;
}

void tri__dataset_drop(tri_dataset *data) {
    for (int t = 0; t < TRI_TEXTS_MAX; t++) free(data->text[t].start), free(data->text[t].place);
    TRI_FREE(data->labels, data->weight, data->part, data->row);
    *data = (tri_dataset){0};
}

tri_packed tri__dataset_packed(const tri_dataset *data, int text, int64_t row) {
    const int64_t *start = data->text[text].start;
    return tri__windows_packed(&data->windows, start[row + 1] - start[row]);
}

tri_status tri__dataset_ids(const tri_dataset *data, int text, int64_t row, int32_t *ids) {
    const int64_t *start = data->text[text].start;
    size_t n = (size_t)(start[row + 1] - start[row]);
    int64_t place = data->text[text].place ? data->text[text].place[row] : data->text[text].first + start[row];
    TRI_TRY(tri__store_read(data->store, ids_of(text), (size_t)place * sizeof *ids, n * sizeof *ids, ids));
    if (n && largest(ids, n) >= (uint32_t)data->text[text].vocabulary)
        return wrong(data->store, "it was changed while it is in use");
    return TRI_OK;
}

tri_status tri__dataset_numbers(const tri_dataset *data, int64_t row, float *numbers) {
    size_t width = (size_t)data->n_columns + (data->weight != NULL);
    if (data->row) row = data->row[row];
    return tri__store_read(data->store, TRI_SECTION_NUMBERS, (size_t)row * width * sizeof *numbers,
                           (size_t)data->n_columns * sizeof *numbers, numbers);
}
