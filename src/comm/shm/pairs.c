/* pairs.c - messages between two ranks of one machine: the sender announces where the data is, the receiver finds the
 * announcement by its key (group, channel, number), compares both ends' descriptors and copies directly from the
 * sender's memory.
 *
 * Each ordered pair has its own entries. An entry goes from free to announced (by the sender), to taken and then to
 * done (by the receiver), to free (by the sender). One that lends memory is held in between, and taken again while the
 * receiver accesses that memory. */
#include "comm/shm/pairs.h"

#include "comm/ops/describe.h"

#include <sched.h>

enum {
    FREE, ANNOUNCED, TAKEN, DONE, HELD, /* states of an entry */
    NEW = 0, UNDER_WAY, ENDED,    /* stages of a message */
    DATA_BYTES = 256              /* that travel in the entry itself */
};
static const double CANCEL_SECONDS = 10;

typedef struct pair_entry {
    _Atomic uint32_t state;
    int32_t channel;
    uint64_t group, number;
    tri_descriptor what;
    uint64_t at;             /* offset from the segment's start, if the data is not in the entry */
    int64_t bytes;
    _Alignas(128) char data[DATA_BYTES];
} pair_entry;
_Static_assert(sizeof(pair_entry) <= TRI_SEGMENT_PAIR_ENTRY_BYTES, "an entry of a pair");

/* Entry i from one rank of this machine to another, by local index. */
static pair_entry *entry_at(const tri_world *world, int from, int to, uint64_t i) {
    size_t ring = (size_t)from * (size_t)world->segment.n + (size_t)to;
    return (pair_entry *)(world->segment.pairs + ring * TRI_SEGMENT_PAIR_BYTES +
                          i % TRI_SEGMENT_PAIR_ENTRIES * TRI_SEGMENT_PAIR_ENTRY_BYTES);
}

/* The other end left without completing its part. */
static tri_status missing(tri_group *group, const tri_message *message) {
    char mine[160];
    tri__describe(&message->what, group->n, mine, sizeof mine);
    tri__control_fail(group->world->segment.control, group->rank[message->peer], TRI_DISAGREE,
                      "left without completing its end of %s of rank %d", mine, group->rank[group->me]);
    return tri__world_check(group->world);
}

static int peer_left(const tri_group *group, const tri_message *message) {
    return tri__world_left(group->world, group->local[message->peer]);
}

static void wake(const tri_group *group, int peer) {
    tri__control_wake(group->world->segment.control, &group->local[peer], 1);
}

/* ---- Sending ---- */

/* Makes the data accessible to the receiver: in the entry, in place, or as a copy in this rank's heap. */
static tri_status place_data(tri_world *world, const tri_message *message, pair_entry *entry) {
    void *from = message->data;
    if (message->bytes <= DATA_BYTES) {
        if (message->bytes) memcpy(entry->data, message->data, (size_t)message->bytes);
        return TRI_OK;
    }
    if (!tri__segment_has(&world->segment, message->data, (size_t)message->bytes)) {
        TRI_TRY(tri__heap_take(&world->heap, (size_t)message->bytes, &from));
        memcpy(from, message->data, (size_t)message->bytes);
    }
    entry->at = (uint64_t)((uintptr_t)from - (uintptr_t)world->segment.base);
    return TRI_OK;
}

static tri_status announce(tri_group *group, tri_message *message, int *moved) {
    tri_world *world = group->world;
    for (uint64_t i = 0; i < TRI_SEGMENT_PAIR_ENTRIES; i++) {
        pair_entry *entry = entry_at(world, world->local, group->local[message->peer], message->number + i);
        if (atomic_load(&entry->state) != FREE) continue;
        TRI_TRY(place_data(world, message, entry));
        entry->group = group->id, entry->channel = message->channel, entry->number = message->number;
        entry->what = message->what, entry->bytes = message->bytes;
        atomic_store(&entry->state, ANNOUNCED);
        wake(group, message->peer);
        message->state = entry;
        message->stage = UNDER_WAY;
        *moved = 1;
        return TRI_OK;
    }
    return TRI_OK;
}

