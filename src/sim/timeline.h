/* timeline.h - a step of all ranks' programs, timed: an event simulation with a compute, a communication and a copy
 * queue for each rank.
 *
 * Each lane computes in program order; two lanes share the device, and ranks of a node its cores, where they have more
 * threads than that. An instruction begins when the host has queued it, one after another, unless runs are replayed.
 * Inputs from the host are copied concurrently, and their first reader waits for them. A transfer begins when all
 * members have posted it and no earlier one holds a member's link in that direction; those between nodes share the
 * nodes' links; a wait blocks until its transfer has ended, and nothing is buffered. Where hardware does not overlap,
 * members move the data themselves, inside waits (sim/timeline_transfer.c), and copies from the host take the rank's
 * time. */
#pragma once

#include "program/roles.h"
#include "sim/cost.h"

/* The timeline of one role: ranks that behave alike are timed once. */
typedef struct tri_rank_timeline {
    const tri_program *program; /* of the first of them, except for shifts of its class */
    double *begin,
        *end; /* [n_instrs] seconds. Of a post: when data moves; of a wait: when the rank reaches it and continues */
    double finish;         /* end of its last instruction */
    double busy;           /* computing, in any lane */
    double exposed;        /* no lane computes, and the data that one waits for moves */
    /* no lane computes, and lanes wait for data that does not move yet: other ranks are late, or links are busy */
    double idle;
    double moving;         /* of its transfers, from begin to end */
} tri_rank_timeline;

/* Steps of one kind (TRI_GATES). */
typedef struct tri_kind_time {
    uint32_t kind;
    double share, seconds; /* share of all steps; seconds of one */
} tri_kind_time;

typedef struct tri_timeline {
    /* of the step: until the last rank ended. Where steps are of several kinds, this and all figures of ranks are those
     * of the most frequent one, `drawn` */
    double seconds;
    double mean;           /* of all kinds of steps; the same where there is one */
    /* where steps leave layers out, `seconds` and `mean` are those of the expected step; these of one with all layers
     * open, and with all closed. 0: no step does */
    double all_open, all_closed;
    uint32_t drawn;
    tri_kind_time kind[TRI_GATE_COUNT]; /* [n_kinds]; none where all steps are the same */
    int n_kinds;
    tri_rank_timeline *role; /* [roles.n] */
    tri_roles roles;
    int world;
} tri_timeline;

/* ranks: planned, or checked. Ranks whose groups differ in which members share a machine have different roles here.
 * TRI_INTERNAL where the programs deadlock, which programs that passed the checker do not: in both, progress depends
 * only on posts and waits. The planner also compares unchecked programs. */
tri_status tri__timeline(tri_arena *arena, const tri_classes *ranks, const tri_costs *costs, tri_timeline *out);
const tri_rank_timeline *tri__timeline_of(const tri_timeline *timeline, int rank);
/* The predicted bubble: the share of all ranks' time in which nothing is computed. */
double tri__timeline_idle(const tri_timeline *timeline);

/* What one rank does from `begin` to `end`: a run of instructions of one kind and one microbatch. */
typedef struct tri_leg {
    double begin, end;
    char kind; /* F forward, B backward (gradients of inputs, or of both), W gradients of weights, U update */
    int mb;                /* -1: the whole step */
} tri_leg;
/* A rank's computing as legs, in order; returns how many. Recomputed operations belong to the backward. */
int tri__timeline_legs(tri_arena *arena, const tri_rank_timeline *rank, tri_leg **legs);
tri_json *tri__legs_json(const tri_leg *legs, int n); /* [[kind, microbatch, begin, end], ...], a new reference */
/* When data of its transfers moves, in order; overlapping intervals are merged. Returns how many; kind and mb are not
 * set. */
int tri__timeline_transfers(tri_arena *arena, const tri_rank_timeline *rank, tri_leg **spans);
