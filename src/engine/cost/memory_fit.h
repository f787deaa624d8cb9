/* memory_fit.h - whether planned ranks fit into memory, and which layout would. */
#pragma once

#include "engine/engine.h"

/* Bytes of memory that a rank with these programs needs, also by class: they share each class, and classes in offload
 * memory do not count, nor does replicated state. */
int64_t tri__room_need(const tri_program *const *programs, int n, int64_t bytes[static TRI_MEM_COUNT]);
int64_t tri__room_rank(const tri_programs *all, int rank, int64_t bytes[static TRI_MEM_COUNT]);
/* Which ranks share memory: a machine has `here` consecutive ranks, assigned to its `memories` round-robin. */
typedef struct tri_room_shares {
    int here, memories;
} tri_room_shares;
/* Bytes needed of the memory that needs most. */
int64_t tri__room_most(const tri_programs *all, tri_room_shares by);
/* Bytes of weights and optimizer state, as a checkpoint has them: each element once. */
int64_t tri__state_bytes(const tri_engine *engine);
/* Bytes of state that all ranks together keep in shared memory with --replicate-state: two copies of weights and
 * optimizer state, and where there are several machines two more. Not of the texts beside them. `sent`: bytes that
 * they send to other machines for that, in each step. */
int64_t tri__kept_bytes(const tri_settings *settings, const tri_programs *all);
int64_t tri__kept_sent(const tri_settings *settings, const tri_programs *all);
/* What ranks need of one memory, and what there is. */
typedef struct tri_room {
    int64_t most;          /* bytes of the rank that needs most */
    int64_t need, have;    /* bytes of the memory that needs most, for all of its ranks */
    int ranks;             /* of a machine that share one memory */
    int limited;           /* 1: `have` is --memory-limit */
} tri_room;
/* Compares what `here` ranks of a machine need together (on the machine that needs most) with the limit, or else with
 * this machine's free memory. TRI_RESOURCE with the figures and the first that fits of: more sharding, then full
 * recomputation, then the optimizer's state in offload memory; of a prediction: sharded weights, then weights in
 * offload memory. room: what was compared; NULL */
tri_status tri__room_check(const tri_settings *settings, const tri_engine *engine, const tri_programs *all, int here,
                           tri_room *room);
