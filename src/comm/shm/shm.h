/* shm.h - the shm transport's interface to the other folders. */
#pragma once

#include "comm/world/world.h"

extern const tri_transport tri__transport_shm;
