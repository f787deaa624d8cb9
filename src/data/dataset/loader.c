/* loader.c - threads that fill batches while another one is in use. A worker takes the next batch: it waits for that
 * batch's buffer, gets its rows and their split from the sampler, and copies both; then it fills the buffer while other
 * workers take the next batches. All buffers are allocated once, in one block sized by the sampler's maxima. A batch's
 * content depends only on the sampler, never on timing. */
#include "data/dataset/loader.h"

#include "base/clock.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum stage { EMPTY, TAKEN, FULL } stage; /* TAKEN: a worker is filling it; FULL: the user may read it */

typedef struct buffer {
    tri_batch batch;
    int64_t *rows;         /* [batch], in the order of the batch */
    int32_t *part;         /* [batch] the part of each */
    stage stage;           /* guarded by the lock */
} buffer;

struct tri_loader {
    tri_loader_spec spec;
    char *block;           /* holds the arrays of all buffers */
    buffer *buffers;       /* [n_buffers] batch i of the run is in buffer i % n_buffers */
    int n_buffers;         /* workers + 1: the caller uses one */
    int64_t given;         /* batches returned by tri__loader_next; the last is in use until the next call */
    int held;
    int started;           /* threads */
    pthread_t thread[TRI_LOADER_WORKERS];
    pthread_mutex_t turn;  /* held to take the next batch; guards the sampler and: */
    int64_t epoch, index, taken;  /* the batch to take; batches taken */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t last;          /* guarded by the lock: number of batches, once known; else -1 */
    int stop;              /* guarded by the lock */
    tri_status failed;     /* guarded by the lock: why no further batches are filled; TRI_OK: no failure */
    char why[512];
};

/* Carves out bytes at *at, aligned to 64; with base NULL it only counts. */
static void *carve(char *base, size_t *at, size_t bytes) {
    void *here = base ? base + *at : NULL;
    *at += (bytes + 63) & ~(size_t)63;
    return here;
}

/* Tokens rounded up to the granule. */
static int64_t rounded(const tri_loader *loader, int64_t tokens) {
    int64_t granule = loader->spec.granule > 1 ? loader->spec.granule : 1;
    return (tokens + granule - 1) / granule * granule;
}

static size_t lay_out(tri_loader *loader, char *base) {
    const tri_dataset *data = loader->spec.sampler->data;
    const tri_sampler_maxima *maxima = &loader->spec.maxima;
    const tri_sampler *sampler = loader->spec.sampler;
    size_t at = 0, rows = (size_t)maxima->rows, all = (size_t)(sampler->batch < data->n ? sampler->batch : data->n);
    for (int b = 0; b < loader->n_buffers; b++) {
        tri_batch *batch = &loader->buffers[b].batch;
        loader->buffers[b].rows = carve(base, &at, all * sizeof *loader->buffers[b].rows);
        loader->buffers[b].part = carve(base, &at, all * sizeof *loader->buffers[b].part);
        batch->parts = loader->spec.parts;
        batch->part = carve(base, &at, (size_t)batch->parts * sizeof *batch->part);
        for (int p = 0; p < batch->parts; p++) {
            tri_micro micro = {0};
            for (int t = 0; t < data->n_texts; t++) {
                size_t tokens = (size_t)rounded(loader, maxima->tokens[t]);
                micro.ids[t] = carve(base, &at, tokens * sizeof *micro.ids[t]);
                micro.pos[t] = carve(base, &at, tokens * sizeof *micro.pos[t]);
                micro.key[t] = carve(base, &at, 2 * tokens * sizeof *micro.key[t]);
                micro.seq[t] = carve(base, &at, (rows + 1) * sizeof *micro.seq[t]);
            }
            if (data->n_columns)
                micro.numbers = carve(base, &at, rows * (size_t)data->n_columns * sizeof *micro.numbers);
            micro.labels = carve(base, &at, rows * sizeof *micro.labels);
            micro.keyn = carve(base, &at, 2 * rows * sizeof *micro.keyn);
            micro.row = carve(base, &at, rows * sizeof *micro.row);
            if (base) batch->part[p] = micro;
        }
    }
    return at;
}

