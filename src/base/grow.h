/* grow.h - arrays that grow. */
#pragma once

#include <stddef.h>

/* Makes room for at least `need` elements of `each` bytes. array: the address of the pointer to the first; *room: how
 * many there is room for. Both begin zeroed, and are unchanged where memory is short: 0. */
int tri__grow_more(void *array, size_t *room, size_t need, size_t each);
static inline int tri__grow(void *array, size_t *room, size_t need, size_t each) {
    return (*room && need <= *room) || tri__grow_more(array, room, need, each);
}
