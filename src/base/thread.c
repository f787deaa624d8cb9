/* thread.c - starts a thread. */
#include "base/thread.h"

#include <signal.h>

int tri__thread_start(pthread_t *thread, void *(*main)(void *), void *context) {
    sigset_t all, before; /* a thread begins with the mask of the one that starts it */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, main, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}
