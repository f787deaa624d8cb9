/* request.h - operations that are only announced, and the end of a world's operations. */
#ifndef TRI_COMM_OPS_REQUEST_H
#define TRI_COMM_OPS_REQUEST_H

#include "comm/world/world.h"

/* Has the members of a group compare what they ask for, as tri_post does before data moves, while the data goes another
 * way: `in` and `out` are not looked at. Nothing is waited for: announcements move on with every later call of either,
 * and in the world's waits. TRI_DISAGREE, for all ranks and with both descriptions, as soon as two differ. */
tri_status tri__announce(tri_group *group, const tri_collective *what);
/* How many this rank announced that others have not answered yet. Any rank's failure, as from a wait. */
tri_status tri__announced(tri_world *world, int *left);

/* Before a world is closed. Operations still under way are a failure, as peers would touch buffers that may be gone;
 * announcements are not. */
void tri__requests_close(tri_world *world);

#endif
