/* peers.h - transfers among ranks whose asynchronous devices reach each other: the devices carry them out themselves,
 * on queues beside those of kernels. */
#ifndef TRI_DEVICE_PEERS_H
#define TRI_DEVICE_PEERS_H

#include "base/status.h"

enum { TRI_GROUP_NAME = 128 }; /* bytes */

/* What a device asks repeatedly while it waits for other ranks: takes a short pause, and returns TRI_OK to go on, or
 * why to give up. */
typedef struct tri_wait_poll {
    tri_status (*ask)(void *argument);
    void *argument;
} tri_wait_poll;

/* A group's transfers are done one after another, those of several groups at the same time. */
typedef struct tri_peers {
    /* One member makes a group's name and tells the others; then all join at once; oneway 1: two of them, and only the
     * first will send, the second receive. What waits for other ranks asks `poll`, which outlives the group. */
    tri_status (*name)(void *context, char *name); /* [TRI_GROUP_NAME] */
    tri_status (*join)(void *context, const char *name, int n, int me, int oneway, const tri_wait_poll *poll,
                       void **group);
    /* Leaves all n groups that this rank is in; abort 1, after a failure: also ends transfers that can no longer end by
     * themselves. */
    void (*leave)(void *context, void *const *groups, int n, int abort);
    /* Queues a transfer: it begins when the kernels queued so far are done; kernels queued after the `wait` of the same
     * number begin when it is. Numbers are small, and used again only after their wait. */
    void (*post)(void *context, void *group, const tri_collective *what, int number);
    void (*wait)(void *context, int number);
    /* The fatal error of a group's transfers, if any. Never blocks. */
    tri_status (*check)(void *context, void *group);
} tri_peers;

#endif
