/* transfer.h - the transfers of programs, bound to groups of a world. */
#ifndef TRI_EXEC_TRANSFER_H
#define TRI_EXEC_TRANSFER_H

#include "exec/groups.h"

/* A post and its wait. */
typedef struct tri_bound_transfer {
    tri_group_table *table;
    tri_group *group;
    void *far;                /* the devices' own group; NULL: they have none */
    int root;                 /* what.root as the devices' group counts its members */
    int number;               /* of this transfer among all; for the device */
    tri_collective what;      /* but for `count`, which follows the microbatch's rows */
    const tri_slot *sized;    /* gives the count: what moves, or of shares of counted rows one */
    tri_request request;      /* of the one under way; 0 */
} tri_bound_transfer;

/* Binds instruction `post`, the number-th of all; y and x are the slots' memory, or NULL. counts [group size] and the
 * table belong to the caller, and stay. */
void tri__transfer_bind(tri_group_table *table, const tri_program *program, const tri_instr *post, void *y, void *x,
                        int64_t *counts, int number, tri_bound_transfer *out);
/* Between devices: the members compare what they ask for while it is under way, so that two who differ are told so
 * instead of waiting for ever. Neither call waits for the device. */
tri_status tri__transfer_post(tri_bound_transfer *transfer, const tri_counts *rows);
tri_status tri__transfer_wait(tri_world *world, tri_bound_transfer *transfer);

#endif
