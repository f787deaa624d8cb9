/* watcher.h - a thread that watches the other ranks of this machine if our supervisor does not (ranks of torchrun or
 * MPI): a rank's death or hang becomes the failure of all. */
#pragma once

#include "comm/world/world.h"

/* Watches the world's machine until closed, and becomes world->watcher. `log` is told, by the watcher's thread, of a
 * file call of this rank that takes long; NULL: none. TRI_RESOURCE when a thread or descriptor cannot be created. */
tri_status tri__watcher_open(tri_world *world, const tri_log *log);
void tri__watcher_close(struct tri_watcher *watcher); /* accepts NULL */
