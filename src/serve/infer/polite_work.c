/* polite_work.c - a thread of lower priority. */
#include "serve/infer/polite_work.h"

#include <sys/resource.h>

enum { STEPS = 10 }; /* of priority below computing: about a tenth of a busy core */

static void *do_work(void *context) {
    tri_polite_work *w = context;
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + STEPS); /* of this thread, in Linux */
    w->status = w->run(w->context);
    tri__words_keep(&w->why);
    atomic_store(&w->ended, 1);
    return NULL;
}

void tri__polite_begin(tri_polite_work *w, tri_status (*run)(void *context), void *context) {
    *w = (tri_polite_work){.run = run, .context = context};
    w->started = !pthread_create(&w->thread, NULL, do_work, w);
    if (w->started) return;
    w->status = tri__fail(TRI_RESOURCE, "cannot start a thread to open a model");
    tri__words_keep(&w->why);
    atomic_store(&w->ended, 1);
}

tri_status tri__polite_end(tri_polite_work *w) {
    if (w->started) pthread_join(w->thread, NULL);
    w->started = 0;
    return w->status == TRI_OK ? TRI_OK : tri__fail(w->status, "%s", w->why.text);
}
