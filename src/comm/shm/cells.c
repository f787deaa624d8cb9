/* cells.c - finds a group's shared cells, and checks for free entries in their ring. */
#include "comm/shm/cells.h"

#define NO_ROOM UINT64_MAX

struct tri_group_entry {
    _Atomic uint64_t id;     /* 0: free */
    _Atomic uint64_t cells;  /* offset from the segment's start; 0: being created; NO_ROOM */
    char rest[TRI_SEGMENT_GROUP_BYTES - 16];
};
_Static_assert(sizeof(struct tri_group_entry) == TRI_SEGMENT_GROUP_BYTES, "an entry of the table of groups");

static size_t header_bytes(int n) { return sizeof(tri_cells) + (size_t)n * sizeof(struct tri_ended); }
static size_t cells_bytes(int n) { return header_bytes(n) + (size_t)n * TRI_RING * sizeof(tri_cell); }

static tri_status no_room(const tri_group *group) {
    return tri__fail(
        TRI_RESOURCE,
        "no room for another group (of %d ranks) in the shared memory: make fewer groups, and each only once",
        group->n);
}

tri_status tri__cells_open(tri_group *group, tri_shm_group *shm) {
    tri_segment *segment = &group->world->segment;
    struct tri_group_entry *table = (struct tri_group_entry *)segment->groups;
    for (uint64_t probe = 0; probe < TRI_SEGMENT_GROUPS; probe++) {
        struct tri_group_entry *entry = &table[(group->id + probe) % TRI_SEGMENT_GROUPS];
        uint64_t id = 0;
        shm->entry = entry;
        if (atomic_compare_exchange_strong(&entry->id, &id, group->id)) {
            uint64_t cells = tri__segment_cells(segment, cells_bytes(group->n));
            atomic_store(&entry->cells, cells ? cells : NO_ROOM);
            tri__control_wake(segment->control, group->local, group->n);
        } else if (id != group->id) {
            continue;
        }
        return tri__cells_find(group, shm);
    }
    return no_room(group);
}

tri_status tri__cells_find(tri_group *group, tri_shm_group *shm) {
    const tri_segment *segment = &group->world->segment;
    uint64_t at = atomic_load(&shm->entry->cells);
    if (at == 0) return TRI_OK;
    if (at == NO_ROOM) return no_room(group);
    if (at % 128 || at > segment->bytes || segment->bytes - at < cells_bytes(group->n))
        return tri__fail(TRI_DISAGREE, "the table of groups in the shared memory is damaged");
    shm->cells = (tri_cells *)(segment->base + at);
    shm->cell = (tri_cell *)(segment->base + at + header_bytes(group->n));
    return TRI_OK;
}

static void look_for_room(const tri_group *group, tri_shm_group *shm) {
    uint64_t least = UINT64_MAX;
    for (int m = 0; m < group->n; m++) {
        uint64_t ended = atomic_load(&shm->cells->ended[m].count);
        if (ended < least) least = ended;
    }
    shm->room = least + TRI_RING;
}

/* A member that ends an operation reads `full` after its store, and one that finds the ring full checks again after
 * setting its mark: one sees the other. */
int tri__cells_room(tri_group *group, tri_shm_group *shm, uint64_t sequence) {
    if (sequence < shm->room) return 1;
    look_for_room(group, shm);
    if (sequence >= shm->room && !shm->waits_for_room) {
        shm->waits_for_room = 1;
        atomic_fetch_add(&shm->cells->full, 1);
        look_for_room(group, shm);
    }
    if (sequence >= shm->room) return 0;
    if (shm->waits_for_room) atomic_fetch_sub(&shm->cells->full, 1);
    shm->waits_for_room = 0;
    return 1;
}

void tri__cells_end(tri_group *group, tri_shm_group *shm, uint64_t sequence) {
    shm->later |= 1u << sequence % TRI_RING;
    for (uint32_t bit; shm->later & (bit = 1u << shm->ended % TRI_RING); shm->ended++) shm->later &= ~bit;
    atomic_store(&shm->cells->ended[group->me].count, shm->ended);
    if (atomic_load(&shm->cells->full)) tri__control_wake(group->world->segment.control, group->local, group->n);
}

int tri__cells_ready(const tri_group *group, const tri_shm_group *shm, uint64_t sequence, int *seen) {
    while (*seen < group->n && atomic_load(&tri__cell(shm, *seen, sequence)->ready) == sequence + 1) ++*seen;
    return *seen == group->n;
}
