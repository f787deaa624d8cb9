/* segment.h - the one shared memory of a machine's ranks: a nameless file, sized and committed before any rank starts, so that it
 * leaves nothing behind and can never run out later. Header, control page, table of groups, rings of sends, heaps: in this order.
 *
 * Ranks map it at different addresses; what crosses between ranks is an offset from the start. Between threads of one process every
 * address is reachable, so there an offset may point anywhere. */
#ifndef TRI_COMM_SEGMENT_H
#define TRI_COMM_SEGMENT_H

#include "comm/control.h"

enum { TRI_SEGMENT_VERSION = 1, TRI_SEGMENT_GROUPS = 1024 };

typedef struct tri_segment_header {
    char magic[8];          /* "TRIDENT\0" */
    uint32_t version, n;    /* local ranks */
    uint64_t bytes;         /* of the whole */
    uint64_t control, groups, cells, pairs, heap;  /* offsets of the parts */
    uint64_t cell_bytes;    /* room for groups' cells in all: taken by tri__segment_cells */
    uint64_t heap_bytes;    /* of one rank, a multiple of 4096 */
    _Atomic uint64_t cells_used;
} tri_segment_header;

typedef struct tri_segment {
    char *base;             /* NULL: not mapped */
    tri_segment_header *header;
    tri_control *control;
    size_t bytes;
    int fd;                 /* -1: anonymous memory (threads) */
    int flat;               /* 1: all ranks share this address space */
} tri_segment;

typedef struct tri_segment_spec {
    int n, world;           /* local ranks; ranks of the world */
    const int *world_rank;  /* [n]; NULL: 0..n-1 */
    size_t heap_bytes;      /* of each rank */
    double progress_timeout;
    int flat;               /* threads: no file */
} tri_segment_spec;

/* Bytes that a segment takes, for memory checks. */
size_t tri__segment_bytes(const tri_segment_spec *spec);
/* memfd_create (0600, CLOEXEC cleared by whoever passes it on), posix_fallocate, map, fill in the header. TRI_RESOURCE with need and available
 * when memory or descriptors are short. */
tri_status tri__segment_create(const tri_segment_spec *spec, tri_segment *segment);
/* Maps a descriptor that was inherited or received, and checks magic, version, size and that all parts lie inside: TRI_DISAGREE when it is of
 * another build or damaged. Takes the descriptor over. */
tri_status tri__segment_attach(int fd, tri_segment *segment);
void tri__segment_close(tri_segment *segment); /* accepts a zeroed one with fd -1 */

/* Touches this rank's heap, so that its pages are its own. */
void tri__segment_populate(tri_segment *segment, int local);
char *tri__segment_heap(const tri_segment *segment, int local);
/* Zeroed shared bytes for cells of a group, aligned to 128; 0 when there is no room. Returns the offset. */
uint64_t tri__segment_cells(tri_segment *segment, size_t bytes);

#endif