static tri_status add_text(const tri_loader *loader, tri_micro *micro, int text, int64_t row) {
    const tri_dataset *data = loader->spec.sampler->data;
    const int64_t *start = data->text[text].start;
    int64_t length = start[row + 1] - start[row], at = micro->tokens[text];
    TRI_ASSERT(at + length <= loader->spec.maxima.tokens[text]);
    TRI_TRY(tri__dataset_ids(data, text, row, micro->ids[text] + at));
    int32_t next = loader->spec.position_base[text], pad = next - 1; /* -1 is not a token's id */
    for (int64_t i = 0; i < length; i++) {
        micro->pos[text][at + i] = micro->ids[text][at + i] == pad ? pad : next++;
        micro->key[text][2 * (at + i)] = (int32_t)row;
        micro->key[text][2 * (at + i) + 1] = (int32_t)i;
    }
    micro->tokens[text] = at + length;
    micro->seq[text][micro->n + 1] = (int32_t)(at + length);
    micro->squares[text] += (double)length * (double)length;
    return TRI_OK;
}

static tri_status add_row(const tri_loader *loader, tri_micro *micro, int64_t row) {
    const tri_dataset *data = loader->spec.sampler->data;
    TRI_ASSERT(micro->n < loader->spec.maxima.rows);
    for (int t = 0; t < data->n_texts; t++) TRI_TRY(add_text(loader, micro, t, row));
    if (data->n_columns) TRI_TRY(tri__dataset_numbers(data, row, micro->numbers + micro->n * data->n_columns));
    micro->labels[micro->n] = data->labels ? data->labels[row] : 0;
    micro->keyn[2 * micro->n] = (int32_t)row;
    micro->keyn[2 * micro->n + 1] = 0;
    micro->row[micro->n++] = row;
    return TRI_OK;
}

static void pad_text(const tri_loader *loader, tri_micro *micro, int text) {
    int64_t at = micro->tokens[text];
    size_t more = (size_t)(rounded(loader, at) - at);
    memset(micro->ids[text] + at, 0, more * sizeof *micro->ids[text]);
    memset(micro->pos[text] + at, 0, more * sizeof *micro->pos[text]);
    memset(micro->key[text] + 2 * at, 0, 2 * more * sizeof *micro->key[text]);
}

static tri_status fill(const tri_loader *loader, buffer *into) {
    const tri_dataset *data = loader->spec.sampler->data;
    tri_batch *batch = &into->batch;
    batch->tokens = 0, batch->weight = 0;
    for (int p = 0; p < batch->parts; p++) {
        tri_micro *micro = &batch->part[p];
        micro->n = 0;
        for (int t = 0; t < data->n_texts; t++) micro->tokens[t] = 0, micro->squares[t] = 0, micro->seq[t][0] = 0;
    }
    for (int64_t i = 0; i < batch->n; i++) {
        int64_t row = into->rows[i];
        int p = into->part[i] - loader->spec.first_part;
        if (p >= 0 && p < batch->parts) TRI_TRY(add_row(loader, &batch->part[p], row));
        for (int t = 0; t < data->n_texts; t++)
            batch->tokens += data->text[t].start[row + 1] - data->text[t].start[row];
        batch->weight += loader->spec.class_weights ? loader->spec.class_weights[data->labels ? data->labels[row] : 0]
                                                    : 1.0;
    }
    for (int p = 0; p < batch->parts; p++)
        for (int t = 0; t < data->n_texts; t++) pad_text(loader, &batch->part[p], t);
    return TRI_OK;
}

/* Waits until the buffer is empty and takes it; 0 if the loader is being closed. */
static int wait_empty(tri_loader *loader, buffer *into) {
    pthread_mutex_lock(&loader->lock);
    while (into->stage != EMPTY && !loader->stop) pthread_cond_wait(&loader->changed, &loader->lock);
    int go_on = !loader->stop;
    if (go_on) into->stage = TAKEN;
    pthread_mutex_unlock(&loader->lock);
    return go_on;
}

/* Takes the next batch: its rows and their split, in a free buffer. NULL: no more batches, or the loader is being
 * closed. */
static buffer *take(tri_loader *loader) {
    tri_sampler *sampler = loader->spec.sampler;
    buffer *into = NULL;
    pthread_mutex_lock(&loader->turn);
    if (loader->index >= tri__sampler_batches(sampler)) loader->epoch++, loader->index = 0;
    int none = loader->epoch >= loader->spec.epochs || tri__sampler_batches(sampler) == 0;
    if (none) {
        pthread_mutex_lock(&loader->lock);
        loader->last = loader->taken;
        pthread_cond_broadcast(&loader->changed);
        pthread_mutex_unlock(&loader->lock);
    } else if (wait_empty(loader, &loader->buffers[loader->taken % loader->n_buffers])) {
        const int64_t *rows;
        into = &loader->buffers[loader->taken++ % loader->n_buffers];
        into->batch.epoch = loader->epoch, into->batch.index = loader->index++;
        into->batch.n = tri__sampler_batch(sampler, into->batch.epoch, into->batch.index, &rows);
        memcpy(into->rows, rows, (size_t)into->batch.n * sizeof *rows);
        tri__sampler_split(sampler, rows, into->batch.n, into->part);
    }
    pthread_mutex_unlock(&loader->turn);
    return into;
}

