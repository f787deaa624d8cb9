/* transfer.h - facts about the instructions that move data between ranks. */
#ifndef TRI_PROGRAM_TRANSFER_H
#define TRI_PROGRAM_TRANSFER_H

#include "layout/shard.h"
#include "program/program.h"

/* A post's two ends: what it writes and what it reads; -1 where there is none. In place, only y is there. A wait names
 * the same two. */
typedef struct tri_ends {
    int y, x; /* slots */
} tri_ends;

int tri__is_post(tri_op op);
/* Whether an operation begins what has its slots to itself until a wait names them: a transfer, or a copy between
 * memories; and whether it is such a wait. */
int tri__begins(tri_op op);
int tri__ends(tri_op op);
tri_collective_kind tri__post_kind(tri_op op);
/* Whether hosts carry a transfer out themselves, also where devices carry the others. */
int tri__on_host(tri_op op);
tri_ends tri__transfer_ends(const tri_instr *instr);
/* The wait that ends the transfer or copy which instruction `post` begins, and the other way round; -1 when there is
 * none. */
int tri__transfer_wait_of(const tri_program *program, int post);
int tri__transfer_post_of(const tri_program *program, int wait);
/* The slot that holds what all members together have: y of a gather, x of a scatter, the only one of the others. */
int tri__transfer_whole(const tri_instr *instr);

/* Places along attr.axes that one group has, of which attr.within or attr.across leaves some. 0 when the attributes
 * name no group. */
int tri__transfer_size(const tri_mesh *mesh, const tri_attr *attr);
int tri__transfer_place(const tri_mesh *mesh, int rank, const tri_attr *attr);
/* The group's ranks in order, into ranks [tri__transfer_size]; returns how many. */
int tri__transfer_members(const tri_mesh *mesh, int rank, const tri_attr *attr, int *ranks);

/* Classes of memory that transfers touch, a bit each: peers reach into them, so they lie in shared memory. Not those
 * that the plan moved to offload memory, nor the hosts' small records: there transfers copy. */
unsigned tri__program_shared(const tri_program *program);
/* Shared bytes that a rank with these programs takes. */
int64_t tri__programs_shared_bytes(const tri_program *const *programs, int n);
/* Bytes that a rank sends in a step by each kind of collective, as the best algorithms send them;
 * [TRI_COLLECTIVE_COUNT]. */
void tri__program_sent(const tri_program *program, double *bytes);

#endif
