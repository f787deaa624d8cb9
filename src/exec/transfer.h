/* transfer.h - the transfers of programs, bound to groups of a world. */
#ifndef TRI_EXEC_TRANSFER_H
#define TRI_EXEC_TRANSFER_H

#include "program/transfer.h"

/* A post and its wait. */
typedef struct tri_bound_transfer {
    tri_group *group;
    tri_collective what;      /* but for `count`, which follows the microbatch's rows */
    const tri_slot *sized;    /* gives the count: what moves, or of shares of counted rows one */
    tri_request request;      /* of the one under way; 0 */
} tri_bound_transfer;

/* Groups that were made, in the order of their attributes: the same on every rank. */
typedef struct tri_group_table {
    struct tri_group_entry {
        tri_attr attr;        /* axes, within, across; the rest is 0 */
        tri_group *group;
    } *entry;
    int n;
} tri_group_table;

/* Makes every group that the programs name. TRI_INTERNAL when the world is not the programs' mesh. */
tri_status tri__groups_make(tri_world *world, const tri_program *const *programs, int n, tri_group_table *out);
void tri__groups_free(tri_group_table *table);

/* Binds instruction `post`; y and x are the slots' memory, or NULL. counts [group size] belong to the caller, and stay. */
void tri__transfer_bind(const tri_group_table *table, const tri_program *program, const tri_instr *post, void *y, void *x, int64_t *counts,
                        tri_bound_transfer *out);
tri_status tri__transfer_post(tri_bound_transfer *transfer, const tri_counts *rows);
tri_status tri__transfer_wait(tri_world *world, tri_bound_transfer *transfer);

#endif
