/* nccl_host.c - nccl_gpu.h without a GPU. */
#include "tests/lib/nccl_host.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct task {
    struct task *next;
    enum { COPY, FILL, WRITE, WAIT } kind;
    void *to;
    const void *from;
    size_t bytes;
    uint32_t value;
} task;

struct gpu_stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    task *first, **last;
    int busy, closing;
};

static void perform(const task *t) {
    const struct timespec nap = {0, 20000};
    switch (t->kind) {
    case COPY: memcpy(t->to, t->from, t->bytes); break;
    case FILL: memset(t->to, (int)t->value, t->bytes); break;
    case WRITE: __atomic_store_n((uint32_t *)t->to, t->value, __ATOMIC_RELEASE); break;
    case WAIT:
        while ((int32_t)(__atomic_load_n((const uint32_t *)t->from, __ATOMIC_ACQUIRE) - t->value) < 0)
            nanosleep(&nap, NULL);
        break;
    }
}

static void *work(void *argument) {
    gpu_stream *s = argument;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->first && !s->closing) pthread_cond_wait(&s->change, &s->lock);
        task *t = s->first;
        if (!t) break;
        if (!(s->first = t->next)) s->last = &s->first;
        pthread_mutex_unlock(&s->lock);
        perform(t);
        free(t);
        pthread_mutex_lock(&s->lock);
        s->busy--;
        pthread_cond_broadcast(&s->change);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

gpu_stream *host_stream_open(void) {
    gpu_stream *s = calloc(1, sizeof *s);
    if (!s) abort();
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->change, NULL);
    s->last = &s->first;
    if (pthread_create(&s->thread, NULL, work, s)) abort();
    return s;
}

void host_stream_finish(gpu_stream *s) {
    pthread_mutex_lock(&s->lock);
    while (s->busy) pthread_cond_wait(&s->change, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void host_stream_close(gpu_stream *s) {
    pthread_mutex_lock(&s->lock);
    s->closing = 1;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->change);
    free(s);
}

static int queue(gpu_stream *s, task what) {
    task *t = malloc(sizeof *t);
    if (!t) return 1;
    *t = what;
    pthread_mutex_lock(&s->lock);
    *s->last = t;
    s->last = &t->next;
    s->busy++;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

int gpu_current(void) { return 0; }
void gpu_use(int device) { (void)device; }
const char *gpu_words(int error) { return error ? "out of memory" : "no error"; }
int gpu_pin(void *memory, size_t bytes) { return (void)memory, (void)bytes, 0; }
void gpu_unpin(void *memory) { (void)memory; }
int gpu_owns(const void *memory) { return memory != NULL; }

int gpu_copy(void *to, const void *from, size_t bytes, gpu_stream *stream) {
    return queue(stream, (task){.kind = COPY, .to = to, .from = from, .bytes = bytes});
}

int gpu_fill(void *to, int byte, size_t bytes, gpu_stream *stream) {
    return queue(stream, (task){.kind = FILL, .to = to, .value = (uint32_t)byte, .bytes = bytes});
}

int gpu_write(uint32_t *word, uint32_t value, gpu_stream *stream) {
    return queue(stream, (task){.kind = WRITE, .to = word, .value = value});
}

int gpu_wait(uint32_t *word, uint32_t value, gpu_stream *stream) {
    return queue(stream, (task){.kind = WAIT, .from = word, .value = value});
}
