/* rank_waits.h - a rank that pauses, and one that waits until a peer fails. */
#ifndef TESTS_RANK_WAITS_H
#define TESTS_RANK_WAITS_H

#include "comm/world/world.h"

#include <time.h>

static inline void pause_seconds(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

/* Until any rank fails; returns that. */
static inline tri_status wait_for_failure(tri_world *world) {
    tri_idle idle = {0};
    tri_status status;
    tri__world_waits(world, 1);
    while ((status = tri__world_check(world)) == TRI_OK) tri__idle(world->segment.control, world->local, &idle);
    tri__world_waits(world, 0);
    return status;
}

#endif
