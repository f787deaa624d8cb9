/* transfer.h - the transfers of programs, bound to groups of a world. */
#pragma once

#include "exec/groups.h"

/* A post and its wait. */
typedef struct tri_bound_transfer {
    tri_group_table *table;
    tri_group *group;
    void *far;                /* the device group; NULL: none */
    int root;                 /* what.root as a rank of the device group */
    int number;               /* of this transfer among all; identifies it to the device */
    tri_collective what;      /* except `count`, which follows the microbatch's row counts */
    const tri_slot *sized;    /* gives the count: the slot that moves, or one share of it if its rows are counted */
    tri_request request;      /* of the transfer in flight; 0 */
} tri_bound_transfer;

/* Binds instruction `post`, the number-th of all; y and x are the slots' memory, or NULL. counts [group size] and the
 * table belong to the caller and outlive the transfer. */
void tri__transfer_bind(tri_group_table *table, const tri_program *program, const tri_instr *post, void *y, void *x,
                        int64_t *counts, int number, tri_bound_transfer *out);
/* Between devices: members compare their transfers while these are in flight, so that a mismatch is reported instead of
 * ending in a deadlock. Neither call waits for the device. */
tri_status tri__transfer_post(tri_bound_transfer *transfer, const tri_counts *rows);
tri_status tri__transfer_wait(tri_world *world, tri_bound_transfer *transfer);
