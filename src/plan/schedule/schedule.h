/* schedule.h - the order in which the ranks of a pipeline compute: which rank runs which stage for which microbatch,
 * and when. Pure arithmetic over a graph of stages, independent of instructions. A schedule is a row
 * of schedules.def and a file. docs/extending/adding-a-schedule.md */
#pragma once

#include "base/arena.h"
#include "plan/choices.h"

/* Seconds (or any unit) of one microbatch on one stage. */
typedef struct tri_stage_time {
    double forward, input, weight;
} tri_stage_time;

/* Stages and the edges between them, numbered in topological order. */
typedef struct tri_pipeline {
    int n_ranks;            /* of one pipeline: pp */
    int n_stages, n_mb;
    const int *rank;        /* [n_stages] the rank that holds it: a place on the pp axis */
    const int (
        *feed)[2]; /* [n_feeds] stage feed[i][1] reads what feed[i][0] computes forward, and sends its gradient back */
    int n_feeds;
    const int *depth;       /* [n_stages] length of the longest path to the last stage; 0 for the last */
} tri_pipeline;

typedef enum tri_act {
    TRI_ACT_F,    /* forward */
    TRI_ACT_B,    /* gradients of inputs */
    TRI_ACT_W,    /* gradients of weights */
    TRI_ACT_BW    /* both, as one */
} tri_act;

typedef struct tri_action {
    tri_act act;
    int stage, mb;
} tri_action;

typedef struct tri_actions {
    tri_arena *arena;
    tri_action *at;
    int n, cap;
} tri_actions;

typedef struct tri_schedule_row {
    const char *name;       /* the word of --schedule */
    int chunks;             /* stages of a rank; 0: any number from `fewest` on, more than one only in a chain */
    int fewest;
    int chain;              /* 1: only for chains */
    int apart;              /* 1: gradients of weights are separate actions */
    int folds;              /* 1: a chain's stages go to the ranks up to the last one and back; 0: round-robin */
    void (*order)(const tri_pipeline *pipeline, int rank,
                  tri_actions *out); /* appends all that `rank` computes in a step */
} tri_schedule_row;

const tri_schedule_row *tri__schedule_row(tri_schedule_kind kind);
/* The rank that holds a chain's stage. */
int tri__schedule_rank(const tri_schedule_row *row, int stage, int n_ranks, int n_stages);
enum { TRI_SCHEDULE_NAMES = 128 };
/* "gpipe, 1f1b, zb-h1": the names of all, or of those that are not for chains only, into `out`, which is returned. */
const char *tri__schedule_names(int branches, char out[static TRI_SCHEDULE_NAMES]);
/* What each rank computes, [n_ranks]. */
const tri_actions *tri__schedule_orders(tri_arena *arena, const tri_schedule_row *row, const tri_pipeline *pipeline);

/* For the files of this folder. */
#define TRI_SCHEDULE(id, word, name, ...) \
    void tri__order_##name(const tri_pipeline *pipeline, int rank, tri_actions *out);
#include "plan/schedule/schedules.def"
static inline void tri__act(tri_actions *out, tri_act act, int stage, int mb) {
    *TRI_PUSH(out->arena, out->at, out->n, out->cap) = (tri_action){act, stage, mb};
}

/* Stages of a rank, in order; returns how many. stage: room for all, or NULL. */
int tri__rank_stages(const tri_pipeline *pipeline, int rank, int *stage);
int tri__rank_depth(const tri_pipeline *pipeline, int rank); /* of its last stage */
/* A rank with v stages takes microbatches in rounds of at least n_ranks (of all, where there are fewer): one round for
 * each stage in order; backwards begin with the last stage. After the forwards of v - 1 rounds and `warm` more,
 * forwards and backwards alternate while there are forwards; then the remaining backwards. Gradients of weights come
 * `late` backwards after those of inputs; late < 0: both are one action. */
void tri__alternate(const tri_pipeline *pipeline, int rank, int warm, int late, tri_actions *out);

/* The most microbatches whose activations a rank holds at once; each of its v stages counts 1/v, from its forward to
 * its gradients of weights. */
double tri__schedule_held(const tri_pipeline *pipeline, const tri_actions *orders, int rank);
/* The compute order in torchtitan's form: a line a rank, actions as 0F0, 0I0 (inputs), 0W0, 0B0 (both), with commas. In
 * the arena. */
const char *tri__schedule_csv(tri_arena *arena, const tri_pipeline *pipeline, const tri_actions *orders);
