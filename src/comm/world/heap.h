/* heap.h - allocator for a rank's part of the shared memory: first fit, adjacent free pieces are merged. Its
 * bookkeeping is private to the rank, outside the shared memory, so that no peer can damage it.
 *
 * The part is an address range of the shared file; memory is committed when a piece first covers it, so that a shortage
 * is an error at allocation and never a fault later. Committed memory stays committed until the world is closed. */
#pragma once

#include "base/base.h"

typedef struct tri_heap {
    char *base;
    size_t bytes;
    size_t committed;  /* bytes, from the start on */
    int fd;            /* the shared file; -1: plain memory, which needs no commit */
    int64_t file_at;   /* offset of base in it */
    struct tri_heap_piece { size_t at, bytes; int used; } *piece; /* in order of `at`, contiguous, covering the range */
    int n;
    size_t room;       /* of the list */
} tri_heap;

tri_status tri__heap_open(tri_heap *heap, void *base, size_t bytes, int fd, int64_t file_at);
void tri__heap_close(tri_heap *heap);
/* Zeroed, aligned to 4096. TRI_RESOURCE with sizes when no piece is large enough, or the machine is out of memory. */
tri_status tri__heap_take(tri_heap *heap, size_t bytes, void **out);
/* TRI_USAGE if it is not a piece of this heap. */
tri_status tri__heap_give(tri_heap *heap, void *memory);
