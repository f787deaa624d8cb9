/* group.h - making groups. */
#pragma once

#include "comm/world/world.h"

/* As tri_group_make, on a given transport. */
tri_status tri__group_make_on(tri_world *world, int n, const int *ranks, const tri_transport *transport,
                              tri_group **group);
/* Frees its memory; the caller has closed it on its transport, if it was opened. */
void tri__group_free(tri_group *group);
