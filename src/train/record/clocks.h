/* clocks.h - machines' clocks compared with rank 0's. Ranks of one machine share a clock. */
#ifndef TRI_TRAIN_RECORD_CLOCKS_H
#define TRI_TRAIN_RECORD_CLOCKS_H

#include "comm/world/world.h"

/* Seconds to add to this rank's tri__clock for rank 0's, wrong by at most `uncertainty`. 0 and 0 on rank 0's
 * machine. */
typedef struct tri_clock_offset {
    double offset, uncertainty;
} tri_clock_offset;

/* Every rank of the world calls it. One rank of each machine exchanges messages with rank 0, one machine after the
 * other, and takes the exchange with the shortest round trip. *zero: one instant, the same for all ranks, on this
 * rank's tri__clock. world NULL: one rank. */
tri_status tri__clocks_compare(tri_world *world, tri_clock_offset *out, double *zero);

#endif
