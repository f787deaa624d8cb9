/* timeline.h - a step of all ranks' programs, timed: an event simulation with a compute, a communication and a copy
 * queue for each rank.
 *
 * Computing goes in the order of the program, lane by lane; two lanes share the device (sim/device_time.h). What the
 * host brings in is copied beside it, and is waited for by its first reader. A transfer begins when all members posted
 * it and no earlier one holds a member's link in that direction; a wait blocks until it ended, and nothing is buffered.
 * Where hardware does not overlap, members move the data themselves: then it begins only when all of them wait (the
 * receiver alone, where one rank sends to another), and copies from the host take the time of the rank. */
#ifndef TRI_SIM_TIMELINE_H
#define TRI_SIM_TIMELINE_H

#include "program/roles.h"
#include "sim/cost.h"

/* Of ranks that behave alike: they are timed once. */
typedef struct tri_rank_timeline {
    const tri_program *program; /* of the first of them, but for what shifts in its class */
    double *begin,
        *end; /* [n_instrs] seconds. Of a post: when data moves; of a wait: when the rank comes to it and goes on */
    double finish;         /* of its last instruction */
    double busy;           /* computing, in any lane */
    double exposed;        /* in waits, of all lanes, while what is waited for moves */
    double idle;           /* in waits, before that: others are late, or links are in use */
    double moving;         /* of its transfers, from their begins to their ends */
} tri_rank_timeline;

typedef struct tri_timeline {
    double seconds;        /* of the step: until the last rank ended */
    tri_rank_timeline *role; /* [roles.n] */
    tri_roles roles;
    int world;
} tri_timeline;

/* ranks: planned, or checked. Ranks that machines tell apart, by which members of their groups are near, have different
 * roles here. TRI_INTERNAL where the programs deadlock, which those that passed the checker do not: whether a rank goes
 * on depends on posts and waits alone, there as here. The planner also compares programs that nobody checked. */
tri_status tri__timeline(tri_arena *arena, const tri_classes *ranks, const tri_costs *costs, tri_timeline *out);
const tri_rank_timeline *tri__timeline_of(const tri_timeline *timeline, int rank);
/* The predicted bubble: the share of all ranks' time in which nothing is computed. */
double tri__timeline_idle(const tri_timeline *timeline);

/* What one rank does from `begin` to `end`: a run of instructions of one kind and one microbatch. */
typedef struct tri_leg {
    double begin, end;
    char kind; /* F forward, B backward (gradients of inputs, or of both), W gradients of weights, U update */
    int mb;                /* -1: of the whole step */
} tri_leg;
/* A rank's computing as legs, in order; returns how many. Operations that are computed again belong to the backward. */
int tri__timeline_legs(tri_arena *arena, const tri_rank_timeline *rank, tri_leg **legs);
/* When data of its transfers moves, in order; those that overlap are one. Returns how many; kind and mb are not set. */
int tri__timeline_transfers(tri_arena *arena, const tri_rank_timeline *rank, tri_leg **spans);

#endif
