/* shm.h - the shm transport's interface to the other folders. */
#ifndef TRI_COMM_SHM_SHM_H
#define TRI_COMM_SHM_SHM_H

#include "comm/world/world.h"

extern const tri_transport tri__transport_shm;

#endif
