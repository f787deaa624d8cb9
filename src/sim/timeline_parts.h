/* timeline_parts.h - the state of the event simulation, for its files. */
#pragma once

#include "program/meet.h"
#include "sim/task_heap.h"
#include "sim/timeline.h"

/* A transfer that was posted and not yet waited for. */
typedef struct tri_open_post {
    tri_ends ends;
    int meeting, line;
    /* of members that each compute their own result; of a far transfer: when it came into a wait; < 0: not yet */
    double begin, end;
    struct tri_open_post *next;  /* the one posted after it */
} tri_open_post;

typedef enum tri_lane_state {
    TRI_LANE_HELD,     /* by the other lane, or at its begin */
    TRI_LANE_DELAYED,  /* its next instruction has no inputs yet, or the host has not queued it */
    TRI_LANE_RUNS,     /* a kernel, or a copy that takes the rank's own time */
    TRI_LANE_TAILS,    /* the kernel has left the device, its least time is not over */
    TRI_LANE_WAITS,    /* for a transfer */
    TRI_LANE_ENDED
} tri_lane_state;

/* A lane of a rank that stands for its role. Its task is number TRI_LANES * role + lane. */
typedef struct tri_sim_lane {
    tri_lane_state state;
    int at;                      /* the next instruction, or the one that runs */
    double since;                /* when it reached that instruction */
    int released;                /* 1: it was delayed for that instruction, which can begin now */
    double until;                /* of a kernel: its least end */
    tri_open_post *awaits;       /* of a lane that waits */
} tri_sim_lane;

typedef struct tri_sim_rank {
    tri_rank_timeline *out;
    tri_costs costs;             /* with its replica's row counts */
    const double *seconds;       /* [n_instrs] */
    double *ready;               /* [n_slots] when an input from the host has arrived */
    tri_sim_lane lane[TRI_LANES];
    int lanes;
    int *begun;                  /* [n_instrs] of a wait: its post, else -1; with several lanes */
    double *late;                /* [n_instrs] of a wait: its seconds before its data moves; with several lanes */
    int *meeting;                /* [n_instrs] of a post that is counted: its transfer */
    int counted;                 /* instructions whose posts are counted: members count them in program order */
    double queue;                /* seconds of its host for each instruction; 0: they are all queued before */
    double copy_free[3];         /* when its copy queues, to the device, back, and of replicated state, are free */
    int sending, receiving;      /* transfers on its link in each direction: 0 or 1 */
    tri_open_post *open, **last; /* in posting order */
    int node;                    /* index of its node; -1: it shares no cores and no links */
    int on_node;                 /* ranks of its role on that node */
    int inside;                  /* 1: it is counted as being inside a wait, where ranks move bytes themselves */
    tri_open_post *helps;        /* the transfer it moves bytes of while it waits; NULL */
    double helps_since;
    double covered;              /* seconds of this wait in which it moved bytes of others before its own moved */
} tri_sim_rank;

/* A node's link that a transfer uses, by several groups at once that the transfer stands for. */
typedef struct tri_crossing {
    int node, out;               /* 1: out of the node, 0: into it */
    double bytes;                /* a second, while the transfer has the link alone */
} tri_crossing;

/* A transfer; its task is number TRI_LANES * roles + its meeting. */
typedef struct tri_sim_transfer {
    tri_collective_kind kind;
    tri_transfer_way way;
    double length;               /* seconds, all members waiting and nothing else under way */
    double work;                 /* where members move bytes themselves: of all of them, or of each */
    double begin, end;           /* < 0: not yet */
    int missing;                 /* roles of its members that have not posted it */
    int is_candidate, is_dirty;  /* in a list of the simulation */
    int inside;                  /* TRI_WAY_FAR: roles of its members that have been inside a wait */
    int runs;                    /* it has its share of the nodes' links */
    int n_crossings;
    tri_crossing *crossing;
} tri_sim_transfer;

/* Ranks of a machine: they share its cores and its links to other nodes. Nodes whose ranks have the same roles are one.
 */
typedef struct tri_sim_node {
    int *role, n_roles;          /* of its ranks, each once */
    double rate;                 /* of ranks that use a core; at most 1 */
    double load[2];              /* bytes a second that transfers ask for: into it, out of it */
    int *transfer;               /* those that run over its links */
    int n_transfers, cap_transfers;
    int is_dirty;
} tri_sim_node;

typedef struct tri_simulation {
    tri_arena *arena;
    const tri_hardware *hardware;
    tri_meetings meetings;
    tri_tasks tasks;
    tri_sim_transfer *transfer;  /* [meetings.n] */
    int n_transfers, cap_transfers;
    tri_sim_rank *rank;          /* [roles] */
    tri_sim_node *node;
    int n_nodes, cap_nodes;
    int threads;                 /* of a rank that computes */
    int helpers;                 /* 1: ranks have helper threads (comm/shm/helper.h), which do shared work */
    int shares_cores, shares_links;
    int *candidate, n_candidates, cap_candidates; /* transfers that may begin now */
    int *dirty, n_dirty, cap_dirty;               /* transfers whose rate may have changed */
    int *changed, n_changed, cap_changed;         /* nodes whose ranks use other cores or links than before */
} tri_simulation;

/* timeline.c: tri__timeline of programs whose steps are all the same. */
tri_status tri__timeline_one(tri_arena *arena, const tri_classes *ranks, const tri_costs *costs, tri_timeline *out);
/* A role's lanes go on until each is busy or blocked. */
void tri__sim_advance(tri_simulation *s, int role);
/* The tasks of a role's lanes get the rates that its device and node give them. */
void tri__sim_lane_rates(tri_simulation *s, int role);

/* timeline_transfer.c: */
void tri__sim_post(tri_simulation *s, int role, int lane);
/* Completes the wait that the lane is at; or leaves it waiting and returns 0. */
int tri__sim_wait(tri_simulation *s, int role, int lane);
/* A rank in a wait chooses what to move; one that went on moves nothing. */
void tri__sim_help(tri_simulation *s, int role);
/* The rank has moved, alone, what it helps with. */
void tri__sim_moved(tri_simulation *s, int role);
void tri__sim_transfer_ended(tri_simulation *s, int meeting);
void tri__sim_begin_candidates(tri_simulation *s);

/* timeline_share.c: nodes, and what their ranks share. */
void tri__sim_nodes_open(tri_simulation *s);
void tri__sim_cores_changed(tri_simulation *s, int role);
void tri__sim_transfer_changed(tri_simulation *s, int meeting);
/* Fills in the links between nodes that a transfer uses; wide: as tri__cards_open. */
void tri__sim_crossings(tri_simulation *s, tri_sim_transfer *transfer, const tri_meeting *meeting, double bytes,
                        double wide);
/* A transfer takes or leaves its share of the links between nodes. */
void tri__sim_cross(tri_simulation *s, int meeting, int runs);
/* The rates that follow from what has changed since the last call; time has not moved. */
void tri__sim_share(tri_simulation *s);
static inline double tri__sim_rate(const tri_simulation *s, const tri_sim_rank *rank) {
    return rank->node < 0 ? 1 : s->node[rank->node].rate;
}
static inline int tri__sim_task(const tri_simulation *s, int meeting) {
    return TRI_LANES * s->meetings.roles->n + meeting;
}
