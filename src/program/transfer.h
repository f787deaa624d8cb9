/* transfer.h - facts about the instructions that move data between ranks. */
#pragma once

#include "layout/shard.h"
#include "program/program.h"

/* A post's two ends: the slots it writes and reads; -1: none. In place: only y. A wait names the same two. */
typedef struct tri_ends {
    int y, x; /* slots */
} tri_ends;

int tri__is_post(tri_op op);
/* Whether an operation is a post (of a transfer, or of a copy between memories), which owns its slots until the wait
 * that names them; and whether it is such a wait. */
int tri__begins(tri_op op);
int tri__ends(tri_op op);
tri_collective_kind tri__post_kind(tri_op op);
/* Whether the hosts perform a transfer even where devices perform the others. */
int tri__on_host(tri_op op);
tri_ends tri__transfer_ends(const tri_instr *instr);
/* The wait of the post `post`, and the post of a wait, which runs in the same kinds of steps; -1: none. */
int tri__transfer_wait_of(const tri_program *program, int post);
int tri__transfer_post_of(const tri_program *program, int wait);
/* The slot that holds all members' data: y of a gather and of an all-to-all, x of a scatter, the only slot of the
 * others. */
int tri__transfer_whole(const tri_instr *instr);

/* Size of the group: the places along attr.axes that attr.within or attr.across leave. 0 when the attributes do not
 * name a group. */
int tri__transfer_size(const tri_mesh *mesh, const tri_attr *attr);
int tri__transfer_place(const tri_mesh *mesh, int rank, const tri_attr *attr);
/* The group's ranks in order, into ranks [tri__transfer_size]; returns how many. */
int tri__transfer_members(const tri_mesh *mesh, int rank, const tri_attr *attr, int *ranks);

/* Memory classes that transfers touch, a bit each: peers access them directly, so they are in shared memory. Except
 * classes in offload memory and the hosts' small records, for which transfers copy. */
unsigned tri__program_shared(const tri_program *program);
/* Bytes that a rank sends by a post, as the best algorithms send them, when the row counts are `counts`. */
double tri__transfer_sent(const tri_program *program, const tri_instr *post, const tri_counts *counts);
/* Bytes that a rank sends in a step of one kind by each kind of collective, as the best algorithms send them;
 * [TRI_COLLECTIVE_COUNT]. Where steps leave layers out: in the mean of these steps. */
void tri__kind_sent(const tri_program *program, uint32_t kind, double *bytes);
/* The same of the mean step. */
void tri__program_sent(const tri_program *program, double *bytes);
