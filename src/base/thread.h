/* thread.h - threads of the library's own. */
#pragma once

#include <pthread.h>

/* pthread_create of a thread that blocks all signals: these are for the program's own threads. 0, or an errno. */
int tri__thread_start(pthread_t *thread, void *(*main)(void *), void *context);
