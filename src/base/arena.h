/* arena.h - memory for planning objects: bump allocation, freed at once.
 *
 * An arena reserves address space, not memory, when it is made; pages are taken when first touched. So the only
 * failure is at tri__arena_open, and code that builds plans need not unwind. Running out of the reserve is a defect. */
#ifndef TRI_BASE_ARENA_H
#define TRI_BASE_ARENA_H

#include "base/status.h"

typedef struct tri_arena {
    char *base;
    size_t used, reserved; /* bytes */
} tri_arena;

tri_status tri__arena_open(tri_arena *arena, size_t reserve);
void tri__arena_close(tri_arena *arena); /* accepts a zeroed arena */

/* Forgets all that was allocated since arena->used was `used`; its memory is given out again, zeroed. */
void tri__arena_rewind(tri_arena *arena, size_t used);

/* Zeroed bytes, aligned to 16. */
void *tri__arena_alloc(tri_arena *arena, size_t bytes);
char *tri__arena_print(tri_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *tri__arena_copy(tri_arena *arena, const char *text);

/* Doubles an array held in the arena when it is full. Old storage stays behind until the arena is closed. */
void *tri__arena_grow(tri_arena *arena, void *array, int count, int *capacity, size_t element);
#define TRI_PUSH(arena, array, count, capacity) \
    ((array) = tri__arena_grow((arena), (array), (count), &(capacity), sizeof *(array)), &(array)[(count)++])

#endif
