/* handover.h - what stages of different ranks hand to each other: which values, in which order, and when each side has
 * to do with them. */
#ifndef TRI_PLAN_PIPELINE_HANDOVER_H
#define TRI_PLAN_PIPELINE_HANDOVER_H

#include "plan/pipeline/stage.h"

/* A value that a stage hands to a stage of another rank, each microbatch anew. */
typedef struct tri_edge {
    int slot;        /* of the template */
    int from, to;    /* stages */
    int back;        /* 1: a gradient, of backward actions */
    int after; /* the template's instruction that completes it; -1: it is not this stage's own, but handed on when an
                  action begins */
} tri_edge;

/* One edge of one microbatch. */
typedef struct tri_message_plan {
    int edge, mb;
    int from, to;      /* places on the pp axis */
    int made, used;    /* the sender's action that makes it, the receiver's action that needs it */
    int post;          /* the receiver's action before which the receive is posted */
    int known;         /* the sender's first action whose own receives tell that this one has arrived; -1: none does */
} tri_message_plan;

typedef struct tri_handovers {
    const tri_edge *edge;      /* in the order in which an action sends */
    int n_edges;
    tri_message_plan *out, *in;    /* of one rank: as it sends them; by `post`, those of one sender in its order */
    int n_out, n_in;
} tri_handovers;

/* What the template's stages read of one another. stage_of: [n_instrs] of each instruction; -1: every stage that needs
 * it computes it. Instructions after `loss` are backward. */
void tri__edges_find(tri_arena *arena, const tri_stages *stages, const tri_program *program, const int *stage_of,
                     int loss, tri_handovers *out);
/* The messages of the pipeline's rank `place`. orders: [n_ranks]. TRI_INTERNAL when the orders deadlock. */
tri_status tri__messages_make(tri_arena *arena, const tri_pipeline *pipeline, const tri_actions *orders, int place,
                              tri_handovers *all);

#endif
