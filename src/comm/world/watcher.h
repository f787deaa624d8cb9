/* watcher.h - a thread that watches the other ranks of this machine where no supervisor of ours does (ranks of
 * torchrun, of MPI): a death, or a rank that no longer moves, becomes the failure of all. */
#ifndef TRI_COMM_WORLD_WATCHER_H
#define TRI_COMM_WORLD_WATCHER_H

#include "comm/world/world.h"

/* Watches world's machine until closed, and becomes world->watcher. TRI_RESOURCE when a thread or descriptor is
 * missing. */
tri_status tri__watcher_open(tri_world *world);
void tri__watcher_close(struct tri_watcher *watcher); /* accepts NULL */

#endif
