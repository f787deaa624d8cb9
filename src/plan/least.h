/* least.h - what a rank's training step moves between replicas and holds at least, as the passes know it before
 * anything is planned: the lower bounds of `trident choose` (study/choose/bound.c).
 *
 * A pass that makes such transfers, or decides what is held, has a function in the column `least` of its row
 * (passes.def). They run in the order of the passes, each on what the ones before it said, as passes do on a
 * program. */
#pragma once

#include "plan/plan.h"

typedef enum tri_least_when {
    TRI_LEAST_LAST,  /* once the first gradients of the step are ready, before the update */
    TRI_LEAST_ANY,   /* at any time before it */
    TRI_LEAST_AFTER, /* after it */
    TRI_LEAST_WHENS
} tri_least_when;

/* Transfers that move so many elements in all, in pieces of any size. */
typedef struct tri_least_move {
    tri_collective_kind kind;
    tri_attr group;        /* axes, within, across: who takes part */
    double elements, each; /* each: bytes of one */
    double times;          /* in a step */
    tri_least_when when;
} tri_least_move;
enum { TRI_LEAST_MOVES = 8 };

struct tri_least {
    double elements;              /* given: trained weights of this rank's units */
    double kept;                  /* given: of these, what turning from one pass to the other need not gather again */
    double trained;               /* the part of the model's elements that is trained */
    tri_least_move move[TRI_LEAST_MOVES];
    int n;
    double bytes[TRI_MEM_COUNT];  /* held of one element of the model, in the mean; */
    double among[TRI_MEM_COUNT];  /* by so many replicas together. The optimizer updates as TRI_MEM_STATE is held */
};

/* elements and kept as tri__place_weighs found them; 0 where only memory is asked for. */
void tri__plan_least(const tri_plan_in *in, double elements, double kept, tri_least *out);
/* Trained elements of the ranks at a place of the pipeline, and those of `kept` above. */
void tri__place_weighs(const tri_plan_in *in, const tri_stages *stages, int place, double *elements, double *kept);

/* For passes. */
static inline void tri__least_add(tri_least *least, tri_least_move move) {
    TRI_ASSERT(least->n < TRI_LEAST_MOVES);
    least->move[least->n++] = move;
}
tri_least_pass tri__least_shard, tri__least_compress, tri__least_update, tri__least_precision,
    tri__least_offload;
