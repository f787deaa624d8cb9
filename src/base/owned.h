/* owned.h - values that their scope frees at its end, however it is left, the last first:
 * `TRI_OWNED(tri__names_free) tri_names names = {0};`. The function takes the value's address. */
#pragma once

#include "base/status.h"

#include <pthread.h>

#define TRI_OWNED(end) __attribute__((cleanup(end), unused)) /* unused: where only its end is wanted, for clang */

/* A pointer that is handed on: NULL from then on, so that its scope does not free it. */
#define TRI_GIVE(p) ({ __typeof__(p) given_ = (p); (p) = NULL; given_; })

/* p = n zeroed elements, or a failure that says what for: `TRI_TRY(TRI_NEW(all, n, "the names"));`. */
#define TRI_NEW(p, n, what) \
    (((p) = calloc((size_t)(n), sizeof *(p))) ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory for %s", what))

/* For TRI_OWNED: what malloc gave. */
static inline void tri__free_at(void *at) {
    void *p;
    memcpy(&p, at, sizeof p);
    free(p);
}

/* Frees each of them: `TRI_FREE(all->name, all->length);`. */
#define TRI_FREE(...) \
    tri__free_all((void *[]){__VA_ARGS__}, (int)(sizeof((void *[]){__VA_ARGS__}) / sizeof(void *)))
static inline void tri__free_all(void *const *all, int n) {
    for (int i = 0; i < n; i++) free(all[i]);
}

/* From here to the scope's end the recorded text of a failure stays as it is, whatever fails in between. */
#define TRI_KEEP_WORDS() TRI_OWNED(tri__words_restore) tri_words kept_words_ = tri__words_now()
static inline tri_words tri__words_now(void) {
    tri_words now;
    tri__words_keep(&now);
    return now;
}

/* Holds a mutex from here to the scope's end. */
#define TRI_LOCKED(mutex) TRI_OWNED(tri__unlock_at) pthread_mutex_t *locked_ = tri__locked(mutex)
static inline pthread_mutex_t *tri__locked(pthread_mutex_t *mutex) {
    pthread_mutex_lock(mutex);
    return mutex;
}
static inline void tri__unlock_at(pthread_mutex_t **at) { pthread_mutex_unlock(*at); }

/* ---- grow.c: arrays that grow ---- */

/* Makes room for at least `need` elements of `each` bytes. array: the address of the pointer to the first; *room: how
 * many there is room for. Both begin zeroed, and are unchanged where memory is short: 0. */
int tri__grow_more(void *array, size_t *room, size_t need, size_t each);
static inline int tri__grow(void *array, size_t *room, size_t need, size_t each) {
    return (*room && need <= *room) || tri__grow_more(array, room, need, each);
}
