/* request.h - operations that are only announced, progress outside waits, and the end of a world's operations. */
#pragma once

#include "comm/world/world.h"

/* Lets the members of a group compare an operation, as tri_post does before data moves, while its data moves by other
 * means: `in` and `out` are not used. Does not wait: announcements progress with every later call of either function,
 * and in the world's waits. TRI_DISAGREE, for all ranks and with both descriptions, as soon as two differ. */
tri_status tri__announce(tri_group *group, const tri_collective *what);
/* *left: the number of this rank's announcements that other members have not matched yet. Returns any rank's failure,
 * as a wait does. */
tri_status tri__announced(tri_world *world, int *left);

/* Between two instructions of a computing rank: beats, and now and then moves its operations with other machines on, so
 * that they travel while it computes. Operations within a machine get on in waits alone. A failure is returned by the
 * next call that can return one. */
void tri__requests_progress(tri_world *world);

/* Called before a world is closed. Operations still in flight are a failure, as peers would access buffers that may
 * have been freed; announcements are not. */
void tri__requests_close(tri_world *world);
