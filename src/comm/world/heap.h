/* heap.h - a rank's part of the shared memory, given out in pieces: first fit, neighbours joined when freed. Its
 * book-keeping is the rank's own, outside the shared memory, so that no peer can damage it.
 *
 * The part is a range of addresses in the shared file; memory is committed when a piece first reaches into it, so that
 * a shortage is an error there and then, and never a fault later. What was committed stays so until the world is
 * closed. */
#ifndef TRI_COMM_WORLD_HEAP_H
#define TRI_COMM_WORLD_HEAP_H

#include "base/status.h"

typedef struct tri_heap {
    char *base;
    size_t bytes;
    size_t committed;  /* bytes, from the start on */
    int fd;            /* the shared file; -1: plain memory, which needs no commit */
    int64_t file_at;   /* of base in it */
    struct tri_heap_piece { size_t at, bytes; int used; } *piece; /* in order of `at`, touching, making it up */
    int n, cap;
} tri_heap;

tri_status tri__heap_open(tri_heap *heap, void *base, size_t bytes, int fd, int64_t file_at);
void tri__heap_close(tri_heap *heap);
/* Zeroed, aligned to 4096. TRI_RESOURCE with the figures when no piece is large enough, or the machine's memory is
 * short. */
tri_status tri__heap_take(tri_heap *heap, size_t bytes, void **out);
/* TRI_USAGE for what is not a piece of it. */
tri_status tri__heap_give(tri_heap *heap, void *memory);

#endif
