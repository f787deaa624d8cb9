/* heap.c - first fit over an array of pieces. Buffers are few and live for a whole run, so a linear search is cheap. */
#include "comm/world/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GRANULE = 4096 };

/* For one more piece. */
static tri_status make_room(tri_heap *heap) {
    if (tri__grow(&heap->piece, &heap->room, (size_t)heap->n + 1, sizeof *heap->piece)) return TRI_OK;
    return tri__fail(TRI_RESOURCE, "out of memory for the shared heap's list of pieces");
}

tri_status tri__heap_open(tri_heap *heap, void *base, size_t bytes, int fd, int64_t file_at) {
    *heap = (tri_heap){.base = base, .bytes = bytes & ~(size_t)(GRANULE - 1), .fd = fd, .file_at = file_at};
    TRI_TRY(make_room(heap));
    heap->piece[0] = (struct tri_heap_piece){.bytes = heap->bytes};
    heap->n = 1;
    return TRI_OK;
}

void tri__heap_close(tri_heap *heap) {
    free(heap->piece);
    *heap = (tri_heap){0};
}

static tri_status no_room(const tri_heap *heap, size_t bytes) {
    size_t largest = 0, free_bytes = 0;
    char a[32], b[32], c[32], d[32];
    for (int i = 0; i < heap->n; i++)
        if (!heap->piece[i].used) {
            free_bytes += heap->piece[i].bytes;
            if (heap->piece[i].bytes > largest) largest = heap->piece[i].bytes;
        }
    return tri__fail(TRI_RESOURCE,
                     "cannot allocate %s in this rank's shared heap of %s: %s are free, the largest piece %s; raise "
                     "heap_bytes of tri_ranks",
                     tri__text_bytes((double)bytes, a), tri__text_bytes((double)heap->bytes, b),
                     tri__text_bytes((double)free_bytes, c), tri__text_bytes((double)largest, d));
}

/* Splits piece i after `bytes`. */
static tri_status split(tri_heap *heap, int i, size_t bytes) {
    if (heap->piece[i].bytes == bytes) return TRI_OK;
    TRI_TRY(make_room(heap));
    struct tri_heap_piece *piece = &heap->piece[i];
    memmove(piece + 1, piece, (size_t)(heap->n - i) * sizeof *piece);
    piece[1].at += bytes, piece[1].bytes -= bytes;
    piece[0].bytes = bytes;
    heap->n++;
    return TRI_OK;
}

/* Commits [0, end) and maps the new pages into this process's page table, so that page faults are not timed. */
static tri_status commit(tri_heap *heap, size_t end) {
    size_t from = heap->committed, more = end - from;
    char a[32], b[32];
    int failed = 0;
    if (end <= from) return TRI_OK;
    if (heap->fd >= 0) {
        if ((int64_t)more > tri__memory_available()) failed = ENOMEM;
        while (!failed && (failed = posix_fallocate(heap->fd, heap->file_at + (int64_t)from, (off_t)more)) == EINTR)
            failed = 0;
    }
    if (failed)
        return tri__fail(TRI_RESOURCE, "no memory for %s more of this rank's shared heap: %s is available (%s)",
                         tri__text_bytes((double)more, a), tri__text_bytes((double)tri__memory_available(), b),
                         strerror(failed));
    /* Pages may be larger than our granularity. Before Linux 5.14 they are mapped when touched. */
    size_t before = (uintptr_t)(heap->base + from) % (size_t)sysconf(_SC_PAGESIZE);
    (void)madvise(heap->base + from - before, more + before, MADV_POPULATE_WRITE);
    heap->committed = end;
    return TRI_OK;
}

tri_status tri__heap_take(tri_heap *heap, size_t bytes, void **out) {
    *out = NULL;
    size_t whole = bytes ? (bytes + GRANULE - 1) & ~(size_t)(GRANULE - 1) : GRANULE;
    if (whole < bytes) return no_room(heap, bytes);
    for (int i = 0; i < heap->n; i++) {
        if (heap->piece[i].used || heap->piece[i].bytes < whole) continue;
        size_t at = heap->piece[i].at, used_before = heap->committed > at ? heap->committed - at : 0;
        TRI_TRY(commit(heap, at + whole));
        TRI_TRY(split(heap, i, whole));
        heap->piece[i].used = 1;
        *out = memset(heap->base + at, 0, used_before < whole ? used_before : whole); /* fresh pages are zero */
        return TRI_OK;
    }
    return no_room(heap, bytes);
}

/* Merges piece i with the next if both are free. */
static void join(tri_heap *heap, int i) {
    if (i < 0 || i + 1 >= heap->n || heap->piece[i].used || heap->piece[i + 1].used) return;
    heap->piece[i].bytes += heap->piece[i + 1].bytes;
    memmove(&heap->piece[i + 1], &heap->piece[i + 2], (size_t)(heap->n - i - 2) * sizeof *heap->piece);
    heap->n--;
}

tri_status tri__heap_give(tri_heap *heap, void *memory) {
    for (int i = 0; i < heap->n; i++) {
        if (heap->base + heap->piece[i].at != memory || !heap->piece[i].used) continue;
        heap->piece[i].used = 0;
        join(heap, i);
        join(heap, i - 1);
        return TRI_OK;
    }
    return tri__fail(TRI_USAGE,
                     "%p is not a piece of this rank's shared heap: freed twice, or not from tri_heap_alloc?", memory);
}
