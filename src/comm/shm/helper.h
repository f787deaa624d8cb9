/* helper.h - which threads of a rank do tasks of its large collectives: while it waits, all that compute otherwise; and
 * while it computes, a helper thread, if the machine has a core for it. Which thread does a task does not change its
 * result. */
#pragma once

#include "comm/world/world.h"

/* For a rank that computes with as many threads: its share of the machine's cores decides. Later calls of a world
 * do nothing. TRI_RESOURCE as below. */
tri_status tri__helper_share(tri_world *world, int threads);
/* Becomes world->helper. TRI_RESOURCE without memory or a thread for it. */
tri_status tri__helper_open(tri_world *world);

/* The following accept NULL. */
void tri__helper_close(struct tri_helper *helper);
/* An announced large operation: the helper may do its tasks, until it is taken back, after which the helper no longer
 * touches its cells or buffers. */
void tri__helper_give(struct tri_helper *helper, const tri_pending *p);
void tri__helper_take(struct tri_helper *helper, const tri_group *group, uint64_t sequence);
