/* peers.h - transfers among ranks whose asynchronous devices can access each other: the devices carry them out, on
 * queues separate from those of kernels. */
#pragma once

#include "base/base.h"

enum { TRI_GROUP_NAME = 128 }; /* bytes */

/* Called repeatedly while a device waits for other ranks: pauses briefly; returns TRI_OK to continue, or the error that
 * ends the wait. */
typedef struct tri_wait_poll {
    tri_status (*ask)(void *argument);
    void *argument;
} tri_wait_poll;

/* Transfers of one group run in order, those of different groups concurrently. */
typedef struct tri_peers {
    /* One member creates a group's name and sends it to the others; then all join together. oneway 1: a pair, in
     * which the first only sends and the second only receives. Waits for other ranks call `poll`, which outlives the
     * group. */
    tri_status (*name)(void *context, char *name); /* [TRI_GROUP_NAME] */
    tri_status (*join)(void *context, const char *name, int n, int me, int oneway, const tri_wait_poll *poll,
                       void **group);
    /* Leaves all n groups of this rank; abort 1, after a failure: also aborts transfers that can no longer complete. */
    void (*leave)(void *context, void *const *groups, int n, int abort);
    /* Queues a transfer, ordered after the kernels queued so far; kernels queued after the `wait` of the same number
     * are ordered after the transfer. Numbers are small, and reused only after their wait. */
    void (*post)(void *context, void *group, const tri_collective *what, int number);
    void (*wait)(void *context, int number);
    /* The fatal error of a group's transfers, if any. Never blocks. */
    tri_status (*check)(void *context, void *group);
} tri_peers;
