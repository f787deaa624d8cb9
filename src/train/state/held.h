/* held.h - replicated state on several machines (replicate.c). Each rank's has a copy on the next machine, so that it
 * outlives not only the rank but its machine; it is sent while the next step computes (held_peer.c). The state that
 * ranks of an earlier world kept (comm/world/kept.h) becomes areas that this machine can read: each has those of its
 * own ranks and copies of some others', and what it lacks comes from a machine that has it (collect.c). */
#pragma once

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

typedef struct tri_collected {
    int64_t step;            /* that all areas have; -1: there is none */
    int n;                   /* ranks of that world */
    tri_memory_area *areas;  /* [n] */
} tri_collected;

/* Every rank of the world calls it. The newest earlier world whose state is complete, all machines together, and not
 * older than the last checkpoint; memory of others is let go. Areas that came from elsewhere are in the heap of the
 * machine's first rank, and stay there. */
tri_status tri__collect(tri_world *world, tri_collected *out);
void tri__collected_free(tri_collected *collected);
