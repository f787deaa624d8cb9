/* grow.c - an array with room for one more. */
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

int tri__grow(void *items, size_t n, size_t *room, size_t size) {
    void *at; /* copied, as pointers of different types are different objects */
    if (n < *room) return 1;
    size_t wanted = *room ? 2 * *room : 4;
    memcpy(&at, items, sizeof at);
    if (!(at = reallocarray(at, wanted, size))) return 0;
    memcpy(items, &at, sizeof at);
    *room = wanted;
    return 1;
}
