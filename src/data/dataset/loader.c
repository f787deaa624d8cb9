/* loader.c - threads that fill batches while another one is in use. A worker takes the next batch: it waits for that
 * batch's buffer, gets its rows and their split from the sampler, and copies both; then it fills the buffer while other
 * workers take the next batches. All buffers are allocated once, in one block sized by the sampler's maxima. A batch's
 * content depends only on the sampler, never on timing. */
#include "data/dataset/loader.h"

#include "base/file_call.h"
#include "base/thread.h"

#include <errno.h>

typedef enum stage { EMPTY, TAKEN, FULL } stage; /* TAKEN: a worker is filling it; FULL: the user may read it */

typedef struct buffer {
    tri_batch batch;
    int64_t *rows;         /* [batch], in the order of the batch */
    int32_t *part;         /* [batch] the part of each */
    int64_t (*places)[2];  /* [sharers * parts] of each expert, in the parts of all replicas that share experts */
    stage stage;           /* guarded by the lock */
} buffer;

struct tri_loader {
    tri_loader_spec spec;
    tri_calls *calls;      /* of the thread that opened it: where workers announce their file calls */
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

static size_t lay_out(tri_loader *loader, char *base) {
    const tri_sampler *sampler = loader->spec.sampler;
    size_t at = 0, all = (size_t)(sampler->batch < sampler->data->n ? sampler->batch : sampler->data->n);
    for (int b = 0; b < loader->n_buffers; b++) {
        buffer *to = &loader->buffers[b];
        tri_batch *batch = &to->batch;
        to->rows = tri__carve(base, &at, all * sizeof *to->rows);
        to->part = tri__carve(base, &at, all * sizeof *to->part);
        to->places = tri__carve(base, &at, (size_t)(loader->spec.sharers * loader->spec.parts) * sizeof *to->places);
        batch->row = to->rows, batch->part_of = to->part, batch->parts = loader->spec.parts;
        batch->part = tri__carve(base, &at, (size_t)batch->parts * sizeof *batch->part);
        for (int p = 0; p < batch->parts; p++)
            tri__micro_carve(&loader->spec.micro, base, &at, base ? &batch->part[p] : NULL);
    }
    return at;
}

static tri_status add_row(const tri_loader *loader, tri_micro *micro, int64_t row) {
    const tri_dataset *data = loader->spec.sampler->data;
    for (int t = 0; t < data->n_texts; t++) {
        int64_t length = data->text[t].start[row + 1] - data->text[t].start[row];
        TRI_TRY(tri__dataset_ids(data, t, row, tri__micro_ids(&loader->spec.micro, micro, t, length)));
        tri__micro_text(&loader->spec.micro, micro, t, length, row);
    }
    if (data->n_columns) TRI_TRY(tri__dataset_numbers(data, row, tri__micro_numbers(&loader->spec.micro, micro)));
    if (data->weight) micro->weights[micro->n] = data->weight[row];
    tri__micro_row(&loader->spec.micro, micro, row,
                   data->labels ? data->labels + (size_t)row * (size_t)data->words : NULL);
    return TRI_OK;
}

/* Counts the places of a row among the parts of replicas that share experts. */
static void count_places(const tri_loader *loader, buffer *into, int64_t row, int part) {
    const tri_dataset *data = loader->spec.sampler->data;
    int all = loader->spec.sharers * loader->spec.parts, k = part - loader->spec.first_part / all * all;
    for (int t = 0; t < data->n_texts && k >= 0 && k < all; t++)
        into->places[k][tri__reader(&data->windows.readers, t)] += tri__micro_places(
            &loader->spec.micro, t, data->text[t].start[row + 1] - data->text[t].start[row]);
}

/* All replicas that share experts have as many rows of them as the one with the most. */
static void share_places(const tri_loader *loader, buffer *into) {
    int parts = loader->spec.parts;
    for (int k = 0; k < loader->spec.sharers * parts; k++)
        for (int t = 0; t < 2; t++) {
            int64_t rows = into->places[k][t] * loader->spec.micro.capacity[t].experts,
                    *most = &into->batch.part[k % parts].expert_rows[t];
            if (rows > *most) *most = rows;
        }
}

static tri_status fill(const tri_loader *loader, buffer *into) {
    const tri_dataset *data = loader->spec.sampler->data;
    tri_batch *batch = &into->batch;
    batch->tokens = 0, batch->weight = 0;
    for (int p = 0; p < batch->parts; p++) tri__micro_clear(&loader->spec.micro, &batch->part[p]);
    memset(into->places, 0, (size_t)(loader->spec.sharers * batch->parts) * sizeof *into->places);
    for (int64_t i = 0; i < batch->n; i++) {
        int64_t row = into->rows[i];
        int p = into->part[i] - loader->spec.first_part;
        count_places(loader, into, row, into->part[i]);
        if (p >= 0 && p < batch->parts) TRI_TRY(add_row(loader, &batch->part[p], row));
        for (int t = 0; t < data->n_texts; t++) batch->tokens += tri__dataset_packed(data, t, row).tokens;
        batch->weight += tri__row_weight(data, loader->spec.class_weights, row);
    }
    for (int p = 0; p < batch->parts; p++) tri__micro_pad(&loader->spec.micro, &batch->part[p]);
    share_places(loader, into);
    return TRI_OK;
}

/* Waits until the buffer is empty and takes it; 0 if the loader is being closed. */
static int wait_empty(tri_loader *loader, buffer *into) {
    TRI_LOCKED(&loader->lock);
    while (into->stage != EMPTY && !loader->stop) pthread_cond_wait(&loader->changed, &loader->lock);
    if (!loader->stop) into->stage = TAKEN;
    return !loader->stop;
}

/* Takes the next batch: its rows and their split, in a free buffer. NULL: no more batches, or the loader is being
 * closed. */
static buffer *take(tri_loader *loader) {
    tri_sampler *sampler = loader->spec.sampler;
    buffer *into = NULL;
    TRI_LOCKED(&loader->turn);
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
    return into;
}

static void *work(void *context) {
    tri_loader *loader = context;
    tri_status status = TRI_OK;
    tri__calls_help(loader->calls);
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
    tri__calls_leave();
    return NULL;
}

/* Starting one thread suffices; more are optional. */
static tri_status start(tri_loader *loader) {
    int failed = 0;
    while (!failed && loader->started < loader->n_buffers - 1) {
        failed = tri__thread_start(&loader->thread[loader->started], work, loader);
        loader->started += !failed;
    }
    return loader->started ? TRI_OK : tri__fail(TRI_RESOURCE, "cannot start the loader's thread: %s", strerror(failed));
}

static void loader_drop(tri_loader **at) { tri__loader_close(*at); }

tri_status tri__loader_open(const tri_loader_spec *spec, tri_loader **out) {
    TRI_ASSERT(spec->workers >= 0 && spec->workers <= TRI_LOADER_WORKERS);
    *out = NULL;
    TRI_OWNED(loader_drop) tri_loader *loader = NULL;
    TRI_TRY(TRI_NEW(loader, 1, "the loader"));
    loader->spec = *spec;
    loader->calls = tri__calls_mine();
    if (!spec->parts) loader->spec.parts = spec->sampler->parts;
    if (!spec->sharers) loader->spec.sharers = 1;
    TRI_ASSERT(spec->first_part >= 0 && spec->first_part + loader->spec.parts <= spec->sampler->parts);
    tri_micro_spec *micro = &loader->spec.micro;
    const tri_dataset *data = spec->sampler->data;
    micro->n_texts = data->n_texts, micro->n_columns = data->n_columns, micro->windows = data->windows;
    micro->is_weighted = data->weight != NULL, micro->rows = spec->maxima.rows;
    for (int t = 0; t < 2; t++)
        micro->tokens[t] = spec->maxima.tokens[t], micro->sequences[t] = spec->maxima.windows[t];
    loader->n_buffers = (spec->workers ? spec->workers : 1) + 1;
    loader->epoch = spec->first_epoch, loader->index = spec->first_batch, loader->last = -1;
    pthread_mutex_init(&loader->turn, NULL);
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->changed, NULL);
    TRI_TRY(TRI_NEW(loader->buffers, loader->n_buffers, "the loader"));
    size_t bytes = lay_out(loader, NULL);
    loader->block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!loader->block)
        return tri__fail(TRI_RESOURCE, "out of memory: batches take %zu bytes; use a smaller --batch-size or fewer "
                         "--num-workers", bytes);
    lay_out(loader, loader->block);
    TRI_TRY(start(loader));
    *out = TRI_GIVE(loader);
    return TRI_OK;
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
    TRI_FREE(loader->buffers, loader->block, loader);
}

