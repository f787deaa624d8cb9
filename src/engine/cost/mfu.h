/* mfu.h - model FLOPs utilisation: what a step nominally computes, over what the ranks' devices could compute in its
 * time. */
#pragma once

#include "data/dataset/dataset.h"
#include "engine/engine.h"
#include "engine/cost/peaks.h"

/* The nominal FLOPs of training on some tokens of an encoder (0 primary, 1 secondary): three times the matrix products
 * of the layers' forward pass, regardless of recomputed or skipped work; bench/torch_step.py has the same formula.
 * Layers that a step leaves out do not count: those of `now` or, where it is NULL, as many as in the mean over the
 * steps. squares: the sum over sequences of length squared. */
double tri__nominal_flops(const tri_engine *engine, int text, double tokens, double squares, const tri_open_gates *now);
/* The same of a batch, all texts: rows [n] of the data, real tokens only. */
double tri__nominal_batch(const tri_engine *engine, const tri_dataset *data, const int64_t *rows, int64_t n,
                          const tri_open_gates *now);

/* What all ranks' devices together can compute. */
typedef struct tri_peak {
    double flops;    /* a second; 0: unknown */
    double team;     /* of one rank's threads, where this rank measured it; 0 */
    char key[TRI_PEAK_KEY]; /* what that holds for: the machine, its instructions, type, threads */
    char from[64];   /* where the figure comes from: "hardware NAME", "measured"; "" if unknown */
} tri_peak;
/* peak_flops of settings->hardware if it has that; else, on the CPU, measured in a few milliseconds by one rank of each
 * machine, which keeps the highest that was ever measured there (settings->peaks): products in the type that the run
 * computes in, times the ranks that have cores to themselves. Every rank calls it. */
tri_status tri__peak_find(const tri_settings *settings, const tri_engine *engine, tri_peak *out);
/* A step did so many FLOPs a second, nominal ones on all ranks and executed ones on this. More than a measured peak: it
 * was too low, and is replaced; what was executed is kept in the file `path`, too. */
void tri__peak_reached(const char *path, double nominal, double executed, tri_peak *peak);
