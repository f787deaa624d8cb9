/* polite_work.h - the long parts of opening a model, on a thread that gives way to models that compute: its priority is
 * lower, and a thread may not raise it again. */
#pragma once

#include "base/base.h"

#include <stdatomic.h>

typedef struct tri_polite_work {
    pthread_t thread;
    int started;
    atomic_int ended;
    tri_status (*run)(void *context);
    void *context;
    tri_status status;
    tri_words why;
} tri_polite_work;

/* A failure to start is that of the work. */
void tri__polite_begin(tri_polite_work *work, tri_status (*run)(void *context), void *context);
/* Waits for its end. */
tri_status tri__polite_end(tri_polite_work *work);
