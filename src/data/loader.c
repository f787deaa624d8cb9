/* loader.c - a thread that fills one of two batches while the other is in use. Both are laid out once, from the sampler's
 * maxima, in one block; after that nothing allocates. What a batch holds depends on the sampler alone, never on timing. */
#include "data/loader.h"

#include "base/clock.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct buffer {
    tri_batch batch;
    int full;              /* guarded by the lock; the thread fills it when 0, the user reads it when 1 */
} buffer;

struct tri_loader {
    tri_loader_spec spec;
    char *block;           /* what both buffers' arrays lie in */
    buffer buffers[2];
    int next;              /* the buffer that tri__loader_next gives next */
    int held;              /* the other one is in the user's hands */
    int started;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int stop, finished;    /* guarded by the lock */
};

/* Takes bytes, aligned to 64, at *at; with base NULL only counts. */
static void *carve(char *base, size_t *at, size_t bytes) {
    void *here = base ? base + *at : NULL;
    *at += (bytes + 63) & ~(size_t)63;
    return here;
}

static size_t lay_out(tri_loader *loader, char *base) {
    const tri_dataset *data = loader->spec.sampler->data;
    const tri_sampler_maxima *maxima = &loader->spec.maxima;
    size_t at = 0, rows = (size_t)maxima->rows;
    for (int b = 0; b < 2; b++) {
        tri_batch *batch = &loader->buffers[b].batch;
        batch->parts = loader->spec.sampler->parts;
        batch->part = carve(base, &at, (size_t)batch->parts * sizeof *batch->part);
        for (int p = 0; p < batch->parts; p++) {
            tri_micro micro = {0};
            for (int t = 0; t < data->n_texts; t++) {
                size_t tokens = (size_t)maxima->tokens[t];
                micro.ids[t] = carve(base, &at, tokens * sizeof *micro.ids[t]);
                micro.pos[t] = carve(base, &at, tokens * sizeof *micro.pos[t]);
                micro.key[t] = carve(base, &at, 2 * tokens * sizeof *micro.key[t]);
                micro.seq[t] = carve(base, &at, (rows + 1) * sizeof *micro.seq[t]);
            }
            if (data->n_columns) micro.numbers = carve(base, &at, rows * (size_t)data->n_columns * sizeof *micro.numbers);
            micro.labels = carve(base, &at, rows * sizeof *micro.labels);
            micro.keyn = carve(base, &at, 2 * rows * sizeof *micro.keyn);
            micro.row = carve(base, &at, rows * sizeof *micro.row);
            if (base) batch->part[p] = micro;
        }
    }
    return at;
}

static void add_text(const tri_loader *loader, tri_micro *micro, int text, int64_t row) {
    const tri_text_column *from = &loader->spec.sampler->data->text[text];
    int64_t length = from->start[row + 1] - from->start[row], at = micro->tokens[text];
    TRI_ASSERT(at + length <= loader->spec.maxima.tokens[text]);
    memcpy(micro->ids[text] + at, from->ids + from->start[row], (size_t)length * sizeof *micro->ids[text]);
    for (int64_t i = 0; i < length; i++) {
        micro->pos[text][at + i] = loader->spec.position_base[text] + (int32_t)i;
        micro->key[text][2 * (at + i)] = (int32_t)row;
        micro->key[text][2 * (at + i) + 1] = (int32_t)i;
    }
    micro->tokens[text] = at + length;
    micro->seq[text][micro->n + 1] = (int32_t)(at + length);
    micro->squares[text] += (double)length * (double)length;
}

static void add_row(const tri_loader *loader, tri_micro *micro, int64_t row) {
    const tri_dataset *data = loader->spec.sampler->data;
    TRI_ASSERT(micro->n < loader->spec.maxima.rows);
    for (int t = 0; t < data->n_texts; t++) add_text(loader, micro, t, row);
    size_t columns = (size_t)data->n_columns;
    if (columns)
        memcpy(micro->numbers + (size_t)micro->n * columns, data->numbers + (size_t)row * columns, columns * sizeof(float));
    micro->labels[micro->n] = data->labels ? data->labels[row] : 0;
    micro->keyn[2 * micro->n] = (int32_t)row;
    micro->keyn[2 * micro->n + 1] = 0;
    micro->row[micro->n++] = row;
}

