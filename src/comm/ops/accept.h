/* accept.h - validation of a user's operation. */
#pragma once

#include "comm/world/world.h"

/* Fills in a record that is zeroed except for `bare`: descriptor (without its sequence), buffers (none if bare),
 * counts. TRI_USAGE with a message for an invalid operation; there is nothing to undo then. */
tri_status tri__accept(tri_group *group, const tri_collective *what, tri_pending *pending);
