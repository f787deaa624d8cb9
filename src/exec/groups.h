/* groups.h - the groups of ranks that programs name; where devices carry transfers themselves, those of the devices,
 * too. */
#ifndef TRI_EXEC_GROUPS_H
#define TRI_EXEC_GROUPS_H

#include "comm/world/control.h"
#include "device/device.h"
#include "program/transfer.h"

typedef struct tri_named_group {
    tri_attr attr;        /* axes, within, across; the rest is 0 */
    tri_group *group;
    int collects;         /* 1: programs have more than sends and receives on it */
    unsigned char *used;  /* [2 size] whether this rank sends to each member; then, whether it receives from it */
    void *far;            /* the devices' own, for what all members do; NULL: they have none */
    void **pair;          /* [2 size] the same for this rank's sends to each member, and its receives from it */
} tri_named_group;

/* Groups that were made, in the order of their attributes: the same on every rank. */
typedef struct tri_group_table {
    tri_named_group *entry;
    int n;
    const tri_peers *peers;   /* carries transfers between asynchronous devices; NULL: the transport does */
    void *context;            /* of that device */
    tri_world *world;
    tri_wait_poll poll;    /* of the devices' groups; its argument is the table, which stays where it is */
    tri_idle idle;            /* of what the device waits for now */
    int waits;                /* 1: it does */
} tri_group_table;

/* Makes every group that the programs name. out->peers, context and world are set already. TRI_INTERNAL when the world
 * is not the programs' mesh. Where devices make groups of their own, this waits for the members, as long as the
 * progress timeout lets it. */
tri_status tri__groups_make(const tri_program *const *programs, int n, tri_group_table *out);
/* abort 1: after a failure, when transfers may be under way that will never end. */
void tri__groups_free(tri_group_table *table, int abort);
tri_named_group *tri__group_find(const tri_group_table *table, const tri_attr *attr);

/* How many of the transfers queued on devices have not been compared with the others' yet (tri__announce). Fails when
 * any rank does, when two ranks asked for different transfers, or when the devices' own way failed; then groups are to
 * be freed with abort. */
tri_status tri__groups_check(tri_group_table *table, int *left);
/* Around calls of the device that may ask for poll. */
void tri__groups_wait(tri_group_table *table, int begins);

#endif