/* Until a worker has changed something, or POLL_NANOSECONDS; the lock is held before and after. Workers' file calls are
 * this rank's meanwhile, which still answers other machines. */
static void await_change(tri_loader *loader) {
    enum { POLL_NANOSECONDS = 50 * 1000 * 1000, SECOND = 1000 * 1000 * 1000 };
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += POLL_NANOSECONDS;
    if (until.tv_nsec >= SECOND) until.tv_sec++, until.tv_nsec -= SECOND;
    if (pthread_cond_timedwait(&loader->changed, &loader->lock, &until) != ETIMEDOUT) return;
    pthread_mutex_unlock(&loader->lock);
    tri__helpers_poll();
    pthread_mutex_lock(&loader->lock);
}

tri_status tri__loader_next(tri_loader *loader, const tri_batch **batch, double *waited) {
    double begin = tri__clock();
    buffer *from = &loader->buffers[loader->given % loader->n_buffers];
    *batch = NULL;
    TRI_LOCKED(&loader->lock);
    if (loader->held) {
        loader->buffers[(loader->given - 1) % loader->n_buffers].stage = EMPTY, loader->held = 0;
        pthread_cond_broadcast(&loader->changed);
    }
    tri__helpers_begin();
    while (from->stage != FULL && loader->last != loader->given && loader->failed == TRI_OK) await_change(loader);
    tri__helpers_end();
    if (waited) *waited = tri__clock() - begin;
    if (from->stage == FULL) loader->held = 1, loader->given++, *batch = &from->batch;
    else if (loader->last != loader->given) return tri__fail(loader->failed, "%s", loader->why);
    return TRI_OK;
}
