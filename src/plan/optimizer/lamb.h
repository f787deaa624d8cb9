/* lamb.h - what LAMB and 1-bit LAMB share: sums for each parameter that decays, over all ranks that hold some of it. */
#pragma once

#include "plan/optimizer.h"

enum { TRI_LAMB_M, TRI_LAMB_V }; /* states */

/* A step to be taken once all ratios are known. */
typedef struct tri_lamb_step {
    int unit;              /* of the program */
    int p, m, v, sums;     /* slots; sums -1: the ratio is 1 */
    tri_attr attr;
} tri_lamb_step;

typedef struct tri_lamb {
    int n;                 /* parameters that decay */
    int sums;              /* slot [1, 2 * n]; -1: none do */
    int *at;               /* [n_params] the parameter's number among those; -1: it does not decay */
    int *view;             /* [n_params] slots of its two sums */
    int none;              /* a slot without elements */
    tri_lamb_step *step;
    int n_steps, cap_steps;
} tri_lamb;

/* Adds the states of the moments, and makes the slots; up->own is set. */
void tri__lamb_open(tri_updating *up, tri_lamb *l);
/* Emits moments and sums, and adds the sums over the ranks. */
void tri__lamb_moments(tri_updating *up);
/* Then the steps. */
void tri__lamb_steps(tri_updating *up);

/* A parameter that decays: the elements of it that this rank updates, and whether they count here: not where another
 * rank of the tp group has the same ones. */
typedef struct tri_lamb_param {
    int index;
    tri_run run;
    int counts;
} tri_lamb_param;
/* Calls `emit` for each, with the builder at its unit. */
void tri__each_decaying(tri_updating *up, void *with, void (*emit)(void *with, const tri_lamb_param *param));
/* Sets slot's element k to 0. */
void tri__lamb_zero(tri_updating *up, int slot, int k);
/* tri__update_reduce among ranks that hold shards of the parameters, and in the tp group, as far as there are any. */
void tri__lamb_reduce(tri_updating *up, int slot, int most);
