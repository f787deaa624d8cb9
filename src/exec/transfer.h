/* transfer.h - the transfers of programs, bound to groups of a world. */
#ifndef TRI_EXEC_TRANSFER_H
#define TRI_EXEC_TRANSFER_H

#include "device/device.h"
#include "program/transfer.h"

/* A post and its wait. */
typedef struct tri_bound_transfer {
    const struct tri_group_table *table;
    tri_group *group;
    void *far;                /* the devices' own group; NULL: they have none */
    int number;               /* of this transfer among all; for the device */
    tri_collective what;      /* but for `count`, which follows the microbatch's rows */
    const tri_slot *sized;    /* gives the count: what moves, or of shares of counted rows one */
    tri_request request;      /* of the one under way; 0 */
} tri_bound_transfer;

/* Groups that were made, in the order of their attributes: the same on every rank. */
typedef struct tri_group_table {
    struct tri_group_entry {
        tri_attr attr;        /* axes, within, across; the rest is 0 */
        tri_group *group;
        void *far;
    } *entry;
    int n;
    const tri_apart *apart;   /* what carries transfers between devices apart from their hosts; NULL: the transport does */
    void *context;            /* of that device */
} tri_group_table;

/* Makes every group that the programs name. out->apart and context are set already. TRI_INTERNAL when the world is not the programs' mesh. */
tri_status tri__groups_make(tri_world *world, const tri_program *const *programs, int n, tri_group_table *out);
/* abort 1: after a failure, when transfers may be under way that will never end. */
void tri__groups_free(tri_group_table *table, int abort);

/* Binds instruction `post`, the number-th of all; y and x are the slots' memory, or NULL. counts [group size] and the table belong to the
 * caller, and stay. */
void tri__transfer_bind(const tri_group_table *table, const tri_program *program, const tri_instr *post, void *y, void *x, int64_t *counts,
                        int number, tri_bound_transfer *out);
tri_status tri__transfer_post(tri_bound_transfer *transfer, const tri_counts *rows);
tri_status tri__transfer_wait(tri_world *world, tri_bound_transfer *transfer);

#endif
