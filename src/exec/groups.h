/* groups.h - the groups of ranks that programs name, and their counterparts on devices that carry transfers
 * themselves. */
#pragma once

#include "comm/world/control_page.h"
#include "device/device.h"
#include "program/transfer.h"

typedef struct tri_named_group {
    tri_attr attr;        /* axes, within, across; the rest is 0 */
    tri_group *group;
    int collects;         /* 1: programs use it for more than sends and receives */
    unsigned char *used;  /* [2 size] 1: this rank sends to the member; then, 1: it receives from the member */
    void *far;            /* the device group for collectives; NULL: none */
    void **pair; /* [2 size] the device groups for this rank's sends to each member; then for its receives from it */
} tri_named_group;

/* Groups in the order of their attributes: the same on every rank. */
typedef struct tri_group_table {
    tri_named_group *entry;
    int n;
    const tri_peers *peers;   /* carries transfers between asynchronous devices; NULL: the transport does */
    void *context;            /* of that device */
    tri_world *world;
    tri_wait_poll poll;    /* of the device groups; its argument is the table, which must not move */
    tri_idle idle;            /* of the device's current wait */
    int waits;                /* 1: the device is waiting */
} tri_group_table;

/* Makes every group that the programs name. out->peers, context and world are set already. TRI_INTERNAL when the world
 * is not the programs' mesh. Device groups wait for all members, up to the progress timeout. */
tri_status tri__groups_make(const tri_program *const *programs, int n, tri_group_table *out);
/* abort 1: after a failure, when transfers in flight may never complete. */
void tri__groups_free(tri_group_table *table, int abort);
tri_named_group *tri__group_find(const tri_group_table *table, const tri_attr *attr);

/* *left: the number of transfers queued on devices that have not been compared with the peers' yet (tri__announce).
 * Fails when any rank does, when two ranks posted different transfers, or when the device group failed; then free the
 * groups with abort. */
tri_status tri__groups_check(tri_group_table *table, int *left);
/* Around device calls that may call poll. */
void tri__groups_wait(tri_group_table *table, int begins);
