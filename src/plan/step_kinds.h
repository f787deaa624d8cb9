/* step_kinds.h - which steps of a run are of which kind (TRI_GATES of program/program.h): pure functions of the
 * optimizer's settings and of the step, so that every rank knows each step's kind without asking. Steps count from 0.
 *
 *   1-bit Adam, 1-bit LAMB   full .. full, turn, signs .. signs: full_steps steps are full
 *   0/1 Adam                 until var_freeze_step, variance at an interval that doubles after var_update_scaler of
 *                            them, signs otherwise; then signs for local_step_scaler steps, and after them sync at an
 *                            interval of 2 steps that doubles every local_step_scaler steps up to local_step_clipper,
 *                            alone between them. The last step is never alone
 *   sync_every               alone, and sync at every sync_every-th step and at the last one
 *   others                   no kinds */
#pragma once

#include "plan/plan.h"

/* Whether the momentum travels as signs (after its full steps). */
int tri__is_onebit(tri_optimizer_kind kind);
unsigned tri__optimizer_takes(tri_optimizer_kind kind); /* TRI_TAKES_BETAS, ... */
/* Numbers that it keeps for an element, at least. */
int tri__optimizer_moments(tri_optimizer_kind kind);
/* Steps over which the variance averages: 1 / (1 - beta2). One that has seen fewer is not stable yet. */
int64_t tri__variance_window(const tri_optimizing *how);
/* Fills in what 0 stands for: full_steps: a fifth of the run, at least `warmup` and the variance's window;
 * var_freeze_step: half of the run, at least `warmup`. Runs of an unknown number of steps count as
 * TRI_TYPICAL_STEPS. */
enum { TRI_TYPICAL_STEPS = 100000 };
void tri__step_kinds_resolve(tri_optimizing *how, int64_t warmup);

/* For settings that were resolved. The kinds that occur, TRI_GATE or-ed; 0: all steps are the same. */
uint32_t tri__step_gates(const tri_optimizing *how);
/* The kind of a step, one bit; 0: there are no kinds. */
uint32_t tri__step_gate(const tri_optimizing *how, int64_t step);
/* Of the steps before `step`, those of a kind; all of them where there are no kinds. */
int64_t tri__steps_of_kind(const tri_optimizing *how, uint32_t gate, int64_t step);
/* The kinds in which gradients are summed over replicas as they are; 0: all. */
uint32_t tri__sum_gates(const tri_optimizing *how);
/* Steps before `step` that update the variance: its bias correction has this power of beta2. */
int64_t tri__variance_steps(const tri_optimizing *how, int64_t step);
/* The steps [begin, end) that end with the synchronisation by which what step `step` did is exchanged: it alone, unless
 * it is an alone step or a sync of 0/1 Adam. */
void tri__step_window(const tri_optimizing *how, int64_t step, int64_t *begin, int64_t *end);
/* Sets a program's kinds and their shares of the run. */
void tri__step_kinds_set(const tri_optimizing *how, tri_program *program);
