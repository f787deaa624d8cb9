/* shard.h - common to the files of the shard pass: the program being rewritten, with transfers inserted.
 *
 * A block is sharded, gathered and scattered as a whole: a unit, or several consecutive ones. Its elements are those of
 * its units concatenated, and every rank that holds it owns one shard of them. A block that no other rank holds is not
 * sharded, whatever is asked for: its weights and gradients stay where they are, and nothing of it travels. */
#pragma once

#include "plan/pass.h"

typedef struct tri_shard_block {
    const char *name;      /* of its unit; of several: first-last */
    int first, n;          /* units */
    int64_t count;         /* elements */
    tri_sharers of;        /* the ranks that shard it */
    tri_range own;         /* this rank's shard */
} tri_shard_block;

/* The units' flat slots of one kind (weights or gradients) in the old program, with their views. */
typedef struct tri_flats {
    const int *slot;       /* [n_units] */
    int *unit;             /* [slots of the old program] the unit that a slot belongs to; -1 */
    int *member, *first;   /* slots of unit u: member[first[u]] .. member[first[u + 1] - 1] */
} tri_flats;

typedef struct tri_sharder {
    tri_pass *pass;
    const tri_program *from;
    tri_builder to;
    int *map;              /* [slots of from] the new slot that currently replaces it; -1: none yet */
    tri_flats weights, grads;
    tri_shard_block *block;
    int n_blocks, cap_blocks;
    int *block_of;         /* [n_units] */
    int64_t *unit_at;      /* [n_units] first element in the block */
    struct tri_gathers *gathers;       /* of weights; NULL: not sharded */
    struct tri_reductions *reductions; /* of gradients; NULL: none */
} tri_sharder;

/* From now on `slot` replaces a unit's flat slot, and views of it replace that slot's views. */
void tri__sharder_stand(tri_sharder *s, const tri_flats *flats, int unit, int slot);
/* The same for all units of a block, concatenated in `slot` [1, count of the block]. */
void tri__sharder_stand_block(tri_sharder *s, const tri_flats *flats, const tri_shard_block *block, int slot);
/* A slot of a block: [1, cols] f32. Then its name. */
#define TRI_SHARD_SLOT(s, block, mem, cols, ...) \
    ((s)->to.unit = tri__sharder_unit((s), (block)), TRI_BUILD_FLAT(&(s)->to, (mem), TRI_F32, (cols), __VA_ARGS__))
/* The view of one unit's elements in `slot`, which holds this rank's shard of a block. */
int tri__sharder_share(tri_sharder *s, const tri_shard_block *block, int unit, int slot);
/* Appends a post, or the wait for it. x = -1: in place. unit: of the program, or -1. */
void tri__sharder_post(tri_sharder *s, tri_op op, tri_attr group, tri_ends ends, int unit, int mb);
void tri__sharder_wait(tri_sharder *s, tri_ends ends, int unit, int mb);
/* the program's unit for instructions on a block */
int tri__sharder_unit(const tri_sharder *s, const tri_shard_block *block);

/* Whether steps leave a unit of the model out: its transfers are its own, so that they are left out with it. */
int tri__sharder_closes(const tri_sharder *s, int unit);

/* shard_weights.c: shards instead of weights, gathered before their use. `at` is an instruction of the old
 * program. */
void tri__gathers_plan(tri_sharder *s);
void tri__gathers_before(tri_sharder *s, int at);
/* shard_gradients.c: sums of gradients. */
void tri__reductions_plan(tri_sharder *s);
void tri__reductions_before(tri_sharder *s, int at);
unsigned tri__reductions_acc(tri_sharder *s, const tri_instr *instr); /* acc bits of a rewritten instruction */
void tri__reductions_after(tri_sharder *s, int at);
void tri__reductions_end(tri_sharder *s);
