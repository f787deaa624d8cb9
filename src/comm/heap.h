/* heap.h - a rank's part of the shared memory, given out in pieces: first fit, neighbours joined when freed. Its book-keeping is the
 * rank's own, outside the shared memory, so that no peer can damage it. */
#ifndef TRI_COMM_HEAP_H
#define TRI_COMM_HEAP_H

#include "base/status.h"

typedef struct tri_heap {
    char *base;
    size_t bytes;
    struct tri_heap_piece { size_t at, bytes; int used; } *piece; /* in order of `at`, touching, making it up */
    int n, cap;
} tri_heap;

tri_status tri__heap_open(tri_heap *heap, void *base, size_t bytes);
void tri__heap_close(tri_heap *heap);
/* Zeroed, aligned to 4096. TRI_RESOURCE with the figures, and what to raise, when no piece is large enough. */
tri_status tri__heap_take(tri_heap *heap, size_t bytes, void **out);
/* TRI_USAGE for what is not a piece of it. */
tri_status tri__heap_give(tri_heap *heap, void *memory);

#endif
