/* arena.h - memory for planning objects: bump allocation, freed all at once.
 *
 * An arena grows by chunks of address space; pages are committed when first touched. Code that builds plans need not
 * handle failures: if an arena cannot grow, tri__arena_alloc jumps to the innermost tri__arena_guard of its thread,
 * which returns TRI_RESOURCE to its caller. Code inside a guard may own only arenas that have their own guard
 * (tri__arena_scratch); any other resource would leak. */
#pragma once

#include "base/base.h"

typedef struct tri_arena {
    struct tri_arena_chunk *chunk; /* the newest, linked to older ones */
    size_t used, end;              /* bytes allocated; end of the newest chunk, counted like `used` */
} tri_arena;

/* Allocating the first `reserve` bytes cannot fail. */
tri_status tri__arena_open(tri_arena *arena, size_t reserve);
void tri__arena_close(tri_arena *arena); /* accepts a zeroed arena */

/* Runs work(data); TRI_RESOURCE if an arena could not grow; what the work wrote is then incomplete. */
tri_status tri__arena_guard(tri_status (*work)(void *data), void *data);
/* The same with an arena that lives as long as the work. */
tri_status tri__arena_scratch(tri_status (*work)(tri_arena *scratch, void *data), void *data);

/* Runs work(data), in which this thread's arenas reuse the memory of those closed before: getting it from the system
 * anew takes longer than planning. It is returned at the end; inside another, there. */
void tri__arena_reuse(void (*work)(void *data), void *data);

/* Frees all that was allocated since arena->used was `used`; the memory is reused, zeroed. */
void tri__arena_rewind(tri_arena *arena, size_t used);

/* Guarantees that the next allocations cannot fail, up to `bytes` in total including 16 bytes for each. For code
 * outside a guard. */
tri_status tri__arena_room(tri_arena *arena, size_t bytes);
/* Zeroed bytes, aligned to 16. */
void *tri__arena_alloc(tri_arena *arena, size_t bytes);
char *tri__arena_print(tri_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *tri__arena_copy(tri_arena *arena, const char *text);

/* Doubles an array in the arena if it is full. The old storage remains until the arena is closed. */
void *tri__arena_grow(tri_arena *arena, void *array, int count, int *capacity, size_t element);
#define TRI_PUSH(arena, array, count, capacity) \
    ((array) = tri__arena_grow((arena), (array), (count), &(capacity), sizeof *(array)), &(array)[(count)++])
