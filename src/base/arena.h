/* arena.h - memory for planning objects: bump allocation, freed at once.
 *
 * An arena grows by chunks of address space; pages are taken when first touched. Code that builds plans need not
 * unwind: where an arena cannot grow, tri__arena_alloc leaves for the innermost tri__arena_guard of its thread, which
 * returns TRI_RESOURCE to its caller. What runs inside a guard holds arenas of guards of their own
 * (tri__arena_scratch); anything else that it holds then would be leaked. */
#ifndef TRI_BASE_ARENA_H
#define TRI_BASE_ARENA_H

#include "base/status.h"

typedef struct tri_arena {
    struct tri_arena_chunk *chunk; /* the newest; older ones are linked behind it */
    size_t used, end;              /* bytes given out; where the newest chunk ends, counted like `used` */
} tri_arena;

/* The first `reserve` bytes are given out without a chance of failure. */
tri_status tri__arena_open(tri_arena *arena, size_t reserve);
void tri__arena_close(tri_arena *arena); /* accepts a zeroed arena */

/* Runs work(data); TRI_RESOURCE when an arena could not grow meanwhile. What the work wrote is then unfinished. */
tri_status tri__arena_guard(tri_status (*work)(void *data), void *data);
/* The same with an arena that lives as long as the work. */
tri_status tri__arena_scratch(tri_status (*work)(tri_arena *scratch, void *data), void *data);

/* Forgets all that was allocated since arena->used was `used`; its memory is given out again, zeroed. */
void tri__arena_rewind(tri_arena *arena, size_t used);

/* The next allocations, up to `bytes` of them together with 16 for each, cannot fail. For code that is not inside a
 * guard. */
tri_status tri__arena_room(tri_arena *arena, size_t bytes);
/* Zeroed bytes, aligned to 16. */
void *tri__arena_alloc(tri_arena *arena, size_t bytes);
char *tri__arena_print(tri_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *tri__arena_copy(tri_arena *arena, const char *text);

/* Doubles an array held in the arena when it is full. Old storage stays behind until the arena is closed. */
void *tri__arena_grow(tri_arena *arena, void *array, int count, int *capacity, size_t element);
#define TRI_PUSH(arena, array, count, capacity) \
    ((array) = tri__arena_grow((arena), (array), (count), &(capacity), sizeof *(array)), &(array)[(count)++])

#endif
