/* host.c - measures copies in memory, and the loader: one worker packs made rows of two lengths, from a token
 * store in memory, so that seconds of a row and of a token follow. */
#include "study/calibrate/calibrate_parts.h"

#include "data/dataset/dataset_rows.h"
#include "data/dataset/loader.h"

enum {
    COPY_BYTES = 32 << 20,
    TRIES = 5,
    ROWS = 4096,
    BATCH = 32,
    SHORT = 16, LONG = 256, /* tokens of a row */
    CLASSES = 2
};

static tri_status time_copy(double *rate) {
    TRI_OWNED(tri__free_at) char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    double took[TRIES];
    for (int i = -1; i < TRIES && from && to; i++) { /* the first touches pages */
        memset(from, i, COPY_BYTES);
        double begin = tri__clock();
        memcpy(to, from, COPY_BYTES);
        if (i >= 0) took[i] = tri__clock() - begin;
    }
    if (!from || !to) return tri__fail(TRI_RESOURCE, "no memory for copies of 32 MiB");
    *rate = COPY_BYTES / tri__median(took, TRIES);
    return TRI_OK;
}

/* ---- The loader ---- */

static tri_status append(tri_store_writer *writer, tri_section section, const void *data, size_t bytes) {
    TRI_TRY(tri__store_begin(writer, section));
    return tri__store_append(writer, data, bytes);
}

/* ROWS rows of `length` tokens and one number, all 0. */
static tri_status write_rows(tri_store_writer *writer, int64_t length) {
    TRI_OWNED(tri__free_at) int32_t *zeros = calloc((size_t)(ROWS * length), sizeof *zeros);
    TRI_OWNED(tri__free_at) int64_t *start = calloc(ROWS + 1, sizeof *start);
    if (!zeros || !start) return tri__fail(TRI_RESOURCE, "out of memory for made rows");
    for (int64_t r = 0; r < ROWS; r++) start[r + 1] = start[r] + length;
    TRI_TRY(append(writer, TRI_SECTION_NUMBERS, zeros, ROWS * sizeof(float)));
    TRI_TRY(append(writer, TRI_SECTION_LABELS, zeros, ROWS * sizeof *zeros));
    TRI_TRY(append(writer, TRI_SECTION_IDS0, zeros, (size_t)(ROWS * length) * sizeof *zeros));
    return append(writer, TRI_SECTION_START0, start, (ROWS + 1) * sizeof *start);
}

static tri_status made_rows(int64_t length, tri_store *store, tri_dataset *data) {
    tri_store_writer *writer;
    tri_row_limits limits = {
        .vocabulary = {1}, .max_len = (int)length, .n_classes = CLASSES, .words = 1, .n_texts = 1, .width = 1,
        .need_labels = 1};
    TRI_TRY(tri__store_create(NULL, &(tri_store_origin){0}, NULL, &writer));
    tri_status status = write_rows(writer, length);
    if (status != TRI_OK) {
        tri__store_abandon(writer);
        return status;
    }
    TRI_TRY(tri__store_commit(writer, ROWS, 1, store));
    data->store = store;
    data->n_texts = 1, data->n_columns = 1, data->text[0].vocabulary = 1;
    return tri__dataset_take(store, &limits, data);
}

/* Seconds of a row, once through the data. */
static tri_status load_all(tri_sampler *sampler, double *seconds) {
    tri_loader *loader;
    tri_loader_spec spec = {.sampler = sampler, .epochs = 1, .workers = 1};
    const tri_batch *batch;
    int64_t rows = 0;
    TRI_TRY(tri__sampler_maxima(sampler, 1, &spec.maxima));
    double begin = tri__clock();
    TRI_TRY(tri__loader_open(&spec, &loader));
    tri_status status;
    while ((status = tri__loader_next(loader, &batch, NULL)) == TRI_OK && batch) rows += batch->n;
    tri__loader_close(loader);
    *seconds = (tri__clock() - begin) / (double)(rows ? rows : 1);
    return status;
}

static tri_status time_rows(int64_t length, double *seconds) {
    TRI_OWNED(tri__dataset_drop) tri_dataset data = {0};
    TRI_OWNED(tri__store_close) tri_store store = {0};
    TRI_OWNED(tri__sampler_close) tri_sampler sampler = {0};
    double took[TRIES];
    TRI_TRY(made_rows(length, &store, &data));
    TRI_TRY(tri__sampler_open(&sampler, &data, BATCH, 1, 1, 1));
    for (int i = 0; i < TRIES; i++) TRI_TRY(load_all(&sampler, &took[i]));
    *seconds = tri__median(took, TRIES);
    return TRI_OK;
}

tri_status tri__calibrate_host(tri_hardware *out) {
    double few = 0, many = 0;
    TRI_TRY(time_copy(&out->copy));
    TRI_TRY(time_rows(SHORT, &few));
    TRI_TRY(time_rows(LONG, &many));
    out->host.token = fmax(0, (many - few) / (LONG - SHORT));
    out->host.row = fmax(0, few - SHORT * out->host.token);
    return TRI_OK;
}
