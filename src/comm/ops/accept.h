/* accept.h - whether an operation that a user asks for makes sense. */
#ifndef TRI_COMM_OPS_ACCEPT_H
#define TRI_COMM_OPS_ACCEPT_H

#include "comm/world/world.h"

/* Fills in a record that is zeroed but for `bare`: descriptor (but for its sequence), buffers (none of a bare one),
 * counts. TRI_USAGE in words for anything that is wrong with it; nothing is to be undone then. */
tri_status tri__accept(tri_group *group, const tri_collective *what, tri_pending *pending);

#endif
