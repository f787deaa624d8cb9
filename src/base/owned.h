/* owned.h - values that their scope frees at its end, however it is left, the last first:
 * `TRI_OWNED(tri__names_free) tri_names names = {0};`. The function takes the value's address. */
#pragma once

#include "base/status.h"

#define TRI_OWNED(end) __attribute__((cleanup(end)))

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
