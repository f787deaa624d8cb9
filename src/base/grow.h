/* grow.h - arrays from malloc that grow by doubling. */
#ifndef TRI_BASE_GROW_H
#define TRI_BASE_GROW_H

#include <stddef.h>

/* Room for one more than n items of `size` bytes. items: the address of the pointer to the first, NULL before there are
 * any; *room: how many fit. 0: out of memory, with nothing changed. */
int tri__grow(void *items, size_t n, size_t *room, size_t size);

#endif
