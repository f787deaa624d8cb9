/* world.h - one rank's view of its job: its rank, its machine's shared memory, its groups and its operations in
 * flight. */
#pragma once

#include "comm/world/heap.h"
#include "comm/world/segment.h"
#include "comm/world/transport.h"

enum { TRI_HOST_NAME = 65 };

/* Machines of the job, the same on every rank. */
typedef struct tri_nodes {
    int *node_of;      /* [world] machine of each world rank */
    int *local_of;     /* [world] its index on that machine */
    int n;             /* machines */
    char (*host)[TRI_HOST_NAME]; /* [n] their names, for messages; NULL: one machine, or unknown */
} tri_nodes;

struct tri_world {
    int rank, size;          /* in the world */
    int local;               /* index on this machine, into control->line */
    tri_segment segment;
    int owns_segment;        /* 1: closing the world unmaps it. Ranks of tri_ranks_run share what the runner mapped */
    int kept;                /* 1: the struct outlives tri_world_close; tri_ranks_run frees it */
    tri_heap heap;
    tri_nodes nodes;
    tri_group *all;          /* tri_group_world */
    tri_group **group;       /* every group made, in order; closing the world closes and frees them (see tri_group) */
    int n_groups;
    struct tri_pending *pending;  /* operations in flight, in posting order; request.c */
    int n_pending;
    size_t room_groups, room_pending; /* of the two lists */
    void *spare; /* list of unused blocks, each beginning with the address of the next; NULL: none */
    uint64_t posted;         /* operations posted so far */
    const tri_carriers *carriers;
    const struct tri_remote *remote; /* carries traffic between machines; NULL: the launcher cannot span machines */
    void *remote_state;
    struct tri_link *link;           /* this rank's use of remote; NULL: none */
    int outlives;            /* 1: after a failure that a rank's death caused, remote is the next world's */
    struct tri_calls *calls;         /* the board on which this rank announces file calls; NULL: none */
    struct tri_watcher *watcher;     /* thread that watches local peers if no supervisor does; NULL */
    struct tri_helper *helper;       /* thread that does tasks of collectives (comm/shm/helper.h); NULL */
    int threads;                     /* threads that do such tasks in a wait; 0: 1 */
    double progressed;       /* tri__clock() when operations were last moved on outside a wait */
    double wait_seconds;     /* in waits so far */
    double idle_seconds;     /* of these, without work */
    tri_status failed;       /* this rank's status of the first failure; TRI_OK */
    int regroups;            /* 1: all ranks agreed to leave it in order, and to go on in the next */
    double since;            /* tri__clock() when the world before failed or was left; 0: there was none */
    int generation;          /* worlds that the run had before this one (regroup.h) */
    /* Of a regrouped world: memory of earlier ones in which ranks kept their state (kept.h), the newest first; base
     * NULL: none. Only ranks that joined by MPI may have two: which of them is complete on all machines is found out by
     * held.h. Closed with the world, or before */
    tri_segment before[2];
};

/* The arrays and the group itself are allocated separately; tri_world_close calls transport->close and frees them. */
struct tri_group {
    tri_world *world;
    int n, me;               /* members; this rank's index */
    int *rank;               /* [n] world ranks */
    int *local;              /* [n] indices on this machine; -1: on another machine */
    int spans;               /* 1: has members on other machines */
    uint64_t id;             /* of rank list and instance: the same on every member */
    uint64_t sequence;       /* collectives posted on it by this rank */
    uint64_t *sent, *received; /* [n] sends to, receives from each member posted by this rank */
    const tri_transport *transport;
    void *state;             /* private to the transport */
};

/* This rank's line of the control page: no other rank writes to it but to wake it. */
static inline tri_rank_line *tri__own_line(const tri_world *world) {
    return &world->segment.control->line[world->local];
}

/* tri_ranks with its defaults filled in; TRI_USAGE for values out of range. */
tri_status tri__ranks_resolve(const tri_ranks *how, tri_ranks *out);
/* The memory of n ranks, all of a world on this machine; of `how` with its defaults filled in. */
tri_segment_spec tri__ranks_spec(const tri_ranks *how, int n, int flat);

/* A world over an existing segment: used by starting, joining and tests. nodes: NULL for one machine; copied. The
 * caller keeps ownership of the segment unless owns_segment is set afterwards. */
tri_status tri__world_open(const tri_segment *segment, int local, const tri_nodes *nodes,
                           const struct tri_remote *remote, void *remote_state, tri_world **out);
/* A world that this rank cannot go on in: its status becomes the failure of all, unless it is another rank's already,
 * and the world is closed. Returns whether it is another rank's. */
int tri__world_abandon(tri_world **world, tri_status status);
/* Closes the memory of earlier worlds. */
void tri__world_forget(tri_world *world);
/* tri_world_close that returns the failure, if another rank reported one before all had left; for MPI's ranks. */
tri_status tri__world_leave(tri_world *world);
/* Memory of an operation in flight, for a tri_message or the offsets of all members' shards (size + 1 int64_t), not
 * cleared; NULL when out of memory. Freed blocks are reused first: after the first step posting allocates nothing. */
void *tri__block_take(tri_world *world);
void tri__block_give(tri_world *world, void *block);
/* Records progress: beats, and sets phase and step. Cheap (relaxed stores; a poll of the link): the executor calls it
 * for each instruction. */
void tri__world_beat(tri_world *world);
void tri__world_doing(tri_world *world, tri_doing phase, int64_t step);
/* Around work on files in which the rank cannot answer other machines, as short as possible (1, then 0); loading is. */
void tri__world_files(tri_world *world, int begins);
/* Around every wait: 1 when it begins, 0 when it ends. Also beats. */
void tri__world_waits(tri_world *world, int waiting);
/* TRI_OK, or the first failure of all ranks with its message. Cheap: one load. */
tri_status tri__world_check(tri_world *world);
/* The name of a rank's machine; NULL: there is only one, or it is unknown. */
const char *tri__world_host(const tri_world *world, int rank);
/* Whether a rank of this machine has closed its world: waits for it must end. */
int tri__world_left(const tri_world *world, int local);
/* Before the first step: all ranks compare a digest of settings that must be equal; TRI_DISAGREE naming the odd
 * rank. */
tri_status tri__world_agree(tri_world *world, uint64_t digest, const char *what);
/* Waits until every rank of the machine joined, at most `seconds`: TRI_RESOURCE naming those missing; TRI_STOPPED when
 * a signal ended the wait. stop may be NULL. */
tri_status tri__world_meet(tri_world *world, double seconds, const tri_stop *stop);