static tri_status finish_send(tri_group *group, tri_message *message, int *moved) {
    tri_world *world = group->world;
    pair_entry *entry = message->state;
    if (atomic_load(&entry->state) != DONE) {
        if (peer_left(group, message) && atomic_load(&entry->state) == ANNOUNCED) return missing(group, message);
        return TRI_OK;
    }
    char *from = world->segment.base + entry->at;
    if (message->bytes > DATA_BYTES && from != message->data) TRI_TRY(tri__heap_give(&world->heap, from));
    atomic_store(&entry->state, FREE);
    message->state = NULL;
    message->stage = ENDED;
    *moved = 1;
    return TRI_OK;
}

/* ---- Receiving ---- */

static pair_entry *find(const tri_group *group, const tri_message *message) {
    const tri_world *world = group->world;
    for (uint64_t i = 0; i < TRI_SEGMENT_PAIR_ENTRIES; i++) {
        pair_entry *entry = entry_at(world, group->local[message->peer], world->local, message->number + i);
        if (atomic_load(&entry->state) == ANNOUNCED && entry->group == group->id &&
            entry->channel == message->channel && entry->number == message->number)
            return entry;
    }
    return NULL;
}

static tri_status take(tri_group *group, tri_message *message, pair_entry *entry) {
    tri_descriptor theirs = entry->what;
    const char *from = group->world->segment.base + entry->at;
    if (!tri__describe_same(&theirs, &message->what) || entry->bytes != message->bytes)
        return tri__disagree(group, group->rank[message->peer], 1, &message->what, message->peer, &theirs);
    if (message->bytes <= DATA_BYTES) from = entry->data;
    else if (!tri__segment_has(&group->world->segment, from, (size_t)message->bytes))
        return tri__fail(TRI_DISAGREE, "rank %d sends from outside of the shared memory", group->rank[message->peer]);
    if (message->bytes) memcpy(message->data, from, (size_t)message->bytes);
    return TRI_OK;
}

static tri_status receive(tri_group *group, tri_message *message, int *moved) {
    pair_entry *entry = find(group, message);
    if (!entry && peer_left(group, message) && !(entry = find(group, message))) return missing(group, message);
    uint32_t announced = ANNOUNCED;
    if (!entry || !atomic_compare_exchange_strong(&entry->state, &announced, TAKEN)) return TRI_OK;
    tri_status status = take(group, message, entry);
    atomic_store(&entry->state, message->lent && status == TRI_OK ? HELD : DONE);
    if (message->lent) message->state = entry;
    else wake(group, message->peer);
    message->stage = ENDED;
    *moved = 1;
    return status;
}

tri_status tri__pair_progress(tri_group *group, tri_message *message, int *moved) {
    if (message->stage == ENDED) return TRI_OK;
    if (message->receive) return receive(group, message, moved);
    return message->stage == NEW ? announce(group, message, moved) : finish_send(group, message, moved);
}

int tri__pair_hold(tri_message *message) {
    uint32_t held = HELD;
    return atomic_compare_exchange_strong(&((pair_entry *)message->state)->state, &held, TAKEN);
}

void tri__pair_let(tri_message *message) { atomic_store(&((pair_entry *)message->state)->state, HELD); }

void tri__pair_return(tri_group *group, tri_message *message) {
    atomic_store(&((pair_entry *)message->state)->state, DONE);
    wake(group, message->peer);
}

/* Between threads the receiver may be accessing the sender's memory. (Between processes that memory is shared and
 * outlives the message.) */
void tri__pair_cancel(tri_group *group, tri_message *message) {
    pair_entry *entry = message->state;
    if (message->receive || message->stage != UNDER_WAY || !group->world->segment.flat) return;
    for (double begun = tri__clock(); tri__clock() - begun < CANCEL_SECONDS; sched_yield()) {
        uint32_t announced = ANNOUNCED, held = HELD;
        if (atomic_compare_exchange_strong(&entry->state, &announced, DONE) ||
            atomic_compare_exchange_strong(&entry->state, &held, DONE) || atomic_load(&entry->state) == DONE)
            return;
    }
}
