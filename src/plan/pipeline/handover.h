/* handover.h - what stages of different ranks hand to each other: which values, in which order, and when each side
 * posts and waits. */
#pragma once

#include "plan/pipeline/stage.h"

/* A value that a stage sends to a stage of another rank, once a microbatch. */
typedef struct tri_edge {
    int slot;        /* of the template */
    int from, to;    /* stages */
    int back;        /* 1: a gradient, of backward actions */
    /* the template's instruction that completes it; -1: computed by an earlier stage, and forwarded when an action
     * begins */
    int after;
} tri_edge;

/* One edge of one microbatch. */
typedef struct tri_message_plan {
    int edge, mb;
    int from, to;      /* places on the pp axis */
    int made, used;    /* the sender's action that computes it, the receiver's action that needs it */
    int post;          /* the receiver's action before which the receive is posted */
    int known;         /* the sender's first action whose receives imply that it has arrived; -1: none */
} tri_message_plan;

typedef struct tri_handovers {
    const tri_edge *edge;      /* in the order in which an action sends */
    int n_edges;
    /* of one rank: out in sending order; in by `post`, those of one sender in its order */
    tri_message_plan *out, *in;
    int n_out, n_in;
} tri_handovers;

/* The values that the template's stages read from one another. stage_of: [n_instrs] of each instruction; -1: computed
 * by every stage that needs it. Instructions after `loss` are backward. */
void tri__edges_find(tri_arena *arena, const tri_stages *stages, const tri_program *program, const int *stage_of,
                     int loss, tri_handovers *out);
/* The messages of the pipeline's rank `place`. orders: [n_ranks]. TRI_INTERNAL when the orders deadlock. */
tri_status tri__messages_make(tri_arena *arena, const tri_pipeline *pipeline, const tri_actions *orders, int place,
                              tri_handovers *all);
