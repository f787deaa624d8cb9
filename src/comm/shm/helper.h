/* helper.h - a second thread of a rank, which does tasks of large collectives that the rank has posted: while the rank
 * computes, if a core is free for it; otherwise only while the rank waits, when the cores of its other threads are
 * idle. Which thread does a task does not change its result. */
#ifndef TRI_COMM_SHM_HELPER_H
#define TRI_COMM_SHM_HELPER_H

#include "comm/world/world.h"

/* Becomes world->helper. always: also while the rank computes. TRI_RESOURCE without memory or a thread for it. */
tri_status tri__helper_open(tri_world *world, int always);
void tri__helper_close(struct tri_helper *helper);
/* For a rank of as many computing threads: opens the helper that its share of the machine's cores allows, if any. */
tri_status tri__helper_open_for(tri_world *world, int threads);

/* The following accept NULL. An announced large operation: the helper may do its tasks, until it is taken back, after
 * which the helper no longer touches its cells or buffers. */
void tri__helper_give(struct tri_helper *helper, const tri_pending *p);
void tri__helper_take(struct tri_helper *helper, const tri_group *group, uint64_t sequence);
/* Around every wait of the rank: 1 when it begins, 0 when it ends. */
void tri__helper_waits(struct tri_helper *helper, int waiting);

#endif
