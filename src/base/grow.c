/* grow.c - arrays that grow. */
#include "base/base.h"

int tri__grow_more(void *array, size_t *room, size_t need, size_t each) {
    enum { LEAST = 16 };
    size_t more = *room + *room / 2 > need ? *room + *room / 2 : need, bytes;
    void *first;
    memcpy(&first, array, sizeof first);
    if (more < LEAST) more = LEAST;
    if (__builtin_mul_overflow(more, each, &bytes) || !(first = realloc(first, bytes))) return 0;
    memcpy(array, &first, sizeof first);
    *room = more;
    return 1;
}
