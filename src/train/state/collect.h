/* collect.h - the state that ranks of an earlier world kept (comm/world/kept.h), as areas that this machine can read.
 * Where machines were several, each has the areas of its own ranks and copies of some others': what it lacks comes from
 * a machine that has it. */
#ifndef TRI_TRAIN_STATE_COLLECT_H
#define TRI_TRAIN_STATE_COLLECT_H

#include "checkpoint/memory.h"
#include "comm/world/world.h"

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

#endif
