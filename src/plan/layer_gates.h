/* layer_gates.h - progressive layer dropping (Zhang and He, 2020): which layers a step leaves out. Pure functions of
 * the settings, the seed and the step, so that every rank of every mesh knows them without asking. Steps count from 0.
 *
 *   theta(t) = (1 - theta) exp(-gamma t) + theta      falls from 1 towards theta
 *   p_l(t)   = 1 - l / L (1 - theta(t))               layer l = 1 .. L of an encoder is kept: later ones less often
 *
 * A layer's gate is open where a number of Philox, key (seed, "gate primary.layer.3"), counter (step, 0, 0, 3), is
 * below p_l. A layer that is kept has its sub-layers divided by p_l (model/bert.c). */
#pragma once

#include "plan/plan.h"

/* Fills in gamma where it was left out: 100 / steps, the paper's rule, with which theta(t) is within 1 % of theta from
 * a twentieth of the run on; DeepSpeed's 0.001 where the number of steps is not known. */
void tri__layer_drop_resolve(tri_layer_drop *how);
/* For settings that were resolved. */
double tri__layer_theta(const tri_layer_drop *how, int64_t step);
double tri__layer_keep(const tri_layer_drop *how, int64_t layer, int64_t layers, int64_t step);
/* The mean over the steps of the run; of TRI_TYPICAL_STEPS where their number is not known. */
double tri__layer_keep_mean(const tri_layer_drop *how, int64_t layer, int64_t layers);
/* Whether a gate that is open with probability `keep` is open in a step. */
int tri__layer_gate(uint32_t seed, int64_t step, const char *name, double keep);

/* The gates of all layers of a model in a step, closed ones into `now`, and the factors of their sub-layers:
 * scale [tri__model_layers]. Without layer dropping all are open, and the factors 1. */
void tri__layer_gates_step(const tri_layer_drop *how, const tri_network *model, uint32_t seed, int64_t step,
                           tri_open_gates *now, float *scale);
/* How many layers of a text's encoder compute: in a step, or, without `now`, in the mean over the steps. */
double tri__layers_open(const tri_layer_drop *how, const tri_network *model, int text, const tri_open_gates *now);
/* Gives a program the gates of a model's layers; TRI_USAGE where it has too many. */
tri_status tri__layer_gates_set(tri_arena *arena, const tri_layer_drop *how, const tri_network *model,
                                tri_program *program);
