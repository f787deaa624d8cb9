/* shm.h - the shm transport's interface to the other folders. */
#ifndef TRI_COMM_SHM_SHM_H
#define TRI_COMM_SHM_SHM_H

#include "comm/world/world.h"

/* Whether peers can access this memory. */
int tri__shm_inside(const tri_segment *segment, const void *memory, size_t bytes);

#endif
