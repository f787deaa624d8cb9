/* halving.h - successive halving (Jamieson and Talwalkar, AISTATS 2016): all trials train a little, the best part of
 * them goes on to several times as much, and so on up to the whole. */
#ifndef TRI_JOB_HALVING_H
#define TRI_JOB_HALVING_H

#include <stdint.h>

enum { TRI_RUNGS_MAX = 32 };

typedef struct tri_rung {
    int64_t epochs; /* that a trial has trained at its end */
    int trials;     /* most that train in it */
} tri_rung;

/* Rungs of `trials` trials of at most `epochs`: each keeps 1 / factor of the trials and trains `factor` times as long
 * as the one before; as many as both numbers allow. factor 1: one rung, of all epochs. Returns their number. */
int tri__rungs(int trials, int64_t epochs, int factor, tri_rung out[static TRI_RUNGS_MAX]);

#endif
