/* parallel.c - independent pieces of work on several threads. */
#include "study/choose/choose_parts.h"

enum { THREADS_MAX = 64 };

typedef struct shared_work {
    void (*work)(void *context, int i);
    void *context;
    int n;
    atomic_int next;
} shared_work;

static void take_all(void *data) {
    shared_work *shared = data;
    for (int i; (i = atomic_fetch_add(&shared->next, 1)) < shared->n;) shared->work(shared->context, i);
}

static void *take_work(void *data) {
    tri__arena_reuse(take_all, data);
    return NULL;
}

void tri__parallel(int n, int threads, void (*work)(void *context, int i), void *context) {
    shared_work shared = {.work = work, .context = context, .n = n};
    pthread_t helper[THREADS_MAX];
    int helpers = 0;
    if (threads > n) threads = n;
    if (threads > THREADS_MAX) threads = THREADS_MAX;
    while (helpers + 1 < threads && pthread_create(&helper[helpers], NULL, take_work, &shared) == 0) helpers++;
    take_work(&shared);
    for (int i = 0; i < helpers; i++) pthread_join(helper[i], NULL);
}
