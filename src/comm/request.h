/* request.h - the end of a world's operations. */
#ifndef TRI_COMM_REQUEST_H
#define TRI_COMM_REQUEST_H

#include "comm/world.h"

/* Before a world is closed. Operations still under way are a failure: peers would touch buffers that may be gone. */
void tri__requests_close(tri_world *world);

#endif
