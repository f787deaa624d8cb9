/* held_peer.h - with several machines, each rank's replicated state has a copy on the next one, so that it outlives not
 * only the rank but its machine. It is sent while the next step computes. */
#ifndef TRI_TRAIN_STATE_HELD_PEER_H
#define TRI_TRAIN_STATE_HELD_PEER_H

#include "checkpoint/memory.h"
#include "comm/world/world.h"

typedef struct tri_held_peers tri_held_peers;

/* Every rank of a world of several machines calls it, with its own area (checkpoint/memory.h), formatted. Rank i of a
 * machine sends to rank i of the next one (modulo its ranks). TRI_RESOURCE when memory is short. */
tri_status tri__held_peers_open(tri_world *world, const void *area, size_t bytes, tri_held_peers **out);
void tri__held_peers_close(tri_held_peers *peers); /* accepts NULL; nothing may be in flight, or the world has failed */
/* Every rank, after its copy of `step` is complete: begins to send it, and to receive those that this rank holds. Until
 * `finish`, which waits for both, that copy is not written. */
tri_status tri__held_peers_begin(tri_held_peers *peers, int64_t step);
tri_status tri__held_peers_finish(tri_held_peers *peers);

#endif
