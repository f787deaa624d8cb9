/* segment.h - the shared memory of a machine's ranks: one unnamed file, which leaves nothing behind. Everything except
 * the heaps is committed before any rank starts; a heap is an address range as large as the machine's memory, committed
 * as it is allocated (heap.h). In this order: header, control page, table of groups, cells of groups, rings of sends,
 * heaps.
 *
 * Ranks map it at different addresses; ranks exchange offsets from the start. Threads of one process can access every
 * address, so there an offset may point anywhere. */
#pragma once

#include "comm/world/control_page.h"

enum {
    TRI_SEGMENT_VERSION = 3,
    TRI_SEGMENT_GROUPS = 1024,           /* entries of the table of groups */
    TRI_SEGMENT_GROUP_BYTES = 64,        /* of an entry; its contents are private to comm/shm */
    TRI_SEGMENT_PAIR_ENTRIES = 32,       /* of the ring of an ordered pair of local ranks */
    TRI_SEGMENT_PAIR_ENTRY_BYTES = 512,  /* its contents are private to comm/shm */
    TRI_SEGMENT_PAIR_BYTES = TRI_SEGMENT_PAIR_ENTRIES * TRI_SEGMENT_PAIR_ENTRY_BYTES
};

typedef struct tri_segment_header {
    char magic[8];          /* "TRIDENT\0" */
    uint32_t version, n;    /* local ranks */
    uint64_t bytes;         /* total */
    uint64_t control, groups, cells, pairs, heap;  /* offsets of the parts, in this order, each a multiple of 4096 */
    uint64_t cell_bytes;    /* total space for groups' cells: allocated by tri__segment_cells */
    uint64_t heap_bytes;    /* of one rank, a multiple of 4096 */
    _Atomic uint64_t cells_used;
} tri_segment_header;

/* A mapping. Its fields were validated when it was made and are private to this process: the header in the shared
 * memory, which a peer could change, is not read again (except cells_used, which is validated at every use). */
typedef struct tri_segment {
    char *base;             /* [bytes]; NULL: not mapped */
    tri_segment_header *header;
    tri_control *control;
    char *groups;           /* [TRI_SEGMENT_GROUPS][TRI_SEGMENT_GROUP_BYTES], zeroed at first */
    char *cells;            /* [cell_bytes], zeroed at first */
    char *pairs;            /* [n sender][n receiver][TRI_SEGMENT_PAIR_BYTES], zeroed at first */
    char *heap;             /* [n][heap_bytes] */
    size_t bytes, cell_bytes, heap_bytes;
    int n;                  /* local ranks */
    int fd;                 /* -1: anonymous memory (threads) */
    int flat;               /* 1: all ranks share this address space */
} tri_segment;

typedef struct tri_segment_spec {
    int n, world;           /* local ranks; ranks of the world */
    const int *world_rank;  /* [n]; NULL: 0..n-1 */
    size_t heap_bytes; /* per rank: address space, not yet memory; rounded up to whole pages; 0: the machine's memory */
    double progress_timeout, io_timeout; /* seconds; an io_timeout of 0: 600 */
    int flat;               /* threads: no file */
    /* Of a world that follows others (regroup.h): how many, its mesh, and the last commit, as in tri_control. */
    int generation, stages, replicas;
    int64_t committed;
} tri_segment_spec;

/* memfd_create (0600, CLOEXEC cleared by the code that passes it on), posix_fallocate, seals against resizing, map,
 * fill in the header. TRI_RESOURCE with required and available when memory or descriptors are short; TRI_USAGE for more
 * ranks than TRI_RANKS_PER_NODE. */
tri_status tri__segment_create(const tri_segment_spec *spec, tri_segment *segment);
/* Maps an inherited or received descriptor, and validates magic, version, size, seals and the bounds of all parts:
 * TRI_DISAGREE when it is of another build or damaged. Takes ownership of the descriptor, even on failure. */
tri_status tri__segment_attach(int fd, tri_segment *segment);
void tri__segment_close(tri_segment *segment); /* accepts a zeroed one */

char *tri__segment_heap(const tri_segment *segment, int local);
/* Zeroed shared bytes for cells of a group, aligned to 128. Returns the offset from base; 0 if there is no space. */
uint64_t tri__segment_cells(tri_segment *segment, size_t bytes);

/* Whether peers can access this memory. */
int tri__segment_has(const tri_segment *segment, const void *memory, size_t bytes);
