/* cells.h - memory shared by the members of a group: a ring of TRI_RING operations, with one cell per member and
 * entry.
 *
 * A member announces operation s by filling in its cell of entry s % TRI_RING and then storing s + 1 into `ready`. It
 * may do so once every member has ended operation s - TRI_RING, so that no member accesses that entry any more.
 *
 * Members find the cells without communication: by the group's id in the segment's table of groups. */
#pragma once

#include "comm/world/world.h"

enum {
    TRI_RING = 16,     /* operations in flight in a group */
    TRI_INLINE = 4096, /* bytes of input that travel in the cell */
    /* The same over all members: beyond it, reading everything everywhere costs more than sharing the work. */
    TRI_INLINE_ALL = 32768
};

/* One member's part of an operation. Polling and comparing touch one cache line. */
typedef struct tri_cell {
    _Alignas(128) _Atomic uint64_t ready; /* sequence + 1 */
    tri_descriptor what;
    uint64_t in, out; /* offsets from the segment's start, if the input does not travel in the cell */
    _Alignas(128) char data[TRI_INLINE];
} tri_cell;

/* Distribution of the work of an operation whose input does not travel in cells. The upper half of both words holds
 * the low half of sequence + 1, so that an earlier operation's value reads as 0; TRI_CLOSED in `claimed`: no more
 * claims. */
typedef struct tri_cell_claims {
    _Alignas(128) _Atomic uint64_t claimed; /* tasks claimed */
    _Alignas(128) _Atomic uint64_t done;    /* tasks done */
} tri_cell_claims;
#define TRI_CLOSED 0x80000000u

typedef struct tri_cells {
    tri_cell_claims place[TRI_RING];
    _Alignas(128) _Atomic uint32_t full; /* members that wait for a free entry, approximately */
    struct tri_ended {
        _Alignas(128) _Atomic uint64_t count;
    } ended[]; /* [n] operations that the member has ended, without a gap */
    /* tri_cell [n][TRI_RING] follow */
} tri_cells;

/* One member's private view. */
typedef struct tri_shm_group {
    struct tri_group_entry *entry; /* of the table; NULL: a group of one */
    tri_cells *cells;              /* NULL: their creator has not finished */
    tri_cell *cell;                /* [n][TRI_RING] */
    uint64_t announced;            /* operations that this member announced */
    uint64_t room;                 /* operations below this may be announced */
    uint64_t ended;                /* operations that this member has ended, without a gap ... */
    uint32_t later;                /* ... and a bit for each entry that ended out of order */
    int waits_for_room;
    size_t last_inline;            /* bytes of the last input that travelled in a cell */
} tri_shm_group;

/* Finds or creates the group's entry. TRI_RESOURCE when the table or the cells are full. */
tri_status tri__cells_open(tri_group *group, tri_shm_group *shm);
/* Whether the cells exist; TRI_RESOURCE when their creator ran out of space. */
tri_status tri__cells_find(tri_group *group, tri_shm_group *shm);
/* Whether operation `sequence` may be announced; if not, this member will be woken when that may have changed. */
int tri__cells_room(tri_group *group, tri_shm_group *shm, uint64_t sequence);
/* Records that this member has ended operation `sequence`. */
void tri__cells_end(tri_group *group, tri_shm_group *shm, uint64_t sequence);

/* Whether all members have announced operation `sequence`; *seen, 0 at first, members known to have. */
int tri__cells_ready(const tri_group *group, const tri_shm_group *shm, uint64_t sequence, int *seen);

static inline tri_cell *tri__cell(const tri_shm_group *shm, int member, uint64_t sequence) {
    return &shm->cell[(uint64_t)member * TRI_RING + sequence % TRI_RING];
}