static void fill(const tri_loader *loader, tri_batch *batch, int64_t epoch, int64_t index) {
    tri_sampler *sampler = loader->spec.sampler;
    const tri_dataset *data = sampler->data;
    const int64_t *rows;
    batch->epoch = epoch, batch->index = index;
    batch->n = tri__sampler_batch(sampler, epoch, index, &rows);
    tri__sampler_split(sampler, rows, batch->n, sampler->part);
    batch->tokens = 0, batch->weight = 0;
    for (int p = 0; p < batch->parts; p++) {
        tri_micro *micro = &batch->part[p];
        micro->n = 0;
        for (int t = 0; t < data->n_texts; t++) micro->tokens[t] = 0, micro->squares[t] = 0, micro->seq[t][0] = 0;
    }
    for (int64_t i = 0; i < batch->n; i++) {
        add_row(loader, &batch->part[sampler->part[i]], rows[i]);
        batch->weight += loader->spec.class_weights ? loader->spec.class_weights[data->labels ? data->labels[rows[i]] : 0] : 1.0;
    }
    for (int p = 0; p < batch->parts; p++)
        for (int t = 0; t < data->n_texts; t++) batch->tokens += batch->part[p].tokens[t];
}

/* Waits until the buffer may be filled; 0 when the loader is being closed. */
static int wait_empty(tri_loader *loader, buffer *into) {
    pthread_mutex_lock(&loader->lock);
    while (into->full && !loader->stop) pthread_cond_wait(&loader->changed, &loader->lock);
    int go_on = !loader->stop;
    pthread_mutex_unlock(&loader->lock);
    return go_on;
}

static void announce(tri_loader *loader, int *flag) {
    pthread_mutex_lock(&loader->lock);
    *flag = 1;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
}

static void *work(void *context) {
    tri_loader *loader = context;
    int64_t batches = tri__sampler_batches(loader->spec.sampler), k = loader->spec.first_batch;
    int which = 0;
    for (int64_t epoch = loader->spec.first_epoch; epoch < loader->spec.epochs; epoch++, k = 0)
        for (; k < batches; k++, which = !which) {
            if (!wait_empty(loader, &loader->buffers[which])) return NULL;
            fill(loader, &loader->buffers[which].batch, epoch, k);
            announce(loader, &loader->buffers[which].full);
        }
    announce(loader, &loader->finished);
    return NULL;
}

/* Signals are for the program's own threads: this one blocks them all. */
static tri_status start(tri_loader *loader) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&loader->thread, NULL, work, loader);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) return tri__fail(TRI_RESOURCE, "cannot start the loader's thread: %s", strerror(failed));
    loader->started = 1;
    return TRI_OK;
}

tri_status tri__loader_open(const tri_loader_spec *spec, tri_loader **out) {
    *out = NULL;
    tri_loader *loader = calloc(1, sizeof *loader);
    if (!loader) return tri__fail(TRI_RESOURCE, "out of memory for the loader");
    loader->spec = *spec;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->changed, NULL);
    size_t bytes = lay_out(loader, NULL);
    tri_status status = TRI_OK;
    if (posix_memalign((void **)&loader->block, 64, bytes) != 0) {
        loader->block = NULL;
        status = tri__fail(TRI_RESOURCE, "out of memory: batches take %zu bytes; use a smaller --batch-size", bytes);
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
    if (loader->started) {
        announce(loader, &loader->stop);
        pthread_join(loader->thread, NULL);
    }
    pthread_cond_destroy(&loader->changed);
    pthread_mutex_destroy(&loader->lock);
    free(loader->block);
    free(loader);
}

const tri_batch *tri__loader_next(tri_loader *loader, double *waited) {
    double begin = tri__clock();
    pthread_mutex_lock(&loader->lock);
    if (loader->held) {
        loader->buffers[!loader->next].full = 0;
        loader->held = 0;
        pthread_cond_broadcast(&loader->changed);
    }
    buffer *from = &loader->buffers[loader->next];
    while (!from->full && !loader->finished) pthread_cond_wait(&loader->changed, &loader->lock);
    int got = from->full;
    if (got) loader->held = 1, loader->next = !loader->next;
    pthread_mutex_unlock(&loader->lock);
    if (waited) *waited = tri__clock() - begin;
    return got ? &from->batch : NULL;
}