static void *work(void *context) {
    tri_loader *loader = context;
    tri_status status = TRI_OK;
    for (buffer *into; status == TRI_OK && (into = take(loader));) {
        status = fill(loader, into);
        pthread_mutex_lock(&loader->lock);
        if (status == TRI_OK) into->stage = FULL;
        else if (loader->failed == TRI_OK) {
            loader->failed = status;
            snprintf(loader->why, sizeof loader->why, "%s", tri_error()); /* error texts are per thread */
        }
        pthread_cond_broadcast(&loader->changed);
        pthread_mutex_unlock(&loader->lock);
    }
    return NULL;
}

/* Workers block all signals, which are for the program's own threads. Starting one thread suffices; more are
 * optional. */
static tri_status start(tri_loader *loader) {
    sigset_t all, before;
    int failed = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (!failed && loader->started < loader->n_buffers - 1) {
        failed = pthread_create(&loader->thread[loader->started], NULL, work, loader);
        loader->started += !failed;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return loader->started ? TRI_OK : tri__fail(TRI_RESOURCE, "cannot start the loader's thread: %s", strerror(failed));
}

tri_status tri__loader_open(const tri_loader_spec *spec, tri_loader **out) {
    TRI_ASSERT(spec->workers >= 0 && spec->workers <= TRI_LOADER_WORKERS);
    *out = NULL;
    tri_loader *loader = calloc(1, sizeof *loader);
    if (!loader) return tri__fail(TRI_RESOURCE, "out of memory for the loader");
    loader->spec = *spec;
    if (!spec->parts) loader->spec.parts = spec->sampler->parts;
    TRI_ASSERT(spec->first_part >= 0 && spec->first_part + loader->spec.parts <= spec->sampler->parts);
    loader->n_buffers = (spec->workers ? spec->workers : 1) + 1;
    loader->epoch = spec->first_epoch, loader->index = spec->first_batch;
    loader->last = -1;
    pthread_mutex_init(&loader->turn, NULL);
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->changed, NULL);
    loader->buffers = calloc((size_t)loader->n_buffers, sizeof *loader->buffers);
    size_t bytes = loader->buffers ? lay_out(loader, NULL) : 0;
    tri_status status = TRI_OK;
    if (!loader->buffers || posix_memalign((void **)&loader->block, 64, bytes) != 0) {
        loader->block = NULL;
        status = tri__fail(TRI_RESOURCE,
                           "out of memory: batches take %zu bytes; use a smaller --batch-size or fewer --num-workers",
                           bytes);
    } else {
        lay_out(loader, loader->block);
        status = start(loader);
    }
    if (status == TRI_OK) *out = loader;
    else tri__loader_close(loader);
    return status;
}

void tri__loader_close(tri_loader *loader) {
    if (!loader) return;
    pthread_mutex_lock(&loader->lock);
    loader->stop = 1;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    for (int i = 0; i < loader->started; i++) pthread_join(loader->thread[i], NULL);
    pthread_cond_destroy(&loader->changed);
    pthread_mutex_destroy(&loader->lock);
    pthread_mutex_destroy(&loader->turn);
    free(loader->buffers);
    free(loader->block);
    free(loader);
}

tri_status tri__loader_next(tri_loader *loader, const tri_batch **batch, double *waited) {
    double begin = tri__clock();
    buffer *from = &loader->buffers[loader->given % loader->n_buffers];
    *batch = NULL;
    pthread_mutex_lock(&loader->lock);
    if (loader->held) {
        loader->buffers[(loader->given - 1) % loader->n_buffers].stage = EMPTY;
        loader->held = 0;
        pthread_cond_broadcast(&loader->changed);
    }
    while (from->stage != FULL && loader->last != loader->given && loader->failed == TRI_OK)
        pthread_cond_wait(&loader->changed, &loader->lock);
    tri_status status = TRI_OK;
    if (from->stage == FULL) loader->held = 1, loader->given++, *batch = &from->batch;
    else if (loader->last != loader->given) status = tri__fail(loader->failed, "%s", loader->why);
    pthread_mutex_unlock(&loader->lock);
    if (waited) *waited = tri__clock() - begin;
    return status;
}
