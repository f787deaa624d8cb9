/* held_peer.h - with several machines, each rank's kept state has a copy on the next one: so that it outlives not only
 * the rank but its machine. Sent while the next step computes. */
#ifndef TRI_TRAIN_STATE_HELD_PEER_H
#define TRI_TRAIN_STATE_HELD_PEER_H

#include "checkpoint/memory.h"
#include "comm/world/world.h"

typedef struct tri_partner tri_partner;

/* Every rank of a world of several machines calls it, with its own area (checkpoint/memory.h), formatted. Rank i of a
 * machine sends to rank i of the next one (modulo its ranks). TRI_RESOURCE when memory is short. */
tri_status tri__partner_open(tri_world *world, const void *area, size_t bytes, tri_partner **out);
void tri__partner_close(tri_partner *partner); /* accepts NULL; nothing may be in flight, or the world has failed */
/* Every rank, after its copy of `step` is complete: begins to send it, and to receive those that this rank holds. Until
 * `finish`, which waits for both, that copy is not written. */
tri_status tri__partner_begin(tri_partner *partner, int64_t step);
tri_status tri__partner_finish(tri_partner *partner);

#endif
